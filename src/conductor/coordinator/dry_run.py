"""A run of a workflow with made-up outputs: `POST /workflow/test`. In memory, without workers; nothing of it stays.

Each attempt at a task that has a mock ends as the mock says, at once. A task without one stays open, and the workflow
is answered as it is then. Sub-workflows run too, with mocks of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

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

_LIMIT = f"{MAX_DRY_RUN_TASKS} and {MAX_DRY_RUN_TASKS_PER_MOCK} for each mock: a loop that waits for nothing?"
_Milliseconds = Annotated[int, Meta(ge=0, lt=2**40)]


class MockedAttempt(msgspec.Struct, rename="camel"):
    """How one attempt at a task ends, and how long it is said to have waited and run."""

    status: ReportedStatus = "COMPLETED"
    output: dict[str, Any] | None = None
    execution_time: _Milliseconds = 0
    queue_wait_time: _Milliseconds = 0


class DryRunRequest(Start, rename="camel", kw_only=True):
    """A request to start, with a mock for each attempt at a task, by reference name."""

    task_ref_to_mock_output: dict[str, list[MockedAttempt]] = field(default_factory=dict)
    sub_workflow_test_request: dict[str, DryRunRequest] = field(default_factory=dict)

    def count(self) -> int:
        """How many mocks there are, those of sub-workflows included."""
        own = sum(len(mocks) for mocks in self.task_ref_to_mock_output.values())
        return own + sum(trial.count() for trial in self.sub_workflow_test_request.values())

    def check(self) -> None:
        """Refuse what cannot be run."""
        if not (self.name or "").strip():
            raise bad_request("a test of a workflow needs its name")
        if self.count() > MAX_DRY_RUN_MOCKS:
            raise bad_request(f"a test of a workflow has at most {MAX_DRY_RUN_MOCKS} mocks, not {self.count()}")
        check_start(self)


class Definitions(msgspec.Struct):
    """All that was registered, for a run elsewhere."""

    workflows: list[Any]
    tasks: list[Any]
    schemas: list[Any]


def definitions(tx: Tx) -> Definitions:
    """What is registered now."""
    return Definitions(workflow_defs.all_workflow_defs(tx), task_defs.all_task_defs(tx), json_schemas.all_schemas(tx))


def run(trial: DryRunRequest, known: Definitions, now_ms: int) -> bytes:
    """The workflow as it is when nothing is left to do, as JSON. Takes its time: not for the event loop."""
    clock = _Still(now_ms)
    store = Store(MEMORY, clock=clock)
    try:
        core = Core(store, clock)
        max_tasks = MAX_DRY_RUN_TASKS + MAX_DRY_RUN_TASKS_PER_MOCK * trial.count()
        store.call(lambda tx: _define(tx, known))
        workflow = store.call(lambda tx: core.workflows.executions.start(tx, trial))
        for _ in range(MAX_DRY_RUN_STEPS):
            if store.call(lambda tx: tx.first(COUNT_TASKS) or 0) > max_tasks:
                raise bad_request(f"the test makes more than {max_tasks} tasks, {_LIMIT}")
            found = store.call(lambda tx: _next(tx, core, workflow, trial))
            if found is None:
                break
            for row, mock in found:
                clock.now_ms += mock.queue_wait_time + mock.execution_time
                store.call(lambda tx, row=row, mock=mock: _end(tx, core, row, mock))  # type: ignore[misc]
        return store.call(
            lambda tx: msgspec.json.encode(
                read_whole_workflow(tx, core.reader.snapshots, get_workflow(tx, workflow), with_tasks=True)
            )
        )
    finally:
        store.close()


class _Still(Clock):
    """A clock that stands still but for what mocks are said to have taken."""

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms

    def wall_ms(self) -> int:
        return self.now_ms


def _define(tx: Tx, known: Definitions) -> None:
    for definition in known.workflows:
        workflow_defs.put_workflow_def(tx, definition, overwrite=True)
    for definition in known.tasks:
        task_defs.put_task_def(tx, task_defs.parse_task_def(definition))
    for schema in known.schemas:
        json_schemas.put_schema(tx, schema["name"], int(schema.get("version") or 1), schema)


def _next(tx: Tx, core: Core, workflow: int, trial: DryRunRequest) -> list[tuple[TaskRow, MockedAttempt]] | None:
    """The first open task that has a mock, with it. None: nothing is left to do."""
    core.tasks.apply_deadlines(tx)
    for row, mocks in _mocked(tx, workflow, trial):
        return [(row, mocks.pop(0))]
    due_ms = tx.first(NEAREST_WAKE)
    return [] if due_ms is not None and due_ms <= tx.now_ms else None


def _end(tx: Tx, core: Core, row: TaskRow, mock: MockedAttempt) -> None:
    (outcome,) = core.tasks.judge(tx, [report_on(tx, row, mock.status, mock.output or {})])
    outcome.raise_for_verdict()


def _mocked(tx: Tx, workflow: int, trial: DryRunRequest) -> Iterator[tuple[TaskRow, list[MockedAttempt]]]:
    for row in open_tasks(tx, workflow):
        ref = row.ref.rpartition("__")[0] if row.iteration else row.ref
        mocks = trial.task_ref_to_mock_output.get(row.ref) or trial.task_ref_to_mock_output.get(ref)
        if mocks:
            yield row, mocks
        elif row.sub_workflow is not None and ref in trial.sub_workflow_test_request:
            yield from _mocked(tx, row.sub_workflow, trial.sub_workflow_test_request[ref])
