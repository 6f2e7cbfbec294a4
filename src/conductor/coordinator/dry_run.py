"""Dry runs: run a workflow in memory, without workers, with mocked outputs (`POST /workflow/test`).

Each attempt at a task takes the next mock of the task, and ends at once with the result in the mock. A task without a
mock stays open, and the answer shows the workflow at that point. Sub-workflows run too, with mocks of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Annotated

import msgspec
from msgspec import Meta, field

from conductor.common.clock import Clock
from conductor.coordinator.core import Core
from conductor.coordinator.definitions import json_schemas, task_defs, workflow_defs
from conductor.coordinator.limits import (
    MAX_DRY_RUN_MOCKS,
    MAX_DRY_RUN_STEPS,
    MAX_DRY_RUN_TASKS,
    MAX_DRY_RUN_TASKS_PER_MOCK,
)
from conductor.coordinator.request_errors import bad_request
from conductor.coordinator.store.database_file import MEMORY
from conductor.coordinator.store.lookup import get_workflow, open_tasks
from conductor.coordinator.store.rows import TaskRow
from conductor.coordinator.store.statements import COUNT_TASKS, NEAREST_WAKE
from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.store.writer import Store
from conductor.coordinator.tasks.task_report import ReportedStatus, report_on
from conductor.coordinator.views.workflow_views import read_whole_workflow
from conductor.coordinator.workflows.effects import Start, check_start
from conductor.protocol.json_types import JsonObject

_LIMIT = (
    f"the limit is {MAX_DRY_RUN_TASKS} plus {MAX_DRY_RUN_TASKS_PER_MOCK} for each mock; "
    "check for a loop that never waits"
)
_Milliseconds = Annotated[int, Meta(ge=0, lt=2**40)]


class MockedAttempt(msgspec.Struct, rename="camel"):
    """The result of one attempt at a task, and its simulated queue and execution times."""

    status: ReportedStatus = "COMPLETED"
    output: JsonObject | None = None
    execution_time: _Milliseconds = 0
    queue_wait_time: _Milliseconds = 0


class DryRunRequest(Start, rename="camel", kw_only=True):
    """A start request, with a list of mocked attempts for each task, by reference name."""

    task_ref_to_mock_output: dict[str, list[MockedAttempt]] = field(default_factory=dict)
    sub_workflow_test_request: dict[str, DryRunRequest] = field(default_factory=dict)

    def count(self) -> int:
        """Return the number of mocks, including those of sub-workflows."""
        own = sum(len(mocks) for mocks in self.task_ref_to_mock_output.values())
        return own + sum(request.count() for request in self.sub_workflow_test_request.values())

    def check(self) -> None:
        """Reject a request that cannot run."""
        if not (self.name or "").strip():
            raise bad_request("a workflow test must name the workflow")
        if self.count() > MAX_DRY_RUN_MOCKS:
            raise bad_request(f"a workflow test can have at most {MAX_DRY_RUN_MOCKS} mocks, not {self.count()}")
        check_start(self)


class Definitions(msgspec.Struct):
    """All registered definitions, to be copied into the store of a dry run."""

    workflows: list[JsonObject]
    tasks: list[JsonObject]
    schemas: list[JsonObject]


def load_definitions(tx: Tx) -> Definitions:
    """Return all registered definitions."""
    return Definitions(workflow_defs.all_workflow_defs(tx), task_defs.all_task_defs(tx), json_schemas.all_schemas(tx))


def run(request: DryRunRequest, registered: Definitions, now_ms: int) -> bytes:
    """Run a workflow until nothing is left to do, and return it as JSON. Must not be called on the event loop."""
    clock = _SimulatedClock(now_ms)
    store = Store(MEMORY, clock=clock)
    try:
        core = Core(store, clock)
        max_tasks = MAX_DRY_RUN_TASKS + MAX_DRY_RUN_TASKS_PER_MOCK * request.count()
        store.call(lambda tx: _register(tx, registered))
        workflow = store.call(lambda tx: core.workflows.executions.start(tx, request))
        for _ in range(MAX_DRY_RUN_STEPS):
            if store.call(lambda tx: tx.first(COUNT_TASKS) or 0) > max_tasks:
                raise bad_request(f"the test creates more than {max_tasks} tasks; {_LIMIT}")
            found = store.call(lambda tx: _find_mocked_task(tx, core, workflow, request))
            if found is not None:
                row, mocks = found
                mock = mocks.pop(0)
                clock.now_ms += mock.queue_wait_time + mock.execution_time
                store.call(partial(_end_task, core=core, row=row, mock=mock))
            elif not store.call(_has_due_work):
                break
        return store.call(
            lambda tx: msgspec.json.encode(
                read_whole_workflow(tx, core.reader.snapshots, get_workflow(tx, workflow), with_tasks=True)
            )
        )
    finally:
        store.close()


class _SimulatedClock(Clock):
    """A clock that stands still until a mock adds its simulated times."""

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms

    def wall_ms(self) -> int:
        return self.now_ms


def _register(tx: Tx, registered: Definitions) -> None:
    for definition in registered.workflows:
        workflow_defs.put_workflow_def(tx, definition, overwrite=True)
    for definition in registered.tasks:
        task_defs.put_task_def(tx, task_defs.parse_task_def(definition))
    for schema in registered.schemas:
        json_schemas.put_schema(tx, schema["name"], int(schema.get("version") or 1), schema)


def _find_mocked_task(
    tx: Tx, core: Core, workflow: int, request: DryRunRequest
) -> tuple[TaskRow, list[MockedAttempt]] | None:
    """Apply the passed deadlines, and return the first open task that has unused mocks."""
    core.tasks.apply_deadlines(tx)
    return next(_find_mocked_tasks(tx, workflow, request), None)


def _find_mocked_tasks(tx: Tx, workflow: int, request: DryRunRequest) -> Iterator[tuple[TaskRow, list[MockedAttempt]]]:
    for row in open_tasks(tx, workflow):
        ref = row.ref.rpartition("__")[0] if row.iteration else row.ref
        mocks = request.task_ref_to_mock_output.get(row.ref) or request.task_ref_to_mock_output.get(ref)
        if mocks:
            yield row, mocks
        elif row.sub_workflow is not None and ref in request.sub_workflow_test_request:
            yield from _find_mocked_tasks(tx, row.sub_workflow, request.sub_workflow_test_request[ref])


def _has_due_work(tx: Tx) -> bool:
    due_ms = tx.first(NEAREST_WAKE)
    return due_ms is not None and due_ms <= tx.now_ms


def _end_task(tx: Tx, core: Core, row: TaskRow, mock: MockedAttempt) -> None:
    (outcome,) = core.tasks.judge(tx, [report_on(tx, row, mock.status, mock.output or {})])
    outcome.raise_for_verdict()
