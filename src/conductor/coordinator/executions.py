"""Workflows in the store: starting them, and carrying out what the decider says. Runs inside transactions."""

from __future__ import annotations

import logging
import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from conductor.coordinator.definition_rules import check_workflow_def
from conductor.coordinator.definitions import Snapshot, Snapshots, TaskDef, queue_pk, type_pk
from conductor.coordinator.draft import Decision, SubWorkflowStart
from conductor.coordinator.errors import ApiError, bad_request, conflict, not_found
from conductor.coordinator.poll_data import PollData
from conductor.coordinator.schema_check import input_problem
from conductor.coordinator.sizes import MAX_VALUE_BYTES
from conductor.coordinator.store import Tx, is_fault_of_file
from conductor.coordinator.stored_tasks import StoredTasks
from conductor.coordinator.task_queue import Expired, TaskQueue, next_wake
from conductor.coordinator.task_row import TaskRow
from conductor.coordinator.workflow_actions import ActionRefused, fail, reopen, terminate, time_out
from conductor.coordinator.workflow_row import WorkflowData, WorkflowRow
from conductor.coordinator.workflow_state import TaskState, WorkflowState
from conductor.coordinator.workflows import after_sub_workflow, decide, first_variables, workflow_input
from conductor.wire import MAX_REASON_CHARS, TERMINAL_WORKFLOW_STATUSES

logger = logging.getLogger(__name__)

#: Workflows moved by others within one transaction; the rest follows at once in the next.
STEPS_PER_TRANSACTION = 200
#: Far enough: no limit.
FOREVER_MS = 2**62
#: Sub-workflows inside sub-workflows: one that starts itself must come to an end.
MAX_SUB_WORKFLOW_DEPTH = 100
#: Where a failure workflow finds the one it was started for.
FAILED_WORKFLOW = "failedWorkflow"
#: The token for "no domain" in a list of domains.
NO_DOMAIN = "NO_DOMAIN"

#: What is done to a whole workflow: (state, now, maker of task ids) → what follows from it.
Action = Callable[[WorkflowState, int, Callable[[], str]], Decision]


class Start(msgspec.Struct, rename="camel", kw_only=True):
    """A request to start a workflow."""

    name: str | None = None
    version: Annotated[int, Meta(ge=0, lt=2**31)] | None = None
    correlation_id: str | None = None
    input: dict[str, Any] | None = {}
    task_to_domain: dict[str, str] | None = None
    workflow_def: dict[str, Any] | None = None
    priority: int | None = 0
    created_by: str | None = None
    idempotency_key: str | None = None
    idempotency_strategy: str | None = None


class Executions:
    """Start, advance, expire, end."""

    def __init__(self, queue: TaskQueue, snapshots: Snapshots, poll_data: PollData) -> None:
        self._queue = queue
        self._snapshots = snapshots
        self._poll_data = poll_data

    # -- starting -------------------------------------------------------------------------------------------------

    def start(self, tx: Tx, start: Start) -> int:
        """Start a workflow and take its first step; its key."""
        present = self._present(tx, start)
        if present is not None:
            return present
        workflow = self.create(tx, start, None)
        self.advance(tx, [workflow])
        return workflow

    def _present(self, tx: Tx, start: Start) -> int | None:
        """The workflow that an earlier start with the same idempotency key made."""
        if not start.idempotency_key:
            return None
        found = tx.row("idempotent workflow", start.name, start.idempotency_key)
        if found is None:
            return None
        row = WorkflowRow._make(found)
        strategy = start.idempotency_strategy or "RETURN_EXISTING"
        if strategy == "FAIL" or (strategy == "FAIL_ON_RUNNING" and not row.terminal):
            raise conflict(f"a workflow {start.name} with idempotency key {start.idempotency_key} exists already")
        return row.pk if strategy == "RETURN_EXISTING" else None

    def create(self, tx: Tx, start: Start, parent_task: int | None) -> int:
        """Store a new workflow; its first step is still to come."""
        snapshot = self._freeze(tx, start)
        definition = snapshot.definition
        workflow = tx.insert(
            "add workflow",
            definition["name"],
            definition.get("version", 1),
            snapshot.pk,
            start.priority or 0,
            start.correlation_id,
            start.idempotency_key,
            parent_task,
            tx.now_ms,
            tx.now_ms,
        )
        given = workflow_input(definition, start.input or {})
        domains = msgspec.json.encode(start.task_to_domain) if start.task_to_domain else None
        encoded = msgspec.json.encode(given), msgspec.json.encode(first_variables(definition))
        tx.run("add workflow data", workflow, *encoded, domains, start.created_by)
        return workflow

    def _freeze(self, tx: Tx, start: Start) -> Snapshot:
        if start.workflow_def is not None:
            return self._snapshots.of_inline(tx, start.workflow_def)
        snapshot = self._snapshots.of_registered(tx, start.name or "", start.version)
        if snapshot is None:
            raise not_found(f"No such workflow defined. name={start.name}, version={start.version or 'null'}")
        return snapshot

    # -- advancing ------------------------------------------------------------------------------------------------

    def advance(self, tx: Tx, workflows: Iterable[int]) -> None:
        """Draw the consequences of what has happened, in these workflows and in those they move."""
        work = deque(dict.fromkeys(workflows))
        steps_left = len(work) + STEPS_PER_TRANSACTION
        while work:
            steps_left -= 1
            if steps_left < 0:
                for later in work:
                    tx.run("set workflow wake", tx.now_ms, later)
                tx.notes.add_wake(tx.now_ms)
                return
            work.extend(self._guarded(tx, work.popleft(), self._step))

    def _guarded(self, tx: Tx, workflow: int, step: Callable[[Tx, int], list[int]]) -> list[int]:
        """Take a step of one workflow; the others that it moves. What goes wrong ends this workflow and no other.

        Data of one workflow must never stop the server, which serves all of them.
        """
        try:
            with tx.savepoint():
                return step(tx, workflow)
        except ActionRefused:
            raise
        except Exception as error:
            if is_fault_of_file(error):
                raise
            return self._give_up(tx, workflow, error)

    def _give_up(self, tx: Tx, workflow: int, error: Exception) -> list[int]:
        """End a workflow that cannot go on; the others that must be looked at because of it."""
        row = get_workflow(tx, workflow)
        if row.terminal:
            raise error  # what was asked of it cannot be done, and nothing has changed
        logger.error("workflow %s cannot go on and ends as FAILED", tx.ids.workflow(workflow), exc_info=error)
        reason = f"the coordinator could not go on with this workflow: {_described(error)}"
        try:
            with tx.savepoint():
                return self._act(tx, row, lambda state, now_ms, _: fail(state, now_ms, reason))
        except Exception as again:
            if is_fault_of_file(again):
                raise
            logger.error("workflow %s cannot even be read", tx.ids.workflow(workflow), exc_info=again)
            return self._end_unread(tx, row, reason)

    def _end_unread(self, tx: Tx, row: WorkflowRow, reason: str) -> list[int]:
        """End a workflow without looking at its data."""
        touched = []
        for found in tx.rows("open tasks of workflow", row.pk):
            task = TaskRow._make(found)
            self._queue.end(tx, task, "CANCELED", None)
            tx.run("settle task", task.pk)
            touched += self._terminate_child(tx, task.sub_workflow, f"reason: {reason}")
        tx.run("set workflow result", b"{}", reason, None, row.pk)
        tx.run("end workflow", "FAILED", tx.now_ms, tx.now_ms, row.pk)
        tx.notes.ended.add(row.pk)
        parent = get_task(tx, row.parent_task)
        if parent is not None and not parent.terminal:
            told = f"Sub workflow {tx.ids.workflow(row.pk)} failure reason: {reason}"
            self._queue.end(tx, parent, "FAILED", told)
            touched.append(parent.workflow)
        return touched

    def _step(self, tx: Tx, workflow: int) -> list[int]:
        """Decide one workflow and carry it out; the others that must be looked at because of it."""
        row = get_workflow(tx, workflow)
        if row.terminal:
            if row.wake_ms is not None:  # it was put off, and ended before its turn came
                tx.run("set workflow wake", None, workflow)
            return []
        tasks = StoredTasks(tx, workflow, row.last_task)
        state = load_state(tx, row, self._snapshots.get(tx, row.snapshot), tasks)
        decision = decide(state, tx.now_ms, new_id=_new_ids(tx), jitter=random.random())
        return self._carry_out(tx, row, state, decision, tasks)

    def latest(self, tx: Tx, row: WorkflowRow) -> Snapshot | None:
        """The definition a workflow would have if it were started now."""
        return self._snapshots.of_registered(tx, row.name, None)

    def act(
        self, tx: Tx, row: WorkflowRow, action: Action, *, snapshot: Snapshot | None = None, refused: int = 409
    ) -> None:
        """Do something to a whole workflow. `snapshot` replaces its definition; `refused`: the status of a refusal."""
        try:
            touched = self._guarded(tx, row.pk, lambda tx, _: self._act(tx, row, action, snapshot))
        except ActionRefused as reason:
            raise ApiError(refused, str(reason)) from reason
        self.advance(tx, touched)

    def _act(self, tx: Tx, row: WorkflowRow, action: Action, snapshot: Snapshot | None = None) -> list[int]:
        tasks = StoredTasks(tx, row.pk, row.last_task)
        present = self._snapshots.get(tx, row.snapshot)
        state = load_state(tx, row, present, tasks).with_tasks(tasks.all())
        decision = action(state, tx.now_ms, _new_ids(tx))
        if snapshot is not None:
            row = row._replace(snapshot=snapshot.pk)
        return self._carry_out(tx, row, state, decision, tasks)

    def _carry_out(
        self, tx: Tx, row: WorkflowRow, state: WorkflowState, decision: Decision, tasks: StoredTasks
    ) -> list[int]:
        """Make a decision true; the other workflows that must be looked at because of it."""
        status = decision.workflow_status
        if status == "RUNNING" and row.terminal:
            row = self._reopen(tx, row)
            self._reopen_parent(tx, row)
        last_task, refused = self._write_tasks(tx, row, state, decision, tasks)
        if decision.variables is not None:
            tx.run("set workflow variables", msgspec.json.encode(decision.variables), row.pk)
        if decision.input is not None:
            tx.run("set workflow input", msgspec.json.encode(decision.input), row.pk)
        touched = [self._start_sub_workflow(tx, row, state, start) for start in decision.start_sub_workflows]
        if refused:
            touched.append(row.pk)
        why = f"reason: {decision.reason}" if decision.reason else f"status {decision.workflow_status}"
        for workflow_id in decision.terminate_sub_workflows:
            touched += self._terminate_child(tx, tx.ids.workflow_pk(workflow_id), why)
        tx.notes.ended.add(row.pk)
        if status in TERMINAL_WORKFLOW_STATUSES:
            return touched + self._end(tx, row, decision)
        if row.terminal:
            return touched  # nothing was decided: it has no deadline any more
        wake_ms = _workflow_wake(tx, row, state.definition, decision.wait_until_ms)
        tx.run("decided workflow", status or row.status, tx.now_ms, wake_ms, last_task, row.pk)
        tx.notes.add_wake(wake_ms)
        return touched

    def _write_tasks(
        self, tx: Tx, row: WorkflowRow, state: WorkflowState, decision: Decision, tasks: StoredTasks
    ) -> tuple[int | None, bool]:
        """(the task that came last, whether one was refused for its input)."""
        last_task, refused = None, False
        for task in decision.schedule:
            problem = self._input_problem(tx, row, task)
            if problem is not None:
                refused = True
                task = replace(task, status="FAILED_WITH_TERMINAL_ERROR", reason=problem, ended_ms=tx.now_ms)
            last_task = self._schedule(tx, row, state, task)
        for task in decision.update:
            self._update(tx, task, *tasks.read[task.task_id])
        for task_id in decision.remove:
            remove_task(tx, tx.ids.task_pk(task_id) or 0)
        return last_task, refused

    def _input_problem(self, tx: Tx, row: WorkflowRow, task: TaskState) -> str | None:
        if task.type != "SIMPLE" or task.status != "SCHEDULED":
            return None
        return input_problem(tx, self._snapshots.get(tx, row.snapshot).task_def(task.ref), task.input)

    def _reopen(self, tx: Tx, row: WorkflowRow) -> WorkflowRow:
        """A workflow that had ended runs again; its timeout begins anew."""
        tx.run("reopen workflow", tx.now_ms, tx.now_ms, row.snapshot, row.pk)
        tx.run("reopen workflow data", row.pk)
        return row._replace(status="RUNNING", ended_ms=None, retried_ms=tx.now_ms)

    def _reopen_parent(self, tx: Tx, row: WorkflowRow) -> None:
        """The workflow that failed because this one did runs again with it."""
        parent = get_task(tx, row.parent_task)
        if parent is None or not parent.terminal or parent.retried or parent.sub_workflow != row.pk:
            return
        task_id = tx.ids.task(parent.pk)
        self.act(
            tx,
            get_workflow(tx, parent.workflow),
            lambda state, now_ms, new_id: reopen(state, now_ms, new_id=new_id, task_id=task_id),
        )

    def _schedule(self, tx: Tx, row: WorkflowRow, state: WorkflowState, task: TaskState) -> int:
        snapshot = self._snapshots.get(tx, row.snapshot)
        polled = task.type == "SIMPLE" and task.status == "SCHEDULED"
        task_def = snapshot.task_def(task.ref)
        type_ = type_pk(tx, task.name, task_def if polled else None)
        domain = self._domain(tx, state, task.name) if polled else ""
        queue = queue_pk(tx, type_, domain) if polled else None
        stored = _new_row(tx, row, task, task_def, type_, queue)
        tx.run_named("add task", stored._asdict())
        output = msgspec.json.encode(task.output) if task.output else None
        tx.run("add task data", stored.pk, msgspec.json.encode(task.input), output, task.reason)
        tx.notes.add_wake(stored.wake_ms)
        if stored.ready_ms is not None:
            tx.notes.add_ready(task.name, domain)
        return stored.pk

    def _domain(self, tx: Tx, state: WorkflowState, task_type: str) -> str:
        """The first of the listed domains that has workers, else the last."""
        listed = state.task_to_domain.get(task_type) or state.task_to_domain.get("*")
        if not listed:
            return ""
        domains = ["" if name.strip() == NO_DOMAIN else name.strip() for name in listed.split(",")]
        for domain in domains:
            if self._poll_data.active(task_type, domain, tx.now_ms):
                return domain
        return domains[-1]

    def _update(self, tx: Tx, task: TaskState, row: TaskRow, before: TaskState) -> None:
        if task.terminal and not row.terminal:
            self._queue.end(tx, row, task.status, None)
        sub_workflow = tx.ids.workflow_pk(task.sub_workflow_id)
        changed = (task.started_ms, task.ended_ms, task.wait_until_ms, sub_workflow)
        tx.run("decided task", task.status, task.executed, task.retried, task.iteration, *changed, row.pk)
        if task.input is not before.input or task.output is not before.output or task.reason != before.reason:
            payload = msgspec.json.encode(task.input), msgspec.json.encode(task.output)
            tx.run("set task data", *payload, task.reason, row.pk)

    def _start_sub_workflow(self, tx: Tx, row: WorkflowRow, state: WorkflowState, start: SubWorkflowStart) -> int:
        """Start it; what cannot be started fails the task, and its workflow decides what that means."""
        task = tx.ids.task_pk(start.task_id) or 0
        try:
            workflow = self.create(tx, _asked_of(tx, row, state, start), task)
        except ApiError as error:
            why = "; ".join(f"{path}: {message}" for path, message in error.problems) or error.message
            self._queue.end(tx, TaskRow._make(tx.row("task", task) or ()), "FAILED_WITH_TERMINAL_ERROR", why)
            return row.pk
        tx.run("set sub-workflow", workflow, task)
        tx.run("set task output", msgspec.json.encode({"subWorkflowId": tx.ids.workflow(workflow)}), task)
        return workflow

    # -- ending ---------------------------------------------------------------------------------------------------

    def _end(self, tx: Tx, row: WorkflowRow, decision: Decision) -> list[int]:
        status, output = decision.workflow_status or "", decision.output or {}
        failed = tx.ids.task_pk(decision.failed_task.task_id) if decision.failed_task else None
        tx.run("set workflow result", msgspec.json.encode(output), decision.reason, failed, row.pk)
        tx.run("end workflow", status, tx.now_ms, tx.now_ms, row.pk)
        touched = []
        if decision.failure_workflow is not None:
            asked = Start(name=decision.failure_workflow.name, input=decision.failure_workflow.input)
            touched += self._start_failure_workflow(tx, row, asked, output)
        if row.parent_task is not None:
            touched += self._end_parent_task(tx, row.parent_task, status, output, decision.reason)
        return touched

    def _start_failure_workflow(self, tx: Tx, row: WorkflowRow, asked: Start, output: dict[str, Any]) -> list[int]:
        from conductor.coordinator.queries import whole_workflow  # which reads with the functions of this module

        row_id = tx.ids.workflow(row.pk)
        if _is_failure_workflow(tx, row):
            # It may name itself, or the workflow that it was started for: that would never end.
            logger.warning("workflow %s is or belongs to a failure workflow; no other is started", row_id)
            return []
        # Its input is limited like any other: a failed workflow with much data comes without its tasks.
        with_tasks = (tx.value("payload of workflow", row.pk) or 0) <= MAX_VALUE_BYTES
        failed = whole_workflow(tx, self._snapshots, get_workflow(tx, row.pk), with_tasks=with_tasks)
        asked.correlation_id = row.correlation_id
        asked.input = {**(asked.input or {}), FAILED_WORKFLOW: msgspec.json.decode(msgspec.json.encode(failed))}
        try:
            workflow = self.create(tx, asked, None)
        except ApiError as error:
            logger.error("the failure workflow of %s cannot start: %s", row_id, error.message)
            return []
        named = {**output, "conductor.failure_workflow": tx.ids.workflow(workflow)}
        tx.run("set workflow output", msgspec.json.encode(named), row.pk)
        return [workflow]

    def _end_parent_task(self, tx: Tx, task: int, status: str, output: dict[str, Any], reason: str | None) -> list[int]:
        """Tell the task a sub-workflow was started for; its workflow must look at it."""
        parent = get_task(tx, task)
        if parent is None or parent.terminal:
            return []
        tasks = StoredTasks(tx, parent.workflow, None)
        before = tasks.one(task)
        after = after_sub_workflow(before, status=status, output=output, reason=reason, now_ms=tx.now_ms)
        self._update(tx, after, parent, before)
        return [parent.workflow]

    def _terminate_child(self, tx: Tx, workflow: int | None, why: str) -> list[int]:
        found = tx.row("workflow", workflow or 0)
        if found is None or (row := WorkflowRow._make(found)).terminal:
            return []
        reason = f"Parent workflow has been terminated with {why}"

        def action(state: WorkflowState, now_ms: int, _new_id: Callable[[], str]) -> Decision:
            return terminate(state, now_ms, reason)

        return self._guarded(tx, row.pk, lambda tx, _: self._act(tx, row, action))

    # -- time -----------------------------------------------------------------------------------------------------

    def expire(self, tx: Tx, limit: int) -> None:
        """Act on every task and workflow whose time has come, `limit` of each."""
        moved: list[int] = []
        expired: list[Expired] = []
        for row in self._queue.due(tx, limit):
            # One task, one guard: `expired` is only told of what has really ended.
            moved += self._guarded(tx, row.workflow, partial(self._expire_task, row, expired))
        for found in expired:
            if found.ends_workflow:
                moved += self._guarded(tx, found.task.workflow, partial(self._time_out, found.reason, found.task.pk))
        for due in tx.rows("due workflows", tx.now_ms, limit):
            moved += self._guarded(tx, WorkflowRow._make(due).pk, self._expire_workflow)
        self.advance(tx, moved)

    def _expire_task(self, row: TaskRow, expired: list[Expired], tx: Tx, workflow: int) -> list[int]:
        found = self._queue.expire(tx, row)
        if found is None:
            return []
        expired.append(found)
        return [workflow]

    def _expire_workflow(self, tx: Tx, workflow: int) -> list[int]:
        row = get_workflow(tx, workflow)
        definition = self._snapshots.get(tx, row.snapshot).definition
        overdue = tx.now_ms >= timeout_at(row, definition)
        if overdue and definition.get("timeoutPolicy") == "TIME_OUT_WF":
            return self._time_out(
                f"Workflow timed out after {definition['timeoutSeconds']} seconds", None, tx, workflow
            )
        if overdue:
            logger.warning("workflow %s runs longer than its timeout", tx.ids.workflow(workflow))
        return [workflow]

    def _time_out(self, reason: str, task: int | None, tx: Tx, workflow: int) -> list[int]:
        task_id = None if task is None else tx.ids.task(task)

        def action(state: WorkflowState, now_ms: int, _new_id: Callable[[], str]) -> Decision:
            culprit = next((found for found in state.tasks.pending() if found.task_id == task_id), None)
            return time_out(state, now_ms, reason, culprit)

        row = get_workflow(tx, workflow)
        return [workflow] if row.terminal else self._act(tx, row, action)


def _described(error: Exception) -> str:
    """What went wrong, for who looks at the workflow; the log has the rest."""
    if isinstance(error, RecursionError):
        return "its data is nested too deeply"
    if isinstance(error, MemoryError):
        return "its data does not fit into memory"
    return f"{type(error).__name__}: {error}"[:MAX_REASON_CHARS]


def _new_ids(tx: Tx) -> Callable[[], str]:
    return lambda: tx.ids.task(tx.new_task_pk())


def get_workflow(tx: Tx, workflow: int) -> WorkflowRow:
    """The row of a workflow that is known to exist."""
    found = tx.row("workflow", workflow)
    if found is None:
        raise not_found(f"No such workflow found by id: {tx.ids.workflow(workflow)}")
    return WorkflowRow._make(found)


def find_workflow(tx: Tx, workflow_id: str) -> WorkflowRow:
    """The row behind a public id; 404 otherwise."""
    found = tx.row("workflow", tx.ids.workflow_pk(workflow_id) or 0)
    if found is None:
        raise not_found(f"No such workflow found by id: {workflow_id}")
    return WorkflowRow._make(found)


def get_task(tx: Tx, task: int | None) -> TaskRow | None:
    """The row of a task, unless it was removed."""
    found = None if task is None else tx.row("task", task)
    return None if found is None else TaskRow._make(found)


def _asked_of(tx: Tx, row: WorkflowRow, state: WorkflowState, start: SubWorkflowStart) -> Start:
    """What a SUB_WORKFLOW task asks for. ApiError if it cannot be."""
    if len(list(_ancestors(tx, row))) >= MAX_SUB_WORKFLOW_DEPTH:
        raise bad_request(f"sub-workflows are nested more than {MAX_SUB_WORKFLOW_DEPTH} deep")
    return Start(
        name=start.name,
        version=start.version,
        # One that came out of data has not been looked at by anybody yet.
        workflow_def=None if start.definition is None else check_workflow_def(start.definition),
        input=start.input,
        correlation_id=row.correlation_id,
        priority=row.priority if start.priority is None else start.priority,
        task_to_domain=dict(state.task_to_domain) if start.task_to_domain is None else start.task_to_domain,
    )


def _ancestors(tx: Tx, row: WorkflowRow) -> Iterator[WorkflowRow]:
    """A workflow, the one it is a sub-workflow of, and so on."""
    yield row
    while (parent := get_task(tx, row.parent_task)) is not None:
        row = get_workflow(tx, parent.workflow)
        yield row


def _is_failure_workflow(tx: Tx, row: WorkflowRow) -> bool:
    """Whether a workflow runs because another one failed. Only such a one has that one in its input."""
    inputs = (WorkflowData._make(tx.row("workflow data", one.pk) or ()).input for one in _ancestors(tx, row))
    return any(FAILED_WORKFLOW in msgspec.json.decode(given) for given in inputs)


def remove_task(tx: Tx, task: int) -> None:
    """Forget a task and all that belongs to it."""
    tx.run("remove task", task)
    tx.run("remove task data", task)
    tx.run("remove task reports", task)
    tx.run("remove task logs", tx.ids.task(task))


def load_state(tx: Tx, row: WorkflowRow, snapshot: Snapshot, tasks: StoredTasks) -> WorkflowState:
    """A stored workflow as the decider reads it."""
    data = WorkflowData._make(tx.row("workflow data", row.pk) or ())
    parent = get_task(tx, row.parent_task)
    return WorkflowState(
        workflow_id=tx.ids.workflow(row.pk),
        plan=snapshot.plan,
        tasks=tasks,
        status=row.status,
        input=msgspec.json.decode(data.input),
        output=msgspec.json.decode(data.output or b"{}"),
        variables=msgspec.json.decode(data.variables or b"{}"),
        correlation_id=row.correlation_id,
        reason=data.reason,
        parent_workflow_id=None if parent is None else tx.ids.workflow(parent.workflow),
        parent_task_id=None if parent is None else tx.ids.task(parent.pk),
        task_to_domain=msgspec.json.decode(data.task_to_domain or b"{}"),
        priority=row.priority,
    )


def timeout_at(row: WorkflowRow, definition: dict[str, Any]) -> int:
    """When the workflow's own timeout strikes."""
    timeout_s = int(definition.get("timeoutSeconds") or 0)
    return (row.retried_ms or row.created_ms) + timeout_s * 1000 if timeout_s > 0 else FOREVER_MS


def _workflow_wake(tx: Tx, row: WorkflowRow, definition: Any, wait_until_ms: int | None) -> int | None:
    times = [] if wait_until_ms is None else [wait_until_ms]
    timeout_ms = timeout_at(row, definition)
    # One that only alerts has done so once its time is over.
    if timeout_ms != FOREVER_MS and (definition.get("timeoutPolicy") == "TIME_OUT_WF" or timeout_ms > tx.now_ms):
        times.append(timeout_ms)
    return min(times, default=None)


def _new_row(tx: Tx, row: WorkflowRow, task: TaskState, task_def: TaskDef, type_: int, queue: int | None) -> TaskRow:
    due_ms = task.scheduled_ms + task.start_delay_ms if task.start_delay_ms and queue else task.wait_until_ms
    new = TaskRow(
        pk=tx.ids.task_pk(task.task_id) or 0,
        workflow=row.pk,
        queue=queue,
        type=type_,
        kind=task.type,
        ref=task.ref,
        seq=task.seq,
        iteration=task.iteration,
        status=task.status,
        priority=row.priority,
        retry_count=task.retry_count,
        retried_task=tx.ids.task_pk(task.retried_task_id),
        retried=task.retried,
        executed=task.executed,
        poll_count=0,
        scheduled_ms=task.scheduled_ms,
        first_scheduled_ms=task.first_scheduled_ms,
        started_ms=task.started_ms,
        updated_ms=tx.now_ms,
        ended_ms=task.ended_ms,
        start_delay_s=task.start_delay_ms // 1000,
        callback_after_s=task.start_delay_ms // 1000,
        worker_id=None,
        lease_no=0,
        lease_ms=None,
        response_ms=task_def.response_timeout_seconds * 1000,
        timeout_ms=task_def.timeout_seconds * 1000,
        poll_ms=(task_def.poll_timeout_seconds or 0) * 1000,
        total_ms=task_def.total_timeout_seconds * 1000,
        alerted=0,
        ready_ms=tx.now_ms if queue and due_ms is None else None,
        due_ms=due_ms,
        wake_ms=None,
        sub_workflow=tx.ids.workflow_pk(task.sub_workflow_id),
    )
    # A system task is watched through its workflow's own wake-up.
    return new._replace(wake_ms=next_wake(new)) if queue else new
