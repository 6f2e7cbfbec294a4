"""Each action of an event handler, made true. Runs inside transactions. ApiError says why one cannot be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from conductor.coordinator.request_errors import bad_request, conflict, not_found
from conductor.coordinator.store.lookup import find_workflow, get_task
from conductor.coordinator.store.rows import TaskRow, WorkflowRow
from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.tasks.task_report import Outcome, Report, ReportedStatus, report_on
from conductor.coordinator.workflows import workflow_actions
from conductor.coordinator.workflows.effects import Start, check_start
from conductor.coordinator.workflows.executions import Executions
from conductor.coordinator.workflows.workflow_signals import find_open_task

#: The verdicts on reports, and what follows from them.
Judge = Callable[[Tx, Sequence[Report]], list[Outcome]]


class EventActions:
    """What handlers can do."""

    def __init__(self, executions: Executions, judge: Judge) -> None:
        self._executions = executions
        self._judge = judge

    def carry_out(
        self, tx: Tx, kind: str | None, asked: dict[str, Any], about: dict[str, Any], publisher: WorkflowRow | None
    ) -> None:
        """Do one thing; `about` is what a workflow or task is told of the event."""
        if kind == "start_workflow":
            self._start(tx, asked, about, publisher)
        elif kind in ("complete_task", "fail_task"):
            self._end_task(tx, asked, about, "COMPLETED" if kind == "complete_task" else "FAILED")
        elif kind == "terminate_workflow":
            workflow = find_workflow(tx, _text(asked, "workflowId"))
            reason = asked.get("terminationReason")
            self._executions.act(
                tx, workflow.pk, workflow_actions.terminate, reason=None if reason is None else str(reason)
            )
        elif kind == "update_workflow_variables":
            self._set_variables(tx, asked)

    def _start(self, tx: Tx, asked: dict[str, Any], about: dict[str, Any], publisher: WorkflowRow | None) -> None:
        try:
            start = msgspec.convert(asked, Start, strict=False)
        except msgspec.ValidationError as error:
            raise bad_request(f"start_workflow: {error}") from error
        check_start(start)
        start.input = {**(start.input or {}), **about}
        self._executions.start(tx, start, publisher)

    def _end_task(self, tx: Tx, asked: dict[str, Any], about: dict[str, Any], status: ReportedStatus) -> None:
        row = _task(tx, asked)
        output = asked.get("output")
        told = {**(output if isinstance(output, dict) else {}), **about}
        (outcome,) = self._judge(tx, [report_on(tx, row, status, told)])
        outcome.raise_for_verdict()

    def _set_variables(self, tx: Tx, asked: dict[str, Any]) -> None:
        row = find_workflow(tx, _text(asked, "workflowId"))
        if row.terminal:
            raise conflict(f"workflow {asked['workflowId']} is over: {row.status}")
        live = self._executions.live_workflow(tx, row.pk)
        variables: dict[str, Any] = msgspec.json.decode(live.data.variables or b"{}")
        for name, value in (asked.get("variables") or {}).items():
            before = variables.get(name)
            appends = asked.get("appendArray") and isinstance(before, list) and isinstance(value, list)
            variables[name] = [*before, *value] if appends and isinstance(before, list) else value
        live.change_data(tx, replace(live.data, variables=msgspec.json.encode(variables)))
        self._executions.advance(tx, [row.pk])


def _task(tx: Tx, asked: dict[str, Any]) -> TaskRow:
    """By its id, or by its workflow and reference name."""
    if asked.get("taskId"):
        found = get_task(tx, tx.ids.task_pk(str(asked["taskId"])))
    else:
        found = find_open_task(tx, _text(asked, "workflowId"), _text(asked, "taskRefName"))
    if found is None:
        raise not_found(f"there is no open task {asked.get('taskId') or asked.get('taskRefName')} to update")
    return found


def _text(asked: dict[str, Any], name: str) -> str:
    value = asked.get(name)
    if not isinstance(value, str) or not value:
        raise bad_request(f"{name} of the event is {value!r}")
    return value
