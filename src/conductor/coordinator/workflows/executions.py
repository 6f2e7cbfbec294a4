"""Starts stored workflows, takes their next steps, and runs actions on them.

    start ─▶ advance ─▶ decide (decider.py) ─▶ carry out (effects.py) ─▶ advance the workflows that changed ─▶ ...

Runs inside transactions. An error in one workflow ends that workflow and no other.
"""

from __future__ import annotations

import logging
import random
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from conductor.coordinator.definitions.definition_snapshots import Snapshot, Snapshots
from conductor.coordinator.definitions.task_defs import get_task_def
from conductor.coordinator.definitions.workflow_plan import SCRIPT_OPERATORS
from conductor.coordinator.language.value_sizes import TooLarge, check_size
from conductor.coordinator.limits import (
    MAX_CRASHES_PER_WORKFLOW,
    STEPS_PER_TRANSACTION,
    STEPS_PER_TRANSACTION_S,
    TURN_S,
)
from conductor.coordinator.request_errors import ApiError, bad_request, conflict
from conductor.coordinator.settings.placeholders import resolve_without_data
from conductor.coordinator.store.lookup import get_task, get_workflow, remove_workflow
from conductor.coordinator.store.row_cache import CachedWorkflow
from conductor.coordinator.store.rows import WorkflowRow
from conductor.coordinator.store.statements import (
    CLEAR_SUSPECT,
    MARK_FOR_TERMINATION,
    MARKED_FOR_TERMINATION,
    REASON_OF_TERMINATION,
    RUNNING_CALLS,
    UNMARK_FOR_TERMINATION,
    WORKFLOW,
)
from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.store.writer import is_fault_of_file
from conductor.coordinator.tasks import task_steps
from conductor.coordinator.tasks.poll_data import PollData
from conductor.coordinator.tasks.task_queue import TaskQueue
from conductor.coordinator.tasks.task_report import NewWait, Report
from conductor.coordinator.workflows import messages, workflow_actions, workflow_rate_limits
from conductor.coordinator.workflows.decider import decide, find_needed_script
from conductor.coordinator.workflows.decision import Decision
from conductor.coordinator.workflows.effects import Effects, Start, ancestors, find_idempotent, next_workflow_wake
from conductor.coordinator.workflows.state import WorkflowState, no_messages
from conductor.coordinator.workflows.stored_tasks import StoredTasks
from conductor.protocol.json_types import Json
from conductor.protocol.statuses import TERMINAL_WORKFLOW_STATUSES, WorkflowStatus
from conductor.protocol.wire import MAX_REASON_CHARS

logger = logging.getLogger(__name__)

#: The actions that run an ended workflow again, by name.
REOPENING: dict[str, workflow_actions.Action] = {
    action.__name__: action for action in (workflow_actions.retry, workflow_actions.restart, workflow_actions.rerun)
}

#: A function that changes one workflow, and returns the workflows that must be decided because of it.
Step = Callable[[Tx, int], list[int]]

#: Takes a workflow and the name of a stored message. Gives the message to a task that waits for this name, if any.
OnMessage = Callable[[Tx, int, str | None], None]

_decode = msgspec.json.Decoder(dict[str, Any]).decode


class Executions:
    """Starts workflows, takes their steps, and runs actions on them."""

    def __init__(self, queue: TaskQueue, snapshots: Snapshots, poll_data: PollData) -> None:
        self._queue = queue
        self._snapshots = snapshots
        self._effects = Effects(queue, snapshots, poll_data)
        #: Called after a message was stored, before the decider reads it.
        self.on_message: OnMessage = self._give_message

    # -- starting -------------------------------------------------------------------------------------------------

    def start(
        self,
        tx: Tx,
        start: Start,
        starter: WorkflowRow | None = None,
        started_by: str | None = None,
        *,
        is_definition_from_data: bool = False,
    ) -> int:
        """Start a workflow, take its first step, and return its key.

        Args:
            tx: The transaction.
            start: The start request.
            starter: The workflow that requests the start; None if no workflow does.
            started_by: The client for the audit trail, as `audit.encode_actor` returns it.
            is_definition_from_data: Whether a definition in the request came from data, such as a worker's output. Its
                tasks then receive no secrets.
        """
        present = find_idempotent(tx, start) if start.idempotency_key else None
        if present is not None:
            return present.pk
        chains = self._effects.chains
        family = None if starter is None else chains.family_of(ancestors(tx, starter))
        pk = self._effects.create(tx, start, None, started_by, is_definition_from_data=is_definition_from_data).row.pk
        if family is not None:
            chains.add(family, pk)
        moved = self.run_guarded(tx, pk, self._step)
        if moved or tx.notes.terminations:  # usually the start affects no other workflow
            self.advance(tx, moved)
        return pk

    def has_literal_definition(self, tx: Tx, workflow: WorkflowRow, ref: str, definition: Json) -> bool:
        """Return whether the workflow definition itself contains the definition that a START_WORKFLOW task starts."""
        snapshot = self._snapshots.get(tx, workflow.snapshot)
        request = snapshot.task(ref).input_template.get("startWorkflow")
        literal = request.get("workflowDef") if isinstance(request, dict) else None
        return not snapshot.is_from_data and resolve_without_data(literal) == definition

    # -- advancing ------------------------------------------------------------------------------------------------

    def advance(self, tx: Tx, workflows: Iterable[int], seconds: float = STEPS_PER_TRANSACTION_S) -> None:
        """Take the next step of these workflows, and of every workflow that these steps affect.

        Sub-workflows that the steps mark for termination are terminated, too. Work beyond `seconds` of CPU time or
        `STEPS_PER_TRANSACTION` steps is postponed to the next transactions.
        """
        work = deque(dict.fromkeys(workflows))
        # Measure CPU time, so that a transaction does the same amount of work on a busy machine.
        max_steps, ends_s, taken = len(work) + STEPS_PER_TRANSACTION, time.thread_time() + seconds, 0
        while work or tx.notes.terminations:
            if taken >= max_steps or (taken and time.thread_time() > ends_s):
                self._postpone(tx, work)
                return
            if work:
                work.extend(self.run_guarded(tx, work.popleft(), self._step))
            else:
                work.extend(self._terminate_marked(tx, tx.notes.terminations.pop()))
            taken += 1

    def _postpone(self, tx: Tx, workflows: Iterable[int]) -> None:
        """Leave the steps of these workflows to the next transaction, so that other callers are served first."""
        tx.notes.terminations.clear()  # the timer finds the marks in the table `termination`
        for pk in workflows:
            cached = tx.cache.workflow(tx, pk)
            if cached is not None:
                cached.update(tx, wake_at_ms=tx.now_ms)
        tx.notes.add_wake(tx.now_ms)

    def _step(self, tx: Tx, pk: int, answers: dict[str, Any] | None = None) -> list[int]:
        """Decide one workflow and carry out the decision. Return the workflows that must be decided because of it."""
        cached = self.get_cached(tx, pk)
        if cached.row.status in TERMINAL_WORKFLOW_STATUSES:
            if cached.row.wake_at_ms is not None:  # the step was postponed, and the workflow has ended since
                cached.update(tx, wake_at_ms=None)
            return []
        snapshot = self._snapshots.get(tx, cached.row.snapshot)
        if snapshot.definition.get("rateLimitConfig") and cached.row.status == WorkflowStatus.RUNNING:
            turn = workflow_rate_limits.take_turn(tx, cached.row, snapshot.definition)
            if turn.waits:
                return self._hold(tx, cached, snapshot)
            if turn.starts:
                return [*self._begin(tx, cached, turn.action), *workflow_rate_limits.next_in_line(tx, pk)]
        return self._decide(tx, cached, snapshot, answers)

    def _decide(self, tx: Tx, cached: CachedWorkflow, snapshot: Snapshot, answers: dict[str, Any] | None) -> list[int]:
        pk = cached.row.pk
        state = load_state(tx, cached, snapshot)
        new_id, jitter = partial(tx.cache.new_task_id, tx), random.random()
        decision = decide(state, tx.now_ms, new_id, jitter=jitter, answers=answers)
        touched = self._effects.carry_out(tx, cached, snapshot, state, decision)
        self._mark_children(tx, pk, decision)
        return touched

    # -- rate limits ---------------------------------------------------------------------------------------------------

    def _hold(self, tx: Tx, cached: CachedWorkflow, snapshot: Snapshot) -> list[int]:
        """Let a workflow wait for its rate-limit turn. Return the first waiting workflow, unless it is this one."""
        wake_at_ms = next_workflow_wake(tx, cached.row, snapshot.definition, None)
        tx.notes.add_wake(wake_at_ms)
        cached.update(tx, wake_at_ms=wake_at_ms)
        return [pk for pk in workflow_rate_limits.next_in_line(tx, cached.row.pk) if pk != cached.row.pk]

    def _begin(self, tx: Tx, cached: CachedWorkflow, waiting: workflow_rate_limits.WaitingAction | None) -> list[int]:
        """Start a workflow whose turn has come, with its first step or with the action that waited for the turn.

        Return the workflows that must be decided because of it.
        """
        if waiting is None:
            return self._decide(tx, cached, self._snapshots.get(tx, cached.row.snapshot), None)
        return self.act_on(tx, cached.row.pk, REOPENING[waiting.action], had_ended=waiting.status, **waiting.options)

    def begin_waits(self, tx: Tx, waits: Iterable[NewWait]) -> list[int]:
        """Start the workflows that new durable steps wait for, and give the steps messages that have arrived before.

        Return the workflows that must be decided because of it.
        """
        return [pk for wait in waits for pk in self._effects.begin_wait(tx, wait)]

    def remove(self, tx: Tx, row: WorkflowRow) -> None:
        """Remove a workflow. A running one is terminated first: its parent waits for it, and it has sub-workflows."""
        if not row.terminal:
            self.act(tx, row.pk, workflow_actions.terminate, reason="the workflow was removed")
        remove_workflow(tx, row.pk)

    def get_cached(self, tx: Tx, pk: int) -> CachedWorkflow:
        """Return a workflow that is known to exist."""
        cached = tx.cache.workflow(tx, pk)
        if cached is None:
            raise LookupError(f"workflow {pk} is not in the database")
        return cached

    # -- messages and variables -----------------------------------------------------------------------------------

    def send(self, tx: Tx, row: WorkflowRow, payload: dict[str, Any]) -> str:
        """Send a message to a running workflow, give the message to the task that waits for it, and return its id.

        Raises:
            ApiError: The workflow is not RUNNING, or it cannot accept the message.
        """
        if row.status != WorkflowStatus.RUNNING:
            raise conflict(
                f"Workflow {tx.ids.workflow(row.pk)} is not in RUNNING state (current: {row.status}), "
                "so it accepts no messages"
            )
        name = messages.name_of(payload)
        message_id = messages.add(tx, row.pk, payload, is_awaited=self._is_awaited(tx, row.pk, name))
        self.on_message(tx, row.pk, name)
        self.advance(tx, [row.pk])
        return message_id

    def _is_awaited(self, tx: Tx, workflow: int, name: str | None) -> bool:
        """Return whether a durable step waits for a message with this name."""
        if name is None:
            return False
        tasks = self.get_cached(tx, workflow).queued.values()
        return any(task_steps.find_message_wait(tx, task.row, name) is not None for task in tasks)

    def _give_message(self, tx: Tx, workflow: int, name: str | None) -> None:
        """Give a message that was just stored to the first task with a durable step that waits for the message name."""
        cached = self.get_cached(tx, workflow)
        if name is None or not any(task.row.step_count for task in cached.queued.values()):
            return
        for _, task in sorted(cached.queued.items()):
            if self._effects.give_message(tx, cached, task, name):
                return

    def set_variables(
        self, tx: Tx, row: WorkflowRow, variables: Mapping[str, Any], *, extends_lists: bool = False
    ) -> None:
        """Set variables of a workflow that has not ended, and decide the workflow again.

        Args:
            tx: The transaction.
            row: The workflow.
            variables: The new values. Other variables keep their values.
            extends_lists: Whether a list is appended to a variable that is a list.
        """
        if row.terminal:
            raise conflict(f"workflow {tx.ids.workflow(row.pk)} has ended ({row.status}), so its variables are final")
        cached = self.get_cached(tx, row.pk)
        values = _decode(cached.data.variables or b"{}")
        for name, value in variables.items():
            before = values.get(name)
            if extends_lists and isinstance(before, list) and isinstance(value, list):
                value = [*before, *value]
            values[name] = value
        try:
            check_size("the variables of this workflow", values)
        except TooLarge as error:
            raise bad_request(str(error)) from error
        cached.update(tx, variables=msgspec.json.encode(values))
        tx.notes.changed_workflows.add(row.pk)
        self.advance(tx, [row.pk])

    # -- scripts --------------------------------------------------------------------------------------------------

    def waits_for_script(self, tx: Tx, pk: int) -> bool:
        """Return whether a task of this workflow waits for a script that is running or is queued without a delay."""
        cached = tx.cache.workflow(tx, pk)
        if cached is None or cached.row.status != WorkflowStatus.RUNNING or not cached.queued:
            return False
        if self._snapshots.get(tx, cached.row.snapshot).plan.has_only_worker_tasks:
            return False
        rows = (task.row for task in cached.queued.values())
        return any(row.operator in SCRIPT_OPERATORS and row.due_at_ms is None for row in rows)

    def find_needed_script(self, tx: Tx, report: Report) -> tuple[str, dict[str, Any]] | None:
        """Return the script that a SWITCH or DO_WHILE waits for, and the value of `$` in it.

        Returns:
            None if the task does not wait for a script. In this case its workflow has been decided again.
        """
        pk, task_pk = tx.ids.workflow_pk(report.workflow_instance_id) or 0, tx.ids.task_pk(report.task_id) or 0
        cached = tx.cache.workflow(tx, pk)
        task = cached.task(tx, task_pk) if cached is not None else None
        if cached is None or task is None or task.row.terminal:
            return None
        state = load_state(tx, cached, self._snapshots.get(tx, cached.row.snapshot))
        asked = find_needed_script(state, StoredTasks(tx, cached).state(task), tx.now_ms)
        if asked is None:
            self._continue(tx, report, {})
        return asked

    def continue_with_value(self, tx: Tx, report: Report, value: Any) -> None:
        """Decide a workflow again, now that the script of a task has a value.

        Args:
            tx: The transaction.
            report: The report on the task that waits for the script.
            value: The value of the script; a `ScriptFailed` if the script has failed.
        """
        self._continue(tx, report, {report.task_id or "": value})

    def _continue(self, tx: Tx, report: Report, answers: dict[str, Any]) -> None:
        if self._queue.remove_from_queue(tx, report):
            pk = tx.ids.workflow_pk(report.workflow_instance_id) or 0
            self.advance(tx, self.run_guarded(tx, pk, partial(self._step, answers=answers)))

    # -- errors ----------------------------------------------------------------------------------------------------

    def run_guarded(self, tx: Tx, pk: int, step: Step) -> list[int]:
        """Take a step of one workflow. Return the workflows that must be decided because of it.

        An error in the step ends only this workflow.

        A transaction first runs without savepoints. If it fails, the writer runs it again with a savepoint for each
        step (`Tx.is_careful`).
        """
        marks = tx.crash_marks
        if marks.is_deadly(pk):
            return self._set_aside(tx, pk)
        with marks.mark_step(pk):
            moved = self._take_carefully(tx, pk, step) if tx.is_careful else step(tx, pk)
        if pk in marks.suspects:
            self._clear_suspect(tx, pk)
        return moved

    def _take_carefully(self, tx: Tx, pk: int, step: Step) -> list[int]:
        try:
            with tx.savepoint():
                return step(tx, pk)
        except (workflow_actions.ActionRefused, ApiError):
            raise
        except Exception as error:
            if is_fault_of_file(error):
                raise
            return self._give_up(tx, pk, error)

    def _clear_suspect(self, tx: Tx, pk: int) -> None:
        """Clear the crash count of a workflow, because its step did not crash the process."""
        del tx.crash_marks.suspects[pk]
        tx.run(CLEAR_SUSPECT, pk)

    def _set_aside(self, tx: Tx, pk: int) -> list[int]:
        """Fail a workflow, without another step, because the process has died repeatedly in its steps.

        Return the workflows that must be decided because of it.
        """
        self._clear_suspect(tx, pk)
        row = get_workflow(tx, pk)
        if row.terminal:
            return []
        reason = f"the coordinator died {MAX_CRASHES_PER_WORKFLOW} times in a row in a step of this workflow"
        logger.error("Workflow is set aside as FAILED: workflow_id=%s reason=%r", tx.ids.workflow(pk), reason)
        return self._end_unread(tx, row, reason)

    def _end_unread(self, tx: Tx, row: WorkflowRow, reason: str) -> list[int]:
        touched, children = self._effects.end_unread(tx, row, reason)
        self._mark_for_termination(tx, row.pk, children, f"reason: {reason}")
        return touched

    def _give_up(self, tx: Tx, pk: int, error: Exception) -> list[int]:
        """Fail a workflow whose step has raised an unexpected error.

        Return the workflows that must be decided because of it.
        """
        row = get_workflow(tx, pk)
        if row.terminal:
            raise error  # an action on an ended workflow has failed; the ended workflow cannot be failed again
        logger.error("Workflow cannot continue and ends as FAILED: workflow_id=%s", tx.ids.workflow(pk), exc_info=error)
        reason = f"the coordinator could not continue this workflow: {_describe_error(error)}"
        try:
            with tx.savepoint():
                return self.act_on(tx, pk, workflow_actions.fail, reason=reason)
        except Exception as again:
            if is_fault_of_file(again):
                raise
            logger.error("Workflow cannot be read: workflow_id=%s", tx.ids.workflow(pk), exc_info=again)
            return self._end_unread(tx, row, reason)

    # -- acting on a whole workflow -------------------------------------------------------------------------------

    def act(
        self,
        tx: Tx,
        pk: int,
        action: workflow_actions.Action,
        *,
        latest: bool = False,
        refused: int = 409,
        **asked: Any,
    ) -> None:
        """Run an action on a whole workflow.

        Args:
            tx: The transaction.
            pk: The workflow.
            action: The action.
            latest: Whether to use the latest definition.
            refused: The HTTP status of the error if the workflow does not allow the action.
            asked: The options of the action.
        """
        snapshot = None
        if latest:
            snapshot = self._snapshots.freeze_registered(tx, get_workflow(tx, pk).name, None)
            asked["plan"] = None if snapshot is None else snapshot.plan
        try:
            touched = self.run_guarded(tx, pk, lambda tx, pk: self.act_on(tx, pk, action, snapshot, **asked))
        except workflow_actions.ActionRefused as reason:
            raise ApiError(refused, str(reason)) from reason
        self.advance(tx, touched)

    def act_on(
        self,
        tx: Tx,
        pk: int,
        action: workflow_actions.Action,
        snapshot: Snapshot | None = None,
        had_ended: str | None = None,
        **asked: Any,
    ) -> list[int]:
        """Run an action on a workflow and on the sub-workflows that it resumes. Must be called inside `run_guarded`.

        Args:
            tx: The transaction.
            pk: The workflow.
            action: The action, such as a retry.
            snapshot: The definition to continue with; None keeps the present one.
            had_ended: The status in which the workflow had ended, if the action has waited for the workflow's
                rate-limit turn. The action needs this status, because the waiting workflow is RUNNING.
            **asked: The options of the action.

        Returns:
            The workflows that the decider must process because of the action.
        """
        resumed: deque[int] = deque()
        touched = self._act_once(tx, pk, action, snapshot, resumed, asked, had_ended)
        while resumed:
            child = resumed.popleft()
            touched += self.run_guarded(tx, child, partial(self._resume, resumed=resumed))
        return touched

    def _act_once(
        self,
        tx: Tx,
        pk: int,
        action: workflow_actions.Action,
        snapshot: Snapshot | None,
        resumed: deque[int],
        asked: dict[str, Any],
        had_ended: str | None = None,
    ) -> list[int]:
        """Run an action on one workflow. Add the sub-workflows that it resumes to `resumed`.

        Return the workflows that must be decided because of the action.
        """
        cached = self.get_cached(tx, pk)
        present = self._snapshots.get(tx, cached.row.snapshot)
        state = load_state(tx, cached, present).with_tasks(StoredTasks(tx, cached).all())
        if had_ended is not None:
            state = replace(state, status=had_ended)
        instead = workflow_actions.ACTIONS_WHILE_WAITING.get(action)
        if (
            instead is not None
            and present.definition.get("rateLimitConfig")
            and workflow_rate_limits.is_waiting(tx, pk)
        ):
            return [pk, *self._effects.carry_out(tx, cached, present, state, instead(state))]
        options = asked
        if "resume" in asked:
            options = {**asked, "resume": self._find_resumable(tx, pk, state) if asked["resume"] else ()}
        decision = action(state, tx.now_ms, partial(tx.cache.new_task_id, tx), **options)
        touched: list[int] = []
        if cached.row.terminal and action in REOPENING.values():
            held = self._line_up_again(tx, cached, snapshot or present, action, asked)
            if held:
                self._effects.reopen(tx, cached, snapshot, decision.correlation_id)
                return [pk, *self._reopen_parents(tx, cached.row, resumed)]
        if decision.workflow_status == WorkflowStatus.RUNNING and cached.row.terminal:
            self._effects.reopen(tx, cached, snapshot, decision.correlation_id)
            # Reopen the parents before this workflow continues, because it may end at once and needs an open parent.
            touched += self._reopen_parents(tx, cached.row, resumed)
        touched += self._effects.carry_out(tx, cached, snapshot or present, state, decision)
        if cached.row.terminal and snapshot is not None:
            # The workflow has ended at once. `Effects._end` frees its turn only if the latest definition has a limit.
            touched += workflow_rate_limits.leave_line(tx, pk)
        resumed.extend(tx.ids.workflow_pk(child) or 0 for child in decision.resume_sub_workflows)
        self._mark_children(tx, pk, decision)
        return touched

    def _line_up_again(
        self, tx: Tx, cached: CachedWorkflow, snapshot: Snapshot, action: workflow_actions.Action, asked: dict[str, Any]
    ) -> bool:
        """Queue an ended workflow that runs again under its rate limit. Return whether it must wait."""
        given = asked.get("workflow_input")
        limit = workflow_rate_limits.find_limit(
            snapshot.definition, cached.row, _decode(cached.data.input) if given is None else given
        )
        if limit is None:
            return False
        options = {name: value for name, value in asked.items() if name != "plan"}
        workflow_rate_limits.line_up(
            tx, cached.row, limit, workflow_rate_limits.WaitingAction(action.__name__, cached.row.status, options)
        )
        return workflow_rate_limits.take_turn(tx, cached.row, snapshot.definition).waits

    def _find_resumable(self, tx: Tx, pk: int, state: WorkflowState) -> frozenset[str]:
        """Return the ids of the sub-workflows that a workflow has started itself and that ended without success."""
        children = {task.sub_workflow_id for task in state.tasks if task.sub_workflow_id}  # type: ignore[attr-defined]
        resumable = set()
        for child in children:
            row = tx.first(WORKFLOW, tx.ids.workflow_pk(child) or 0)
            has_failed = row is not None and row.terminal and row.status != WorkflowStatus.COMPLETED
            if row is not None and has_failed and self._is_child_of(tx, row, pk):
                resumable.add(child)
        return frozenset(resumable)

    def _resume(self, tx: Tx, pk: int, resumed: deque[int]) -> list[int]:
        """Retry an ended sub-workflow because its parent runs again. Restart it if it has no task to retry.

        Return the workflows that must be decided because of it.
        """
        if not self.get_cached(tx, pk).row.terminal:
            return []
        try:
            return self._act_once(tx, pk, workflow_actions.retry, None, resumed, {"resume": True})
        except workflow_actions.ActionRefused:
            return self._act_once(tx, pk, workflow_actions.restart, None, resumed, {})

    def _reopen_parents(self, tx: Tx, row: WorkflowRow, resumed: deque[int]) -> list[int]:
        """Reopen the chain of parents that failed because of this workflow.

        Return the workflows that must be decided because of it.
        """
        touched: list[int] = []
        while True:
            parent = get_task(tx, row.parent_task)
            if parent is None or not parent.terminal or parent.retried or parent.sub_workflow != row.pk:
                return touched
            row = get_workflow(tx, parent.workflow)
            if not row.terminal or row.status == WorkflowStatus.COMPLETED:
                return touched
            step = partial(self._reopen_parent, task_id=tx.ids.task(parent.pk), resumed=resumed)
            touched += [parent.workflow, *self.run_guarded(tx, parent.workflow, step)]

    def _reopen_parent(self, tx: Tx, pk: int, task_id: str, resumed: deque[int]) -> list[int]:
        cached = self.get_cached(tx, pk)
        snapshot = self._snapshots.get(tx, cached.row.snapshot)
        state = load_state(tx, cached, snapshot).with_tasks(StoredTasks(tx, cached).all())
        new_id = partial(tx.cache.new_task_id, tx)
        decision = workflow_actions.reopen(
            state, tx.now_ms, new_id, task_id=task_id, resume=self._find_resumable(tx, pk, state)
        )
        if self._line_up_again(tx, cached, snapshot, workflow_actions.retry, {}):
            raise workflow_actions.ActionRefused(
                f"The parent workflow {state.workflow_id} would continue too, but the limit of concurrent "
                f"{cached.row.name} workflows is reached (rateLimitConfig); try again when one of them has ended"
            )
        self._effects.reopen(tx, cached, None)
        touched = self._effects.carry_out(tx, cached, snapshot, state, decision)
        resumed.extend(tx.ids.workflow_pk(child) or 0 for child in decision.resume_sub_workflows)
        self._mark_children(tx, pk, decision)
        return touched

    def rerun(self, tx: Tx, row: WorkflowRow, *, task_id: str | None = None, **asked: Any) -> None:
        """Run a workflow again from one of its tasks, or from one of a sub-workflow's tasks."""
        task = get_task(tx, tx.ids.task_pk(task_id)) if task_id else None
        owner = get_workflow(tx, task.workflow) if task is not None else row
        refused = 400 if row.terminal else 409
        if owner.pk == row.pk or not row.terminal or row.pk not in (one.pk for one in ancestors(tx, owner)):
            self.act(tx, row.pk, workflow_actions.rerun, refused=refused, task_id=task_id, resume=True, **asked)
            return
        amended = {name: asked.pop(name, None) for name in ("workflow_input", "correlation_id")}
        self._effects.amend(tx, self.get_cached(tx, row.pk), **amended)
        self.act(tx, owner.pk, workflow_actions.rerun, refused=refused, task_id=task_id, resume=True, **asked)

    def _is_child_of(self, tx: Tx, child: WorkflowRow, parent: int) -> bool:
        """Return whether `parent` started a workflow, rather than only sharing the workflow by its idempotency key."""
        task = get_task(tx, child.parent_task)
        return task is not None and task.workflow == parent

    # -- terminating sub-workflows --------------------------------------------------------------------------------
    #
    # A tree of sub-workflows can be large, so it is not terminated in one transaction. The transaction that ends a
    # workflow marks its sub-workflows in the table `termination`. `advance` terminates the first of them at once. The
    # timer terminates the others, in steps of bounded size. A mark is removed by the commit that ends its sub-workflow.

    def terminate_some(self, tx: Tx, limit: int) -> None:
        """Terminate at most `limit` sub-workflows that earlier transactions have marked, for about `TURN_S`."""
        tx.notes.terminations += tx.rows(MARKED_FOR_TERMINATION, limit)
        self.advance(tx, (), TURN_S)

    def _mark_children(self, tx: Tx, pk: int, decision: Decision) -> None:
        children = [tx.ids.workflow_pk(child) or 0 for child in decision.terminate_sub_workflows]
        if decision.workflow_status in TERMINAL_WORKFLOW_STATUSES and self.get_cached(tx, pk).row.has_calls:
            children += tx.rows(RUNNING_CALLS, pk)
        if children:
            why = f"reason: {decision.reason}" if decision.reason else f"status {decision.workflow_status}"
            self._mark_for_termination(tx, pk, children, why)

    def _mark_for_termination(self, tx: Tx, parent: int, children: Sequence[int], why: str) -> None:
        """Mark those running sub-workflows among `children` that `parent` has started itself.

        A sub-workflow that it only shares through an idempotency key belongs to another parent, and is not marked.
        """
        if children:
            reason = f"Parent workflow has been terminated with {why}"
            tx.run_many(MARK_FOR_TERMINATION, [(reason, child, parent) for child in children])
            tx.notes.terminations += children

    def _terminate_marked(self, tx: Tx, pk: int) -> list[int]:
        """Terminate a marked sub-workflow. Return the workflows that must be decided because of it."""
        reason = tx.first(REASON_OF_TERMINATION, pk)
        if reason is None:  # the sub-workflow was not marked, because it had already ended or has another parent
            return []
        tx.run(UNMARK_FOR_TERMINATION, pk)
        cached = tx.cache.workflow(tx, pk)
        if cached is None or cached.row.terminal:
            return []
        return self.run_guarded(tx, pk, lambda tx, pk: self.act_on(tx, pk, workflow_actions.terminate, reason=reason))


def _describe_error(error: Exception) -> str:
    """Return a short description of an error. The log has the traceback."""
    if isinstance(error, RecursionError):
        return "its data is nested too deeply"
    if isinstance(error, MemoryError):
        return "its data does not fit into memory"
    return f"{type(error).__name__}: {error}"[:MAX_REASON_CHARS]


def load_state(tx: Tx, cached: CachedWorkflow, snapshot: Snapshot) -> WorkflowState:
    """Return a stored workflow as the decider reads it."""
    row, data = cached.row, cached.data
    if cached.decoded is None:
        cached.decoded = _decode(data.input), _decode(data.variables or b"{}"), _decode(data.task_to_domain or b"{}")
    given, variables, task_to_domain = cached.decoded
    parent = get_task(tx, row.parent_task) if row.parent_task is not None else None
    return WorkflowState(
        workflow_id=tx.ids.workflow(row.pk),
        plan=snapshot.plan,
        tasks=StoredTasks(tx, cached),
        status=row.status,
        input=given,
        output=_read_output(tx, cached),
        variables=variables,
        correlation_id=row.correlation_id,
        reason=data.reason,
        parent_workflow_id=None if parent is None else tx.ids.workflow(parent.workflow),
        parent_task_id=None if parent is None else tx.ids.task(parent.pk),
        task_to_domain=task_to_domain,
        priority=row.priority,
        restless=row.restless,
        registered=partial(_find_registered, tx),
        messages=no_messages if snapshot.plan.has_only_worker_tasks else partial(messages.read, tx, row.pk),
    )


def _read_output(tx: Tx, cached: CachedWorkflow) -> dict[str, Any]:
    """Return the output of an ended workflow; an empty object while it runs."""
    encoded = cached.data.output
    if (
        encoded is None and cached.row.status == WorkflowStatus.COMPLETED
    ):  # its output is stored only with its last task
        last = cached.task(tx, cached.row.last_task or 0)
        encoded = None if last is None else last.data.output
    return _decode(encoded) if encoded else {}


def _find_registered(tx: Tx, name: str) -> Mapping[str, Any] | None:
    """Return the task definition that is registered now. Cached, because a wide fork reads it many times."""

    def read() -> Mapping[str, Any] | None:
        found = get_task_def(tx, name)
        return None if found is None else found.wire()

    return tx.lookups.get(("registered task definition", name), read)
