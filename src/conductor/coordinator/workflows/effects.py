"""A decision made true: new and changed tasks, sub-workflows, the end of a workflow. Runs inside transactions."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from conductor.coordinator.definitions.definition_snapshots import Snapshot, Snapshots
from conductor.coordinator.definitions.event_handlers import publish_event
from conductor.coordinator.definitions.json_schemas import find_task_input_problem, find_workflow_input_problem
from conductor.coordinator.definitions.task_defs import TaskDef, get_queue_keys, get_task_type_pk
from conductor.coordinator.definitions.workflow_defs import check_workflow_def
from conductor.coordinator.definitions.workflow_plan import OPERATORS_WITH_SCRIPTS, SYSTEM_TASKS, system_domain
from conductor.coordinator.limits import MAX_SUB_WORKFLOW_DEPTH, MAX_VALUE_BYTES
from conductor.coordinator.request_errors import ApiError, bad_request, conflict, not_found
from conductor.coordinator.server_metrics import ENDED_TOTAL, STARTED_TOTAL
from conductor.coordinator.store.lookup import get_task, get_workflow, remove_task, workflow_data
from conductor.coordinator.store.row_cache import LiveTask, LiveWorkflow
from conductor.coordinator.store.rows import NEW_TASK, TaskData, TaskRow, WorkflowData, WorkflowRow
from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.tasks.poll_data import PollData
from conductor.coordinator.tasks.task_queue import TaskQueue, with_wake
from conductor.coordinator.views.workflow_views import read_whole_workflow
from conductor.coordinator.workflows import workflow_rate_limits
from conductor.coordinator.workflows.decider import after_sub_workflow, first_variables, workflow_input
from conductor.coordinator.workflows.decision import Decision, SubWorkflowStart
from conductor.coordinator.workflows.operators import MAX_PRIORITY
from conductor.coordinator.workflows.start_chains import Chains, ends_a_wait
from conductor.coordinator.workflows.state import TaskState, WorkflowState
from conductor.coordinator.workflows.stored_tasks import StoredTasks
from conductor.protocol.statuses import TERMINAL_TASK_STATUSES, TERMINAL_WORKFLOW_STATUSES
from conductor.telemetry.tracing import is_traceparent

logger = logging.getLogger(__name__)

#: Far enough: no limit.
FOREVER_MS = 2**62
#: Where a failure workflow finds the one it was started for.
FAILED_WORKFLOW = "failedWorkflow"
#: Where the output of a failed workflow names its failure workflow.
FAILURE_WORKFLOW = "conductor.failure_workflow"
#: Input of a sub-workflow whose definition came with its task, as on Conductor.
INLINE_MARK = {"_systemMetadata": {"dynamic": True}}
#: The token for "no domain" in a list of domains.
NO_DOMAIN = "NO_DOMAIN"

#: What applies to a task of the flow while it waits for the value of a script.
SCRIPT = TaskDef(name="script")

_encode = msgspec.json.encode


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
    external_input_payload_storage_path: str | None = None
    traceparent: str | None = None


def check_start(start: Start) -> None:
    """Refuse what could never be started. A definition that comes with it is checked, and gets its defaults."""
    if not 0 <= (start.priority or 0) <= MAX_PRIORITY:
        raise bad_request(f"priority is from 0 to {MAX_PRIORITY}, not {start.priority}")
    if start.external_input_payload_storage_path:
        raise bad_request("externalInputPayloadStoragePath is not supported by the coordinator; send the input itself")
    if start.workflow_def is not None:
        start.workflow_def = check_workflow_def({"name": start.name, **start.workflow_def})


class Effects:
    """What a decision does to the rows."""

    def __init__(self, queue: TaskQueue, snapshots: Snapshots, poll_data: PollData) -> None:
        self._queue = queue
        self._snapshots = snapshots
        self._poll_data = poll_data
        #: Workflows that have started each other.
        self.chains = Chains()

    # -- a new workflow -------------------------------------------------------------------------------------------

    def create(self, tx: Tx, start: Start, parent_task: int | None) -> LiveWorkflow:
        """A new workflow; its first step is still to come."""
        snapshot = self._freeze(tx, start)
        definition = snapshot.definition
        given = workflow_input(definition, start.input or {})
        problem = find_workflow_input_problem(tx, definition, given) if definition.get("inputSchema") else None
        if problem is not None:
            raise bad_request(problem)
        row = WorkflowRow(
            pk=tx.live.new_workflow_pk(tx),
            name=definition["name"],
            version=definition.get("version", 1),
            snapshot=snapshot.pk,
            status="RUNNING",
            priority=start.priority or 0,
            correlation_id=start.correlation_id,
            idempotency_key=start.idempotency_key,
            parent_task=parent_task,
            created_ms=tx.now_ms,
            updated_ms=tx.now_ms,
            traceparent=start.traceparent if start.traceparent and is_traceparent(start.traceparent) else None,
        )
        variables, task_to_domain = first_variables(definition), start.task_to_domain or {}
        data = WorkflowData(
            input=_encode(given),
            variables=_encode(variables),
            task_to_domain=_encode(task_to_domain) if task_to_domain else None,
            created_by=start.created_by,
        )
        if row.idempotency_key is not None:
            tx.live.unused_keys.discard((row.name, row.idempotency_key))
        live = LiveWorkflow(row, data, is_new=True)
        live.decoded = given, variables, task_to_domain
        tx.live.add(live)
        tx.notes.count((STARTED_TOTAL.name, row.name))
        limit = workflow_rate_limits.limit_of(definition, row, given) if definition.get("rateLimitConfig") else None
        if limit is not None:
            workflow_rate_limits.line_up(tx, row, limit)
        return live

    def _freeze(self, tx: Tx, start: Start) -> Snapshot:
        if start.workflow_def is not None:
            return self._snapshots.freeze_inline(tx, start.workflow_def)
        snapshot = self._snapshots.freeze_registered(tx, start.name or "", start.version)
        if snapshot is None:
            raise not_found(f"No such workflow defined. name={start.name}, version={start.version or 'null'}")
        return snapshot

    # -- a decision -----------------------------------------------------------------------------------------------

    def carry_out(
        self, tx: Tx, live: LiveWorkflow, snapshot: Snapshot, state: WorkflowState, decision: Decision
    ) -> list[int]:
        """Make a decision true; the workflows that must be looked at because of it."""
        status = decision.workflow_status
        if self.chains and any(map(ends_a_wait, decision.update)):
            self.chains.leave(ancestors(tx, live.row))
        last_task, refused = self._write_tasks(tx, live, snapshot, state, decision)
        if decision.variables is not None or decision.input is not None:
            new = {"variables": decision.variables, "input": decision.input}
            encoded = {name: _encode(value) for name, value in new.items() if value is not None}
            live.change_data(tx, replace(live.data, **encoded))
        touched = [self._start_sub_workflow(tx, live, state, start) for start in decision.start_sub_workflows]
        if refused:
            touched.append(live.row.pk)
        tx.notes.moved.add(live.row.pk)
        if status in TERMINAL_WORKFLOW_STATUSES:
            return touched + self._end(tx, live, snapshot.definition, decision, last_task)
        if live.row.status in TERMINAL_WORKFLOW_STATUSES:
            return touched  # nothing was decided: it has no deadline any more
        wake_at_ms = workflow_wake(tx, live.row, state.plan.definition, decision.wait_until_ms)
        if wake_at_ms is not None:
            tx.notes.add_wake(wake_at_ms)
        row = live.row
        changes: dict[str, Any] = {"updated_ms": tx.now_ms}
        if status is not None:
            changes["status"] = status
        if last_task is not None:
            changes["last_task"] = last_task
        if wake_at_ms != row.wake_at_ms:
            changes["wake_at_ms"] = wake_at_ms
        if decision.restless != row.restless:
            changes["restless"] = decision.restless
        live.move_row(tx, changes)
        return touched

    def _write_tasks(
        self, tx: Tx, live: LiveWorkflow, snapshot: Snapshot, state: WorkflowState, decision: Decision
    ) -> tuple[int | None, bool]:
        """(the task that came last, whether one was refused for its input)."""
        last_task, refused = None, False
        if decision.remove:
            self._remove_tasks(tx, live, [tx.ids.task_pk(task_id) or 0 for task_id in decision.remove])
        for task in decision.schedule:
            definition = None if task.own is None else _encode(task.own)
            task_def = snapshot.task_def(task.ref, definition)
            polled = task.queued and task.status not in TERMINAL_TASK_STATUSES
            problem = find_task_input_problem(tx, task_def, task.input) if polled and task_def.enforce_schema else None
            if problem is not None:
                refused, polled = True, False
                task = _refused(tx, task, problem)
            last_task = self._schedule(tx, live, state, task, task_def, definition, polled=polled)
        for task in decision.update:
            known = live.task(tx, tx.ids.task_pk(task.task_id) or 0)
            if known is None:
                continue
            if task.queued and not task.terminal and known.row.terminal:
                task_def = snapshot.task_def(task.ref, known.data.definition)
                refused |= self._run_again(tx, live, state, known, task, task_def)
            else:
                self._update(tx, live, known, task)
        return last_task, refused

    def _remove_tasks(self, tx: Tx, live: LiveWorkflow, removed: list[int]) -> None:
        for pk in removed:
            remove_task(tx, pk)
        live.drop(removed)
        if live.row.last_task in removed:  # new tasks are numbered from the last one on
            kept = live.all(tx)
            live.change_row(tx, replace(live.row, last_task=kept[-1].row.pk if kept else None))

    def _run_again(
        self,
        tx: Tx,
        live: LiveWorkflow,
        state: WorkflowState,
        known: LiveTask,
        task: TaskState,
        task_def: TaskDef,
    ) -> bool:
        """Put an ended task back into its queue, under its id. Whether it was refused for its input."""
        problem = find_task_input_problem(tx, task_def, task.input) if task_def.enforce_schema else None
        if problem is not None:
            self._update(tx, live, known, _refused(tx, task, problem))
            return True
        self._update(tx, live, known, task)
        row = known.row
        if row.queue is None:  # it never came as far as a queue
            row = replace(row, queue=self._place(tx, state, task, task_def)[1])
        live.change(tx, known, self._queue.run_again(tx, row))
        return False

    def _schedule(
        self,
        tx: Tx,
        live: LiveWorkflow,
        state: WorkflowState,
        task: TaskState,
        task_def: TaskDef,
        definition: bytes | None,
        *,
        polled: bool,
    ) -> int:
        queue, domain, polled_as = None, "", task.name
        if polled:
            type_, queue, domain = self._place(tx, state, task, task_def)
            if task.type in OPERATORS_WITH_SCRIPTS:
                task_def, polled_as = SCRIPT, task.type
        else:
            type_ = get_task_type_pk(tx, task.name)
        columns = _new_columns(tx, live.row, task, task_def, type_, queue)
        row = replace(NEW_TASK, **columns)
        if queue:  # a system task is watched through its workflow's own wake-up
            row = with_wake(tx, row)
            columns["wake_at_ms"] = row.wake_at_ms
        output = _encode(task.output) if task.output else None
        data = TaskData(_encode(task.input), output, task.reason, None, definition)
        new = LiveTask(row, data, task.name, is_new=True)
        new.moved = columns
        new.state = task
        live.add(tx, new)
        if row.ready_since_ms is not None:
            tx.notes.add_ready(polled_as, domain)
        return row.pk

    def _place(self, tx: Tx, state: WorkflowState, task: TaskState, task_def: TaskDef) -> tuple[int, int, str]:
        """(task type, queue, domain) of a task for workers, those of our own included."""
        if task.type in OPERATORS_WITH_SCRIPTS:
            domain = system_domain(task.type)
            return get_task_type_pk(tx, task.name), get_queue_keys(tx, task.type, domain, SCRIPT)[1], domain
        if task.type in SYSTEM_TASKS:
            domain = system_domain(task.type)
            return *get_queue_keys(tx, task.name, domain, task_def), domain
        domain = self._domain(tx, task.name, state.task_to_domain) if state.task_to_domain else ""
        return *get_queue_keys(tx, task.name, domain, task_def), domain

    def _domain(self, tx: Tx, task_type: str, task_to_domain: Mapping[str, str]) -> str:
        """The first of the listed domains that has workers, else the last."""
        listed = task_to_domain.get(task_type) or task_to_domain.get("*")
        if not listed:
            return ""
        domains = ["" if name.strip() == NO_DOMAIN else name.strip() for name in listed.split(",")]
        for domain in domains:
            if self._poll_data.active(task_type, domain, tx.now_ms):
                return domain
        return domains[-1]

    def _update(self, tx: Tx, live: LiveWorkflow, known: LiveTask, task: TaskState) -> None:
        """A task as the decider wants it from now on."""
        before = known.state or StoredTasks(tx, live).state_of(known)
        if known.row.status not in TERMINAL_TASK_STATUSES and task.status in TERMINAL_TASK_STATUSES:
            self._queue.end(tx, live, known, task.status, None)
        if task.executed and _differs_in_nothing_else(known.row, task, before):
            live.move(tx, known, _EXECUTED)
            known.state = task
            return
        row = replace(
            known.row,
            status=task.status,
            executed=int(task.executed),
            retried=int(task.retried),
            retry_count=task.retry_count,
            iteration=task.iteration,
            started_ms=task.started_ms,
            ended_ms=task.ended_ms,
            due_at_ms=task.wait_until_ms,
            sub_workflow=tx.ids.workflow_pk(task.sub_workflow_id) if task.sub_workflow_id else None,
        )
        if task.queued and row.queue is None and not task.terminal and task.type in OPERATORS_WITH_SCRIPTS:
            row = self._waits_for_script(tx, row)
        if task.scheduled_ms != before.scheduled_ms:  # it runs once more, under the same id
            row = replace(
                row,
                scheduled_ms=task.scheduled_ms,
                first_scheduled_ms=task.first_scheduled_ms,
                callback_after_s=_callback_after_s(task),
            )
        data = None
        if task.input is not before.input or task.output is not before.output or task.reason != before.reason:
            data = replace(known.data, input=_encode(task.input), output=_encode(task.output), reason=task.reason)
        live.change(tx, known, row, data)
        known.state = task

    def _waits_for_script(self, tx: Tx, row: TaskRow) -> TaskRow:
        """Put a task that runs into the queue of scripts: what its own definition says of time is not about these."""
        queue = get_queue_keys(tx, row.operator, system_domain(row.operator), SCRIPT)[1]
        self._queue.announce(tx, queue)
        lease_ms = SCRIPT.response_timeout_seconds * 1000
        return replace(
            row,
            queue=queue,
            ready_since_ms=tx.now_ms,
            response_timeout_ms=lease_ms,
            timeout_ms=0,
            poll_timeout_ms=0,
            total_timeout_ms=0,
        )

    # -- sub-workflows --------------------------------------------------------------------------------------------

    def _start_sub_workflow(self, tx: Tx, live: LiveWorkflow, state: WorkflowState, start: SubWorkflowStart) -> int:
        """Start it; what cannot be started fails the task, and its workflow decides what that means."""
        task = live.task(tx, tx.ids.task_pk(start.task_id) or 0)
        if task is None:
            raise LookupError(f"task {start.task_id} is not in the database")
        asked = None
        try:
            asked = _asked_of(tx, live.row, state, start)
            found = self._in_its_place(tx, live, asked) if asked.idempotency_key else None
            child = self.create(tx, asked, task.row.pk).row if found is None else found
        except ApiError as error:
            why = "; ".join(f"{path}: {message}" for path, message in error.problems) or error.message
            # A workflow that is not registered yet may be there at the next attempt. Nothing else changes until then.
            self._queue.end(tx, live, task, "FAILED" if error.status == 404 else "FAILED_WITH_TERMINAL_ERROR", why)
            return live.row.pk
        output = _encode({"subWorkflowId": tx.ids.workflow(child.pk)})
        given = StoredTasks(tx, live).state_of(task).input
        if start.definition is None and given.get("subWorkflowVersion") != child.version:
            given = {**given, "subWorkflowVersion": child.version}
        data = replace(task.data, input=_encode(given), output=output)
        live.change(tx, task, replace(task.row, sub_workflow=child.pk), data)
        if child.terminal:
            return self._end_waiting_task(tx, live, task, child)
        return child.pk

    def _in_its_place(self, tx: Tx, live: LiveWorkflow, asked: Start) -> WorkflowRow | None:
        """The workflow that an earlier start with the same key made, if it counts for a SUB_WORKFLOW task too."""
        present = existing(tx, asked)
        if present is None or not (present.terminal and present.status != "COMPLETED"):
            return present
        parent = get_task(tx, present.parent_task)
        # A new attempt at what this workflow has tried itself is one: its failure is not the result for ever.
        return None if parent is not None and parent.workflow == live.row.pk else present

    def _end_waiting_task(self, tx: Tx, live: LiveWorkflow, task: LiveTask, child: WorkflowRow) -> int:
        """End a SUB_WORKFLOW task by a workflow that has ended; the workflow that must look at it."""
        data = workflow_data(tx, child.pk)
        output = msgspec.json.decode(data.output or b"{}", type=dict[str, Any])
        before = StoredTasks(tx, live).state_of(task)
        after = after_sub_workflow(
            before,
            title=_title(tx, child),
            status=child.status,
            output=output,
            reason=data.reason,
            now_ms=tx.now_ms,
        )
        self._update(tx, live, task, after)
        return live.row.pk

    # -- ending ---------------------------------------------------------------------------------------------------

    def _end(
        self, tx: Tx, live: LiveWorkflow, definition: dict[str, Any], decision: Decision, last_task: int | None
    ) -> list[int]:
        status, output = decision.workflow_status or "", decision.output or {}
        if status != "COMPLETED" or decision.reason or not self._gave(tx, live, last_task, decision.output):
            failed = tx.ids.task_pk(decision.failed_task.task_id) if decision.failed_task else None
            live.move_data(tx, {"output": _encode(output), "reason": decision.reason, "failed_task": failed})
        changes = {"status": status, "updated_ms": tx.now_ms, "ended_ms": tx.now_ms}
        if live.row.wake_at_ms is not None:
            changes["wake_at_ms"] = None
        if last_task is not None:
            changes["last_task"] = last_task
        live.move_row(tx, changes)
        _note_end(tx, live.row, status, decision.reason)
        if definition.get("workflowStatusListenerEnabled"):
            self._announce_end(tx, live.row)
        touched = workflow_rate_limits.leave(tx, live.row.pk) if definition.get("rateLimitConfig") else []
        if decision.failure_workflow is not None:
            failure = decision.failure_workflow
            asked = Start(name=failure.name, version=failure.version, input=failure.input)
            touched += self._start_failure_workflow(tx, live, asked, output)
        if live.row.parent_task is not None:
            touched += self._end_parent_task(tx, live.row, output, decision.reason)
        if live.row.idempotency_key is not None:
            touched += self._end_others(tx, live.row)
        return touched

    def _gave(self, tx: Tx, live: LiveWorkflow, last_task: int | None, output: dict[str, Any] | None) -> bool:
        """Whether the last task gave just this: then it is stored there, and nowhere else."""
        if live.data.output is not None:
            return False  # it has ended before, with an output of its own
        task = live.task(tx, last_task or live.row.last_task or 0)
        return task is not None and task.state is not None and task.state.output is output

    def _announce_end(self, tx: Tx, row: WorkflowRow) -> None:
        """Tell event handlers, as a workflow's own EVENT task would; which are the listeners here."""
        about = {
            "workflowId": tx.ids.workflow(row.pk),
            "workflowType": row.name,
            "version": row.version,
            "correlationId": row.correlation_id,
            "status": row.status,
            "reasonForIncompletion": workflow_data(tx, row.pk).reason,
        }
        publish_event(tx, f"conductor:{row.name}:{row.status}", about)

    def _end_others(self, tx: Tx, row: WorkflowRow) -> list[int]:
        """End the tasks that wait for a workflow which somebody else has started, under the same idempotency key."""
        touched = []
        for (pk,) in tx.rows("tasks waiting for workflow", row.pk):
            waiting = get_task(tx, pk)
            live = tx.live.workflow(tx, waiting.workflow) if waiting is not None else None
            task = live.task(tx, pk) if live is not None else None
            if live is not None and task is not None and not task.row.terminal:
                touched.append(self._end_waiting_task(tx, live, task, row))
        return touched

    def _start_failure_workflow(self, tx: Tx, live: LiveWorkflow, asked: Start, output: dict[str, Any]) -> list[int]:
        row = live.row
        row_id = tx.ids.workflow(row.pk)
        if _is_failure_workflow(tx, row):
            # It may name itself, or the workflow that it was started for: that would never end.
            logger.warning("workflow %s is or belongs to a failure workflow; no other is started", row_id)
            return []
        # Its input is limited like any other: a failed workflow with much data comes without its tasks.
        with_tasks = (tx.value("payload of workflow", row.pk) or 0) <= MAX_VALUE_BYTES
        failed = read_whole_workflow(tx, self._snapshots, row, with_tasks=with_tasks)
        asked.correlation_id, asked.traceparent = row.correlation_id, row.traceparent
        asked.input = {**(asked.input or {}), FAILED_WORKFLOW: msgspec.json.decode(_encode(failed))}
        try:
            family = self.chains.family_of(ancestors(tx, row))
            started = self.create(tx, asked, None)
        except ApiError as error:
            logger.error("the failure workflow of %s cannot start: %s", row_id, error.message)
            why = f"Error workflow {asked.name} failed to start.  reason: {error.message}"
            live.change_data(tx, replace(live.data, output=_encode({**output, FAILURE_WORKFLOW: why})))
            return []
        self.chains.add(family, started.row.pk)
        named = {**output, FAILURE_WORKFLOW: tx.ids.workflow(started.row.pk)}
        live.change_data(tx, replace(live.data, output=_encode(named)))
        return [started.row.pk]

    def _end_parent_task(self, tx: Tx, row: WorkflowRow, output: dict[str, Any], reason: str | None) -> list[int]:
        """Tell the task a sub-workflow was started for; its workflow must look at it."""
        parent = get_task(tx, row.parent_task)
        # A task that runs again may wait for another sub-workflow by now, while this one was still to be terminated.
        if parent is None or parent.terminal or parent.sub_workflow != row.pk:
            return []
        live = tx.live.workflow(tx, parent.workflow)
        task = live.task(tx, parent.pk) if live is not None else None
        if live is None or task is None:
            return []
        before = StoredTasks(tx, live).state_of(task)
        after = after_sub_workflow(
            before, title=_title(tx, row), status=row.status, output=output, reason=reason, now_ms=tx.now_ms
        )
        self._update(tx, live, task, after)
        return [parent.workflow]

    def reopen(self, tx: Tx, live: LiveWorkflow, snapshot: Snapshot | None, correlation_id: str | None = None) -> None:
        """A workflow that had ended runs again; its timeout begins anew."""
        row = replace(live.row, status="RUNNING", ended_ms=None, updated_ms=tx.now_ms, retried_ms=tx.now_ms)
        if correlation_id is not None:
            row = replace(row, correlation_id=correlation_id)
        if snapshot is not None:
            row = replace(row, snapshot=snapshot.pk, version=snapshot.definition.get("version", 1))
        live.change_row(tx, row)
        live.change_data(tx, replace(live.data, output=None, reason=None, failed_task=None))

    def amend(
        self,
        tx: Tx,
        live: LiveWorkflow,
        *,
        workflow_input: dict[str, Any] | None,
        correlation_id: str | None,
    ) -> None:
        """Another input, another correlation id, or both."""
        if correlation_id is not None:
            live.change_row(tx, replace(live.row, correlation_id=correlation_id))
        if workflow_input is not None:
            live.change_data(tx, replace(live.data, input=_encode(workflow_input)))

    def end_unread(self, tx: Tx, row: WorkflowRow, reason: str) -> tuple[list[int], list[int]]:
        """End a workflow without looking at its data. (workflows to look at, sub-workflows to terminate)."""
        children = []
        for found in tx.rows("open tasks of workflow", row.pk):
            row_of_task = TaskRow(*found)
            tx.run("end task unread", tx.now_ms, row_of_task.pk)
            if row_of_task.sub_workflow is not None:
                children.append(row_of_task.sub_workflow)
        tx.run("set workflow result", b"{}", reason, row.pk)
        tx.run("end workflow unread", tx.now_ms, tx.now_ms, row.pk)
        tx.live.forget(row.pk)
        tx.notes.moved.add(row.pk)
        _note_end(tx, row, "FAILED", reason)
        touched = workflow_rate_limits.leave(tx, row.pk)
        parent = get_task(tx, row.parent_task)
        if parent is None or parent.terminal:
            return touched, children
        live = tx.live.workflow(tx, parent.workflow)
        task = live.task(tx, parent.pk) if live is not None else None
        if live is not None and task is not None:
            told = f"Sub workflow {_title(tx, row)} failure reason: {reason}"
            self._queue.end(tx, live, task, "FAILED", told)
        return [*touched, parent.workflow], children


def _title(tx: Tx, row: WorkflowRow) -> str:
    """A workflow as Conductor calls it in reasons."""
    return f"{row.name}.{row.version}/{tx.ids.workflow(row.pk)}"


def _note_end(tx: Tx, row: WorkflowRow, status: str, reason: str | None) -> None:
    """What others must know of the end of a workflow: retention, the metrics, and the log."""
    tx.notes.ended = True
    tx.notes.count((ENDED_TOTAL.name, row.name, status))
    if status != "COMPLETED" or logger.isEnabledFor(logging.INFO):
        tx.notes.ends.append((tx.ids.workflow(row.pk), row.name, status, reason))


def _refused(tx: Tx, task: TaskState, problem: str) -> TaskState:
    """A task that nobody may do with such an input."""
    return replace(task, status="FAILED_WITH_TERMINAL_ERROR", reason=problem, ended_ms=tx.now_ms)


def timeout_at(row: WorkflowRow, definition: dict[str, Any]) -> int:
    """When the workflow's own timeout strikes."""
    timeout_s = int(definition.get("timeoutSeconds") or 0)
    return (row.retried_ms or row.created_ms) + timeout_s * 1000 if timeout_s > 0 else FOREVER_MS


def workflow_wake(tx: Tx, row: WorkflowRow, definition: Any, wait_until_ms: int | None) -> int | None:
    """When the workflow must be looked at, whatever else happens."""
    times = [] if wait_until_ms is None else [wait_until_ms]
    timeout_ms = timeout_at(row, definition)
    # One that only alerts has done so once its time is over.
    if timeout_ms != FOREVER_MS and (definition.get("timeoutPolicy") == "TIME_OUT_WF" or timeout_ms > tx.now_ms):
        times.append(timeout_ms)
    return min(times, default=None)


def _asked_of(tx: Tx, row: WorkflowRow, state: WorkflowState, start: SubWorkflowStart) -> Start:
    """What a SUB_WORKFLOW task asks for. ApiError if it cannot be."""
    if len(list(ancestors(tx, row))) >= MAX_SUB_WORKFLOW_DEPTH:
        raise bad_request(f"sub-workflows are nested more than {MAX_SUB_WORKFLOW_DEPTH} deep")
    return Start(
        name=start.name,
        version=start.version,
        # One that came out of data has not been looked at by anybody yet.
        workflow_def=None if start.definition is None else check_workflow_def(start.definition, nested=True),
        input=start.input if start.definition is None else {**start.input, **INLINE_MARK},
        correlation_id=row.correlation_id,
        traceparent=row.traceparent,
        priority=row.priority if start.priority is None else start.priority,
        idempotency_key=start.idempotency_key,
        idempotency_strategy=start.idempotency_strategy,
        task_to_domain=dict(state.task_to_domain) if start.task_to_domain is None else start.task_to_domain,
    )


def existing(tx: Tx, start: Start) -> WorkflowRow | None:
    """The workflow that an earlier start with the same idempotency key made; a conflict, if its strategy says so."""
    if (start.name, start.idempotency_key) in tx.live.unused_keys:
        return None
    found = tx.row("idempotent workflow", start.name, start.idempotency_key)
    if found is None:
        return None
    row = WorkflowRow(*found)
    strategy = start.idempotency_strategy or "RETURN_EXISTING"
    if strategy == "FAIL" or (strategy == "FAIL_ON_RUNNING" and not row.terminal):
        raise conflict(f"a workflow {start.name} with idempotency key {start.idempotency_key} exists already")
    return row if strategy == "RETURN_EXISTING" else None


def ancestors(tx: Tx, row: WorkflowRow) -> Iterator[WorkflowRow]:
    """A workflow, the one it is a sub-workflow of, and so on."""
    yield row
    while row.parent_task is not None and (parent := get_task(tx, row.parent_task)) is not None:
        row = get_workflow(tx, parent.workflow)
        yield row


def _is_failure_workflow(tx: Tx, row: WorkflowRow) -> bool:
    """Whether a workflow runs because another one failed. Only such a one has that one in its input."""
    return any(FAILED_WORKFLOW in msgspec.json.decode(workflow_data(tx, one.pk).input) for one in ancestors(tx, row))


#: What changes in the row of a task when its consequences are drawn.
_EXECUTED = {"executed": 1}


def _differs_in_nothing_else(row: TaskRow, task: TaskState, before: TaskState) -> bool:
    """Whether the decider has only drawn the consequences of a task, as most often."""
    return (
        task.status == row.status
        and task.ended_ms == row.ended_ms
        and task.output is before.output
        and task.input is before.input
        and task == replace(before, executed=True)
    )


def _callback_after_s(task: TaskState) -> int:
    """What clients read as the time a task is put off for: of a WAIT, how long it waits."""
    if task.type == "WAIT" and task.wait_until_ms is not None:
        return -((task.scheduled_ms - task.wait_until_ms) // 1000)
    return task.start_delay_ms // 1000


def _new_columns(
    tx: Tx, workflow: WorkflowRow, task: TaskState, task_def: TaskDef, type_: int, queue: int | None
) -> dict[str, Any]:
    """What a new task has that is not as in `NEW_TASK`."""
    due_at_ms = task.scheduled_ms + task.start_delay_ms if task.start_delay_ms and queue else task.wait_until_ms
    columns = {
        "pk": tx.live.new_tasks[task.task_id],
        "workflow": workflow.pk,
        "queue": queue,
        "type": type_,
        "operator": task.type,
        "ref": task.ref,
        "seq": task.seq,
        "status": task.status,
        "scheduled_ms": task.scheduled_ms,
        "first_scheduled_ms": task.first_scheduled_ms,
        "started_ms": task.started_ms,
        "updated_ms": tx.now_ms,
        "ended_ms": task.ended_ms,
        "response_timeout_ms": task_def.response_timeout_seconds * 1000,
        "ready_since_ms": tx.now_ms if queue and due_at_ms is None else None,
    }
    rare = (
        workflow.priority, task.iteration, task.retry_count, task.retried_task_id, task.retried, task.executed,
        task.start_delay_ms, due_at_ms, task.sub_workflow_id, task_def.timeout_seconds, task_def.poll_timeout_seconds,
        task_def.total_timeout_seconds,
    )  # fmt: skip
    return columns | _rare_columns(tx, workflow, task, task_def, due_at_ms) if any(rare) else columns


def _rare_columns(
    tx: Tx, workflow: WorkflowRow, task: TaskState, task_def: TaskDef, due_at_ms: int | None
) -> dict[str, Any]:
    """What most new tasks have none of."""
    return {
        "priority": workflow.priority,
        "iteration": task.iteration,
        "retry_count": task.retry_count,
        "retried_task": tx.ids.task_pk(task.retried_task_id) if task.retried_task_id else None,
        "retried": int(task.retried),
        "executed": int(task.executed),
        "start_delay_s": task.start_delay_ms // 1000,
        "callback_after_s": _callback_after_s(task),
        "timeout_ms": task_def.timeout_seconds * 1000,
        "poll_timeout_ms": (task_def.poll_timeout_seconds or 0) * 1000,
        "total_timeout_ms": task_def.total_timeout_seconds * 1000,
        "due_at_ms": due_at_ms,
        "sub_workflow": tx.ids.workflow_pk(task.sub_workflow_id) if task.sub_workflow_id else None,
    }
