"""The actions of event handlers. They run inside transactions; an ApiError says why an action is not possible."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from conductor.coordinator.request_errors import bad_request, not_found
from conductor.coordinator.store.lookup import find_workflow, get_task
from conductor.coordinator.store.rows import TaskRow, WorkflowRow
from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.tasks.task_report import Outcome, Report, ReportedStatus, report_on
from conductor.coordinator.workflows import workflow_actions
from conductor.coordinator.workflows.effects import Start, check_start
from conductor.coordinator.workflows.executions import Executions
from conductor.coordinator.workflows.workflow_signals import find_open_task
from conductor.protocol.json_types import JsonObject

#: Applies reports and returns their verdicts.
Judge = Callable[[Tx, Sequence[Report]], list[Outcome]]


class EventActions:
    """Carries out the actions of event handlers."""

    def __init__(self, executions: Executions, judge: Judge) -> None:
        self._executions = executions
        self._judge = judge

    def carry_out(
        self, tx: Tx, kind: str | None, arguments: JsonObject, about: JsonObject, publisher: WorkflowRow | None
    ) -> None:
        """Carry out one action.

        Args:
            tx: The transaction.
            kind: The kind of the action, such as `start_workflow`.
            arguments: The arguments of the action, with all expressions resolved.
            about: Facts about the event, added to the input of a workflow or the output of a task.
            publisher: The workflow that published the event.
        """
        if kind == "start_workflow":
            self._start(tx, arguments, about, publisher)
        elif kind in ("complete_task", "fail_task"):
            self._end_task(tx, arguments, about, "COMPLETED" if kind == "complete_task" else "FAILED")
        elif kind == "terminate_workflow":
            workflow = find_workflow(tx, _require_text(arguments, "workflowId"))
            reason = arguments.get("terminationReason")
            self._executions.act(
                tx, workflow.pk, workflow_actions.terminate, reason=None if reason is None else str(reason)
            )
        elif kind == "update_workflow_variables":
            self._set_variables(tx, arguments)

    def _start(self, tx: Tx, arguments: JsonObject, about: JsonObject, publisher: WorkflowRow | None) -> None:
        try:
            start = msgspec.convert(arguments, Start, strict=False)
        except msgspec.ValidationError as error:
            raise bad_request(f"start_workflow: {error}") from error
        check_start(start)
        start.input = {**(start.input or {}), **about}
        self._executions.start(tx, start, publisher, is_definition_from_data=True)

    def _end_task(self, tx: Tx, arguments: JsonObject, about: JsonObject, status: ReportedStatus) -> None:
        row = _find_task(tx, arguments)
        output = arguments.get("output")
        reported = {**(output if isinstance(output, dict) else {}), **about}
        (outcome,) = self._judge(tx, [report_on(tx, row, status, reported)])
        outcome.raise_for_verdict()

    def _set_variables(self, tx: Tx, arguments: JsonObject) -> None:
        row = find_workflow(tx, _require_text(arguments, "workflowId"))
        self._executions.set_variables(
            tx, row, arguments.get("variables") or {}, extends_lists=bool(arguments.get("appendArray"))
        )


def _find_task(tx: Tx, arguments: JsonObject) -> TaskRow:
    """Return the task with this id, or the open task with this workflow and reference name."""
    if arguments.get("taskId"):
        found = get_task(tx, tx.ids.task_pk(str(arguments["taskId"])))
    else:
        found = find_open_task(tx, _require_text(arguments, "workflowId"), _require_text(arguments, "taskRefName"))
    if found is None:
        name = arguments.get("taskId") or arguments.get("taskRefName")
        raise not_found(f"there is no open task {name} to update")
    return found


def _require_text(arguments: JsonObject, name: str) -> str:
    value = arguments.get(name)
    if not isinstance(value, str) or not value:
        raise bad_request(f"{name} of the action is {value!r}; it must be a text")
    return value
