"""Permission checks that depend on more than the route: task types of workers, and definitions inside requests.

A definition names the secrets that its tasks receive. So a request that brings its own definition, or an expression
that is evaluated with secrets, needs an admin's key. Otherwise a key with role starter could read every secret.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from conductor.coordinator.definitions.workflow_plan import TASK_TYPES
from conductor.coordinator.http.request import ApiRequest
from conductor.coordinator.keys.roles import Access
from conductor.coordinator.request_errors import ApiError
from conductor.coordinator.store.statements import WHOLE_TASK
from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.task_authority import TaskCheck
from conductor.coordinator.tasks.task_report import Report
from conductor.protocol.json_types import Json
from conductor.protocol.steps import Step, StepKind, StepState
from conductor.protocol.wire import Verdict

#: The task types that workers execute.
_FOR_WORKERS = ("SIMPLE", "DYNAMIC")


def check_task_type(request: ApiRequest, task_type: str) -> None:
    """Raise a 403 if a worker's key does not include a task type."""
    identity = request.identity
    if not identity.may_work_on(task_type):
        raise ApiError(403, f"key {identity.key} does not include task type {task_type[:100]}")


def check_readable(request: ApiRequest, task_type: str) -> None:
    """Raise a 403 if the key may read only tasks of other types."""
    if Access.READ not in request.identity.levels:
        check_task_type(request, task_type)


def check_readable_task(request: ApiRequest, tx: Tx, task_id: str) -> None:
    """Raise a 403 if the key may not read a task. For an unknown task, the caller raises the 404."""
    if Access.READ not in request.identity.levels:
        _check_task_of_worker(request, tx, task_id)


def check_writable_task(request: ApiRequest, tx: Tx, task_id: str) -> None:
    """Raise a 403 if the key may not report a task. For an unknown task, the caller raises the 404."""
    if Access.OPERATE not in request.identity.levels:
        _check_task_of_worker(request, tx, task_id)


def _check_task_of_worker(request: ApiRequest, tx: Tx, task_id: str) -> None:
    found = tx.first(WHOLE_TASK, tx.ids.task_pk(task_id) or 0)
    if found is None:
        return
    check_task_type(request, found.name)
    _check_operator(request, found.row.operator)


def report_check(request: ApiRequest) -> TaskCheck | None:
    """Return the check that a report and its task must pass. None if the key may report every task."""
    if Access.OPERATE in request.identity.levels:
        return None
    may_start = Access.START in request.identity.levels

    def check(report: Report, task_type: str, operator: str) -> None:
        check_task_type(request, task_type)
        _check_operator(request, operator)
        if report.steps and not may_start:
            _check_steps(request, report.steps)

    return check


def _check_steps(request: ApiRequest, steps: Sequence[Step]) -> None:
    for step in steps:
        if step.kind is StepKind.WORKFLOW and step.state is StepState.WAITING:
            raise ApiError(
                403,
                f"key {request.identity.key} may not start workflows, so step {step.key} is not recorded; "
                "give the key of the worker the role starter, too",
                verdict=Verdict.REJECTED,
            )


def _check_operator(request: ApiRequest, operator: str) -> None:
    if operator in TASK_TYPES and operator not in _FOR_WORKERS:
        raise ApiError(403, f"key {request.identity.key} has role worker, and a {operator} task is not a worker's task")


def check_may_poll(request: ApiRequest) -> None:
    """Raise a 403 if the key may not poll, because a delivered task contains the secrets that its definition names."""
    if Access.POLL not in request.identity.levels:
        raise ApiError(403, f"key {request.identity.key} may not receive tasks, which needs role worker or admin")


def check_definition(request: ApiRequest, definition: object) -> None:
    """Raise a 403 if a request brings its own definition and the key is not an admin's."""
    if definition is not None and not request.identity.is_admin:
        raise ApiError(
            403,
            f"key {request.identity.key} may start registered workflows only; "
            "a definition inside a request could read secrets, so it needs role admin",
        )


def check_data(request: ApiRequest, data: Json) -> None:
    """Raise a 403 if a request replaces the input of a task by one with `${...}`, and the key is not an admin's."""
    if not request.identity.is_admin and b"${" in msgspec.json.encode(data):
        raise ApiError(403, f"key {request.identity.key} may not use ${{...}} in an input, which needs role admin")
