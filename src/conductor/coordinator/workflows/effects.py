"""Carries out decisions: adds and changes tasks, starts sub-workflows, ends workflows. Runs inside transactions."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, NamedTuple

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
from conductor.coordinator.server_metrics import ENDED_TOTAL, RETRIES_TOTAL, STARTED_TOTAL
from conductor.coordinator.store.lookup import get_task, get_workflow, remove_task, workflow_data
from conductor.coordinator.store.row_cache import CachedTask, CachedWorkflow
from conductor.coordinator.store.rows import NEW_TASK, StepRow, TaskData, TaskRow, WorkflowData, WorkflowRow
from conductor.coordinator.store.statements import (
    END_TASK_UNREAD,
    END_WORKFLOW_UNREAD,
    IDEMPOTENT_WORKFLOW,
    OPEN_TASKS_OF_WORKFLOW,
    PAYLOAD_OF_WORKFLOW,
    RUNNING_CALLS,
    SET_WORKFLOW_RESULT,
    TASKS_WAITING_FOR_WORKFLOW,
)
from conductor.coordinator.store.transaction import EndedWorkflow, Tx
from conductor.coordinator.tasks import task_steps
from conductor.coordinator.tasks.poll_data import PollData
from conductor.coordinator.tasks.task_queue import TaskQueue, update_task_and_wake
from conductor.coordinator.tasks.task_report import NewWait
from conductor.coordinator.views.workflow_views import read_whole_workflow
from conductor.coordinator.workflows import messages, workflow_rate_limits
from conductor.coordinator.workflows.decider import (
    after_sub_workflow,
    describe_sub_workflow_failure,
    initial_variables,
    workflow_input,
)
from conductor.coordinator.workflows.decision import Decision, SubWorkflowStart
from conductor.coordinator.workflows.fast_loops import ROUNDS_BETWEEN_CHECKS, LoopRound
from conductor.coordinator.workflows.operators import MAX_PRIORITY
from conductor.coordinator.workflows.start_chains import Chains, ends_a_wait
from conductor.coordinator.workflows.state import TaskState, WorkflowState
from conductor.coordinator.workflows.stored_tasks import StoredTasks
from conductor.protocol.statuses import (
    TERMINAL_TASK_STATUSES,
    TERMINAL_WORKFLOW_STATUSES,
    TaskStatus,
    WorkflowStatus,
)
from conductor.protocol.steps import Step, StepKind
from conductor.telemetry.tracing import is_traceparent

logger = logging.getLogger(__name__)

#: A time that is never reached.
FOREVER_MS = 2**62
#: The input parameter of a failure workflow that holds the failed workflow.
FAILED_WORKFLOW = "failedWorkflow"
#: The output parameter of a failed workflow that holds the id of its failure workflow.
FAILURE_WORKFLOW = "conductor.failure_workflow"
#: Added to the input of a sub-workflow with an inline definition, as on Conductor.
INLINE_MARK = {"_systemMetadata": {"dynamic": True}}
#: The token for "no domain" in a list of domains.
NO_DOMAIN = "NO_DOMAIN"

#: The task definition (timeouts, limits) of a SWITCH or DO_WHILE while it waits for the value of a script.
SCRIPT = TaskDef(name="script")

_encode = msgspec.json.encode
_decode_object = msgspec.json.Decoder(dict[str, Any]).decode


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
    """Validate a start request. An inline definition is validated and completed with defaults.

    Raises:
        ApiError: The request is invalid.
    """
    if not 0 <= (start.priority or 0) <= MAX_PRIORITY:
        raise bad_request(f"priority must be from 0 to {MAX_PRIORITY}, not {start.priority}")
    if start.external_input_payload_storage_path:
        raise bad_request("externalInputPayloadStoragePath is not supported by the coordinator; send the input itself")
    if start.workflow_def is not None:
        start.workflow_def = check_workflow_def({"name": start.name, **start.workflow_def})


class _QueueOfTask(NamedTuple):
    """The keys and names of the queue that a task is put into."""

    type: int
    queue: int
    task_type: str
    domain: str


class Effects:
    """Turns decisions into changes of rows."""

    def __init__(self, queue: TaskQueue, snapshots: Snapshots, poll_data: PollData) -> None:
        self._queue = queue
        self._snapshots = snapshots
        self._poll_data = poll_data
        #: Counts workflows that start each other without waiting.
        self.chains = Chains()

    # -- a new workflow -------------------------------------------------------------------------------------------

    def create(
        self,
        tx: Tx,
        start: Start,
        parent_task: int | None,
        started_by: str | None = None,
        *,
        is_definition_from_data: bool = False,
    ) -> CachedWorkflow:
        """Add a new workflow and return it. The caller must then take the first step of the workflow."""
        snapshot = self._freeze(tx, start, is_definition_from_data)
        definition = snapshot.definition
        given = workflow_input(definition, start.input or {})
        problem = find_workflow_input_problem(tx, definition, given) if definition.get("inputSchema") else None
        if problem is not None:
            raise bad_request(problem)
        row = WorkflowRow(
            pk=tx.cache.new_workflow_pk(tx),
            name=definition["name"],
            version=definition.get("version", 1),
            snapshot=snapshot.pk,
            status=WorkflowStatus.RUNNING,
            priority=start.priority or 0,
            correlation_id=start.correlation_id,
            idempotency_key=start.idempotency_key,
            parent_task=parent_task,
            created_ms=tx.now_ms,
            updated_ms=tx.now_ms,
            traceparent=start.traceparent if start.traceparent and is_traceparent(start.traceparent) else None,
        )
        limit = workflow_rate_limits.find_limit(definition, row, given) if definition.get("rateLimitConfig") else None
        if limit is not None:  # before the workflow is added, because the limit may reject it
            workflow_rate_limits.line_up(tx, row, limit)
        variables, task_to_domain = initial_variables(definition), start.task_to_domain or {}
        data = WorkflowData(
            input=_encode(given),
            variables=_encode(variables),
            task_to_domain=_encode(task_to_domain) if task_to_domain else None,
            created_by=start.created_by,
            started_by=started_by,
        )
        if row.idempotency_key is not None:
            tx.cache.unused_keys.discard((row.name, row.idempotency_key))
        cached = CachedWorkflow(row, data, is_stored=False)
        cached.decoded = given, variables, task_to_domain
        tx.cache.add(cached)
        tx.notes.count((STARTED_TOTAL.name, row.name))
        return cached

    def _freeze(self, tx: Tx, start: Start, is_definition_from_data: bool) -> Snapshot:
        if start.workflow_def is not None:
            return self._snapshots.freeze_inline(tx, start.workflow_def, is_from_data=is_definition_from_data)
        snapshot = self._snapshots.freeze_registered(tx, start.name or "", start.version)
        if snapshot is None:
            raise not_found(f"No such workflow defined. name={start.name}, version={start.version or 'null'}")
        return snapshot

    # -- a decision -----------------------------------------------------------------------------------------------

    def carry_out(
        self, tx: Tx, cached: CachedWorkflow, snapshot: Snapshot, state: WorkflowState, decision: Decision
    ) -> list[int]:
        """Carry out a decision. Return the workflows that must be decided because of it."""
        status = decision.workflow_status
        if self.chains and any(map(ends_a_wait, decision.update)):
            self.chains.leave(ancestors(tx, cached.row))
        last_task, rejected = self._write_tasks(tx, cached, snapshot, state, decision)
        if decision.variables is not None or decision.input is not None:
            new = {"variables": decision.variables, "input": decision.input}
            cached.update(tx, **{name: _encode(value) for name, value in new.items() if value is not None})
        if decision.taken_messages:
            messages.remove(tx, decision.taken_messages)
        touched = [self._start_sub_workflow(tx, cached, state, start) for start in decision.start_sub_workflows]
        if rejected:
            touched.append(cached.row.pk)
        tx.notes.changed_workflows.add(cached.row.pk)
        if status in TERMINAL_WORKFLOW_STATUSES:
            return touched + self._end(tx, cached, snapshot.definition, decision, last_task)
        if cached.row.status in TERMINAL_WORKFLOW_STATUSES:
            return touched  # an ended workflow has no deadlines
        wake_at_ms = next_workflow_wake(tx, cached.row, state.plan.definition, decision.wait_until_ms)
        tx.notes.add_wake(wake_at_ms)
        cached.update(
            tx,
            updated_ms=tx.now_ms,
            status=cached.row.status if status is None else status,
            last_task=cached.row.last_task if last_task is None else last_task,
            wake_at_ms=wake_at_ms,
            restless=decision.restless,
        )
        return touched

    def _write_tasks(
        self, tx: Tx, cached: CachedWorkflow, snapshot: Snapshot, state: WorkflowState, decision: Decision
    ) -> tuple[int | None, bool]:
        """Write the new and changed tasks of a decision.

        Returns:
            The task that was scheduled last, and whether a task was rejected because of its input.
        """
        last_task, rejected = None, False
        if decision.remove:
            self._remove_tasks(tx, cached, [tx.ids.task_pk(task_id) or 0 for task_id in decision.remove])
        for task in decision.schedule:
            definition = None if task.own is None else _encode(task.own)
            task_def = snapshot.task_def(task.ref, definition)
            polled = task.queued and task.status not in TERMINAL_TASK_STATUSES
            problem = find_task_input_problem(tx, task_def, task.input) if polled and task_def.enforce_schema else None
            if problem is not None:
                rejected, polled = True, False
                task = _reject(tx, task, problem)
            last_task = self._schedule(tx, cached, state, task, task_def, definition, polled=polled)
        for task in decision.update:
            known = cached.task(tx, tx.ids.task_pk(task.task_id) or 0)
            if known is None:
                continue
            if task.queued and not task.terminal and known.row.terminal:
                task_def = snapshot.task_def(task.ref, known.data.definition)
                rejected |= self._run_again(tx, cached, state, known, task, task_def)
            else:
                self._update(tx, cached, known, task)
        return last_task, rejected

    def _remove_tasks(self, tx: Tx, cached: CachedWorkflow, removed: list[int]) -> None:
        for pk in removed:
            remove_task(tx, pk)
        cached.drop_tasks(removed)
        if cached.row.last_task in removed:  # find the new last task, after which the sequence numbers continue
            remaining = cached.all_tasks(tx)
            cached.update(tx, last_task=remaining[-1].row.pk if remaining else None)

    def _run_again(
        self,
        tx: Tx,
        cached: CachedWorkflow,
        state: WorkflowState,
        known: CachedTask,
        task: TaskState,
        task_def: TaskDef,
    ) -> bool:
        """Queue an ended task again, under the same id. Return whether it was rejected because of its input."""
        problem = find_task_input_problem(tx, task_def, task.input) if task_def.enforce_schema else None
        if problem is not None:
            self._update(tx, cached, known, _reject(tx, task, problem))
            return True
        is_retry = task.retry_count > known.row.retry_count
        self._update(tx, cached, known, task)
        if known.row.queue is None:  # the task was never queued
            cached.update_task(tx, known, queue=self._find_queue(tx, state, task, task_def).queue)
        self._queue.run_again(tx, cached, known, is_retry=is_retry)
        return False

    def _schedule(
        self,
        tx: Tx,
        cached: CachedWorkflow,
        state: WorkflowState,
        task: TaskState,
        task_def: TaskDef,
        definition: bytes | None,
        *,
        polled: bool,
    ) -> int:
        queue = self._find_queue(tx, state, task, task_def) if polled else None
        if queue is not None and task.type in OPERATORS_WITH_SCRIPTS:
            task_def = SCRIPT
        type_pk = get_task_type_pk(tx, task.name) if queue is None else queue.type
        row = _new_row(tx, cached.row, task, task_def, type_pk, None if queue is None else queue.queue)
        if row.retried_task is not None:
            tx.notes.count((RETRIES_TOTAL.name, task.name))
        if row.retried_task is not None and (line := task_steps.inherit(tx, cached, row.retried_task)):
            row = replace(row, **line)
        output = _encode(task.output) if task.output else None
        new = CachedTask(
            row, TaskData(_encode(task.input), output, task.reason, None, definition), task.name, is_stored=False
        )
        cached.add_task(tx, new)
        if queue is not None:  # tasks without a queue have no deadline of their own, only their workflow has
            update_task_and_wake(tx, cached, new)
            if row.ready_since_ms is not None:
                tx.notes.add_ready(queue.task_type, queue.domain)
        new.state = task
        return row.pk

    def _find_queue(self, tx: Tx, state: WorkflowState, task: TaskState, task_def: TaskDef) -> _QueueOfTask:
        """Return the queue of a task for a worker or for one of the coordinator's own workers."""
        if task.type in OPERATORS_WITH_SCRIPTS:
            domain = system_domain(task.type)
            queue = get_queue_keys(tx, task.type, domain, SCRIPT)[1]
            return _QueueOfTask(get_task_type_pk(tx, task.name), queue, task.type, domain)
        if task.type in SYSTEM_TASKS:
            domain = system_domain(task.type)
        else:
            domain = self._choose_domain(tx, task.name, state.task_to_domain) if state.task_to_domain else ""
        return _QueueOfTask(*get_queue_keys(tx, task.name, domain, task_def), task.name, domain)

    def _choose_domain(self, tx: Tx, task_type: str, task_to_domain: Mapping[str, str]) -> str:
        """Return the first listed domain that was polled recently; the last domain if none was."""
        listed = task_to_domain.get(task_type) or task_to_domain.get("*")
        if not listed:
            return ""
        domains = ["" if name.strip() == NO_DOMAIN else name.strip() for name in listed.split(",")]
        for domain in domains:
            if self._poll_data.is_active(task_type, domain, tx.now_ms):
                return domain
        return domains[-1]

    def _update(self, tx: Tx, cached: CachedWorkflow, known: CachedTask, task: TaskState) -> None:
        """Change a stored task to the state that the decider has computed."""
        before = StoredTasks(tx, cached).state(known)
        if not known.row.terminal and task.terminal:
            self._queue.end_task(tx, cached, known, task.status, None)
        columns: dict[str, Any] = {
            "status": task.status,
            "executed": int(task.executed),
            "retried": int(task.retried),
            "retry_count": task.retry_count,
            "iteration": task.iteration,
            "started_ms": task.started_ms,
            "ended_ms": task.ended_ms,
            "due_at_ms": task.wait_until_ms,
            "sub_workflow": tx.ids.workflow_pk(task.sub_workflow_id) if task.sub_workflow_id else None,
        }
        if task.queued and known.row.queue is None and not task.terminal and task.type in OPERATORS_WITH_SCRIPTS:
            columns |= self._queue_for_script(tx, known.row)
        if task.scheduled_ms != before.scheduled_ms:  # the task runs again, under the same id
            columns["scheduled_ms"] = task.scheduled_ms
            columns["first_scheduled_ms"] = task.first_scheduled_ms
            columns["callback_after_s"] = _callback_after_s(task)
        if task.iteration // ROUNDS_BETWEEN_CHECKS > before.iteration // ROUNDS_BETWEEN_CHECKS:
            tx.notes.loop_rounds.append(
                LoopRound(tx.ids.workflow(cached.row.pk), cached.row.name, task.ref, task.iteration)
            )
        if task.input is not before.input:
            columns["input"] = _encode(task.input)
        if task.output is not before.output:
            columns["output"] = _encode(task.output)
        columns["reason"] = task.reason
        cached.update_task(tx, known, **columns)
        known.state = task

    def _queue_for_script(self, tx: Tx, row: TaskRow) -> dict[str, Any]:
        """Announce a running task to the script worker. Return the columns that put the task into the script queue.

        The columns also replace the timeouts of the task by those of a script.
        """
        queue = get_queue_keys(tx, row.operator, system_domain(row.operator), SCRIPT)[1]
        self._queue.announce_ready(tx, queue)
        return {
            "queue": queue,
            "ready_since_ms": tx.now_ms,
            "response_timeout_ms": SCRIPT.response_timeout_seconds * 1000,
            "timeout_ms": 0,
            "poll_timeout_ms": 0,
            "total_timeout_ms": 0,
        }

    # -- sub-workflows --------------------------------------------------------------------------------------------

    def _start_sub_workflow(self, tx: Tx, cached: CachedWorkflow, state: WorkflowState, start: SubWorkflowStart) -> int:
        """Start a sub-workflow. Return the workflow that must be decided next.

        If the sub-workflow cannot be started, its task fails, and the decider handles that in the parent.
        """
        _, task = tx.cache.get_task(tx, cached.row.pk, tx.ids.task_pk(start.task_id) or 0)
        try:
            request = _start_request(tx, cached.row, state, start)
            found = self._find_started(tx, cached, request) if request.idempotency_key else None
            is_from_data = start.is_definition_from_data or self._snapshots.get(tx, cached.row.snapshot).is_from_data
            child = found or self.create(tx, request, task.row.pk, is_definition_from_data=is_from_data).row
        except ApiError as error:
            why = "; ".join(f"{path}: {message}" for path, message in error.problems) or error.message
            # Only an unknown workflow (404) is worth a retry: it may be registered before the next attempt.
            status = TaskStatus.FAILED if error.status == 404 else TaskStatus.FAILED_WITH_TERMINAL_ERROR
            self._queue.end_task(tx, cached, task, status, why)
            return cached.row.pk
        output = _encode({"subWorkflowId": tx.ids.workflow(child.pk)})
        given = StoredTasks(tx, cached).state(task).input
        if start.definition is None and given.get("subWorkflowVersion") != child.version:
            given = {**given, "subWorkflowVersion": child.version}
        cached.update_task(tx, task, sub_workflow=child.pk, input=_encode(given), output=output)
        if child.terminal:
            return self._end_waiting_task(tx, cached, task, child)
        return child.pk

    def _find_started(self, tx: Tx, cached: CachedWorkflow, request: Start) -> WorkflowRow | None:
        """Return the workflow of an earlier start with the same idempotency key, if the task may use it."""
        present = find_idempotent(tx, request)
        if present is None or not (present.terminal and present.status != WorkflowStatus.COMPLETED):
            return present
        parent = get_task(tx, present.parent_task)
        # The task must not use a failed sub-workflow of the same parent, because this start is a new attempt.
        return None if parent is not None and parent.workflow == cached.row.pk else present

    def _end_waiting_task(self, tx: Tx, cached: CachedWorkflow, task: CachedTask, child: WorkflowRow) -> int:
        """End a SUB_WORKFLOW task whose workflow has ended. Return the parent, which must be decided."""
        data = workflow_data(tx, child.pk)
        output = msgspec.json.decode(data.output or b"{}", type=dict[str, Any])
        before = StoredTasks(tx, cached).state(task)
        after = after_sub_workflow(
            before,
            title=_format_title(tx, child),
            status=child.status,
            output=output,
            reason=data.reason,
            now_ms=tx.now_ms,
        )
        self._update(tx, cached, task, after)
        return cached.row.pk

    # -- ending ---------------------------------------------------------------------------------------------------

    def _end(
        self, tx: Tx, cached: CachedWorkflow, definition: dict[str, Any], decision: Decision, last_task: int | None
    ) -> list[int]:
        status, output = WorkflowStatus(decision.workflow_status or ""), decision.output or {}
        columns: dict[str, Any] = {
            "status": status,
            "updated_ms": tx.now_ms,
            "ended_ms": tx.now_ms,
            "wake_at_ms": None,
            "last_task": cached.row.last_task if last_task is None else last_task,
        }
        is_completed = status == WorkflowStatus.COMPLETED and not decision.reason
        if not (is_completed and self._is_output_of_last_task(tx, cached, last_task, decision.output)):
            failed = tx.ids.task_pk(decision.failed_task.task_id) if decision.failed_task else None
            columns |= {"output": _encode(output), "reason": decision.reason, "failed_task": failed}
        cached.update(tx, **columns)
        _note_end(tx, cached.row, status, decision.reason)
        if definition.get("workflowStatusListenerEnabled"):
            self._announce_end(tx, cached.row)
        touched = workflow_rate_limits.leave_line(tx, cached.row.pk) if definition.get("rateLimitConfig") else []
        if decision.failure_workflow is not None:
            failure = decision.failure_workflow
            request = Start(name=failure.name, version=failure.version, input=failure.input)
            touched += self._start_failure_workflow(tx, cached, request, output)
        if cached.row.parent_task is not None:
            touched += self._end_parent_task(tx, cached.row, output, decision.reason)
        if cached.row.idempotency_key is not None:
            touched += self._end_waiting_tasks(tx, cached.row)
        return touched

    def _is_output_of_last_task(
        self, tx: Tx, cached: CachedWorkflow, last_task: int | None, output: dict[str, Any] | None
    ) -> bool:
        """Return whether the output is the same object as the last task's output, so it need not be stored twice."""
        if cached.data.output is not None:
            return False  # the workflow had ended before, and its stored output must be replaced
        task = cached.task(tx, last_task or cached.row.last_task or 0)
        return task is not None and task.state is not None and task.state.output is output

    def _announce_end(self, tx: Tx, row: WorkflowRow) -> None:
        """Publish the end of a workflow to the event handlers (`workflowStatusListenerEnabled`)."""
        about = {
            "workflowId": tx.ids.workflow(row.pk),
            "workflowType": row.name,
            "version": row.version,
            "correlationId": row.correlation_id,
            "status": row.status,
            "reasonForIncompletion": workflow_data(tx, row.pk).reason,
        }
        publish_event(tx, f"conductor:{row.name}:{row.status}", about)

    def _end_waiting_tasks(self, tx: Tx, row: WorkflowRow) -> list[int]:
        """End SUB_WORKFLOW tasks of other parents that share this workflow through its idempotency key.

        Return these parents, which must be decided.
        """
        touched = []
        for pk in tx.rows(TASKS_WAITING_FOR_WORKFLOW, row.pk):
            waiting = get_task(tx, pk)
            if waiting is not None and not waiting.terminal:
                cached, task = tx.cache.get_task(tx, waiting.workflow, pk)
                touched.append(self._end_waiting_task(tx, cached, task, row))
        return touched

    def _start_failure_workflow(
        self, tx: Tx, cached: CachedWorkflow, request: Start, output: dict[str, Any]
    ) -> list[int]:
        row = cached.row
        row_id = tx.ids.workflow(row.pk)
        if _is_failure_workflow(tx, row):
            # A failure workflow may name itself or the failed workflow as its failure workflow. That would never end.
            logger.warning(
                "Failure workflow not started, because a failure workflow has failed: workflow_id=%s", row_id
            )
            return []
        # The size of an input is limited, so a failed workflow with much data is passed without its tasks.
        with_tasks = (tx.first(PAYLOAD_OF_WORKFLOW, row.pk) or 0) <= MAX_VALUE_BYTES
        failed = read_whole_workflow(tx, self._snapshots, row, with_tasks=with_tasks)
        request.correlation_id, request.traceparent = row.correlation_id, row.traceparent
        request.input = {**(request.input or {}), FAILED_WORKFLOW: msgspec.json.decode(_encode(failed))}
        try:
            family = self.chains.family_of(ancestors(tx, row))
            started = self.create(tx, request, None)
        except ApiError as error:
            logger.error("Failure workflow could not start: workflow_id=%s error=%r", row_id, error.message)
            why = f"Error workflow {request.name} failed to start.  reason: {error.message}"
            cached.update(tx, output=_encode({**output, FAILURE_WORKFLOW: why}))
            return []
        self.chains.add(family, started.row.pk)
        cached.update(tx, output=_encode({**output, FAILURE_WORKFLOW: tx.ids.workflow(started.row.pk)}))
        return [started.row.pk]

    def _end_parent_task(self, tx: Tx, row: WorkflowRow, output: dict[str, Any], reason: str | None) -> list[int]:
        """End the task that a sub-workflow was started for. Return the parent, which must be decided."""
        parent = get_task(tx, row.parent_task)
        if parent is not None and parent.step_count:
            self._end_call(tx, row, parent, output, reason)
            return []
        # The task may have been started again, and wait for another sub-workflow now.
        if parent is None or parent.terminal or parent.sub_workflow != row.pk:
            return []
        cached, task = tx.cache.get_task(tx, parent.workflow, parent.pk)
        before = StoredTasks(tx, cached).state(task)
        after = after_sub_workflow(
            before, title=_format_title(tx, row), status=row.status, output=output, reason=reason, now_ms=tx.now_ms
        )
        self._update(tx, cached, task, after)
        return [parent.workflow]

    # -- messages and workflows that durable steps wait for --------------------------------------------------------

    def begin_wait(self, tx: Tx, wait: NewWait) -> list[int]:
        """Start the workflow of a new durable step, or give the step a message that has arrived before.

        Return the workflows that must be decided because of it.
        """
        cached, task = tx.cache.get_task(tx, wait.workflow, wait.task)
        if wait.step.kind is StepKind.MESSAGE:
            self.give_message(tx, cached, task, wait.step.name)
            return []
        try:
            child = self.create(tx, self._make_call(tx, cached, wait.step), task.row.pk)
        except (ApiError, msgspec.DecodeError) as error:
            name = wait.step.workflow_name or wait.step.name
            why = error.in_one_line() if isinstance(error, ApiError) else f"its input is not a JSON object: {error}"
            message = f"workflow {name} could not be started: {why}"
            self._end_wait(tx, cached, task_steps.find_step(tx, wait), None, message)
            return []
        task_steps.set_called_workflow(tx, wait, child.row.pk)
        cached.update(tx, has_calls=1)
        return [child.row.pk]

    def _make_call(self, tx: Tx, cached: CachedWorkflow, step: Step) -> Start:
        row = cached.row
        if len(list(ancestors(tx, row))) >= MAX_SUB_WORKFLOW_DEPTH:
            raise bad_request(f"workflows are nested more than {MAX_SUB_WORKFLOW_DEPTH} deep")
        return Start(
            name=step.workflow_name or step.name,
            version=step.version,
            input=_decode_object(step.result_json or b"{}"),
            correlation_id=row.correlation_id,
            traceparent=row.traceparent,
            priority=row.priority,
            task_to_domain=_decode_object(cached.data.task_to_domain or b"{}"),
        )

    def give_message(self, tx: Tx, cached: CachedWorkflow, task: CachedTask, name: str) -> bool:
        """Give a stored message with this name to a durable step of a task. Return False if no step waits for it."""
        step = task_steps.find_message_wait(tx, task.row, name)
        taken = messages.take(tx, cached.row.pk, name) if step is not None else []
        if taken:
            self._end_wait(tx, cached, step, _encode(taken[0]["payload"]))
        return bool(taken)

    def _end_call(
        self, tx: Tx, child: WorkflowRow, parent: TaskRow, output: dict[str, Any], reason: str | None
    ) -> None:
        """End the durable step that waits for a workflow."""
        cached = tx.cache.workflow(tx, parent.workflow)
        step = task_steps.find_call(tx, child.pk)
        if cached is None or step is None:
            return
        if child.status == WorkflowStatus.COMPLETED:
            self._end_wait(tx, cached, step, _encode(output))
        else:
            message = f"workflow {_format_title(tx, child)} is {child.status}: {find_innermost_reason(reason)}"
            has_ended_with_parent = child.status == WorkflowStatus.TERMINATED and cached.row.terminal
            error_type = task_steps.ENDED_WITH_PARENT if has_ended_with_parent else ""
            self._end_wait(tx, cached, step, None, message, error_type)

    def _end_wait(
        self,
        tx: Tx,
        cached: CachedWorkflow,
        step: StepRow | None,
        result: bytes | None,
        message: str | None = None,
        error_type: str = "",
    ) -> None:
        """End the wait of a durable step, and wake the latest attempt of its task."""
        if step is None:
            return
        grown_by = task_steps.end_wait(tx, step, result, message, error_type)
        for task in list(cached.queued.values()):
            if task.row.step_line == step.line:
                cached.update_task(tx, task, step_bytes=task.row.step_bytes + grown_by)
                self._queue.wake_suspended(tx, cached, task)

    def reopen(
        self, tx: Tx, cached: CachedWorkflow, snapshot: Snapshot | None, correlation_id: str | None = None
    ) -> None:
        """Make an ended workflow RUNNING again. Its timeout restarts."""
        columns: dict[str, Any] = {}
        if correlation_id is not None:
            columns["correlation_id"] = correlation_id
        if snapshot is not None:
            columns |= {"snapshot": snapshot.pk, "version": snapshot.definition.get("version", 1)}
        cached.update(
            tx,
            status=WorkflowStatus.RUNNING,
            ended_ms=None,
            updated_ms=tx.now_ms,
            retried_ms=tx.now_ms,
            output=None,
            reason=None,
            failed_task=None,
            **columns,
        )

    def amend(
        self,
        tx: Tx,
        cached: CachedWorkflow,
        *,
        workflow_input: dict[str, Any] | None,
        correlation_id: str | None,
    ) -> None:
        """Replace the input of a workflow, its correlation id, or both."""
        if correlation_id is not None:
            cached.update(tx, correlation_id=correlation_id)
        if workflow_input is not None:
            cached.update(tx, input=_encode(workflow_input))

    def end_unread(self, tx: Tx, row: WorkflowRow, reason: str) -> tuple[list[int], list[int]]:
        """End a workflow without reading its data, which may be unreadable or crash the process.

        Returns:
            The workflows that must be decided, and the sub-workflows that must be terminated.
        """
        children = []
        for task_row in tx.rows(OPEN_TASKS_OF_WORKFLOW, row.pk):
            tx.run(END_TASK_UNREAD, tx.now_ms, task_row.pk)
            if task_row.sub_workflow is not None:
                children.append(task_row.sub_workflow)
        if row.has_calls:
            children += tx.rows(RUNNING_CALLS, row.pk)
        tx.run(SET_WORKFLOW_RESULT, b"{}", reason, row.pk)
        tx.run(END_WORKFLOW_UNREAD, tx.now_ms, tx.now_ms, row.pk)
        tx.cache.drop(row.pk)
        tx.notes.changed_workflows.add(row.pk)
        _note_end(tx, row, WorkflowStatus.FAILED, reason)
        touched = workflow_rate_limits.leave_line(tx, row.pk)
        parent = get_task(tx, row.parent_task)
        if parent is not None and parent.step_count:
            self._end_call(tx, replace(row, status=WorkflowStatus.FAILED), parent, {}, reason)
            return touched, children
        if parent is None or parent.terminal:
            return touched, children
        cached, task = tx.cache.get_task(tx, parent.workflow, parent.pk)
        why = describe_sub_workflow_failure(_format_title(tx, row), reason)
        self._queue.end_task(tx, cached, task, TaskStatus.FAILED, why)
        return [*touched, parent.workflow], children


def find_innermost_reason(reason: str | None) -> str:
    """Return the last part of a failure reason that names a chain of sub-workflows."""
    return (reason or "no reason given").rpartition(" failure reason: ")[2]


def _format_title(tx: Tx, row: WorkflowRow) -> str:
    """Return the name of a workflow as Conductor writes it in failure reasons."""
    return f"{row.name}.{row.version}/{tx.ids.workflow(row.pk)}"


def _note_end(tx: Tx, row: WorkflowRow, status: WorkflowStatus, reason: str | None) -> None:
    """Note the end of a workflow for retention, the metrics and the log."""
    tx.notes.has_ended = True
    tx.notes.count((ENDED_TOTAL.name, row.name, status))
    if status != WorkflowStatus.COMPLETED or logger.isEnabledFor(logging.INFO):
        workflow_id = tx.ids.workflow(row.pk)
        tx.notes.ended.append(EndedWorkflow(workflow_id, row.name, status, reason, row.traceparent))


def _reject(tx: Tx, task: TaskState, problem: str) -> TaskState:
    """Return a task that has failed because its input does not match its schema."""
    return replace(task, status=TaskStatus.FAILED_WITH_TERMINAL_ERROR, reason=problem, ended_ms=tx.now_ms)


def timeout_at(row: WorkflowRow, definition: dict[str, Any]) -> int:
    """Return when the workflow times out; `FOREVER_MS` if it has no timeout."""
    timeout_s = int(definition.get("timeoutSeconds") or 0)
    return (row.retried_ms or row.created_ms) + timeout_s * 1000 if timeout_s > 0 else FOREVER_MS


def next_workflow_wake(tx: Tx, row: WorkflowRow, definition: Any, wait_until_ms: int | None) -> int | None:
    """Return the nearest time at which the workflow must be decided, or None."""
    times = [] if wait_until_ms is None else [wait_until_ms]
    timeout_ms = timeout_at(row, definition)
    # With another policy than TIME_OUT_WF, a passed timeout is logged once and then ignored.
    if timeout_ms != FOREVER_MS and (definition.get("timeoutPolicy") == "TIME_OUT_WF" or timeout_ms > tx.now_ms):
        times.append(timeout_ms)
    return min(times, default=None)


def _start_request(tx: Tx, row: WorkflowRow, state: WorkflowState, start: SubWorkflowStart) -> Start:
    """Return the start request of a SUB_WORKFLOW task.

    Raises:
        ApiError: The sub-workflow is nested too deeply, or its definition is invalid.
    """
    if len(list(ancestors(tx, row))) >= MAX_SUB_WORKFLOW_DEPTH:
        raise bad_request(f"sub-workflows are nested more than {MAX_SUB_WORKFLOW_DEPTH} deep")
    return Start(
        name=start.name,
        version=start.version,
        # Validate here, because a definition from task data was not validated at registration.
        workflow_def=None if start.definition is None else check_workflow_def(start.definition, nested=True),
        input=start.input if start.definition is None else {**start.input, **INLINE_MARK},
        correlation_id=row.correlation_id,
        traceparent=row.traceparent,
        priority=row.priority if start.priority is None else start.priority,
        idempotency_key=start.idempotency_key,
        idempotency_strategy=start.idempotency_strategy,
        task_to_domain=dict(state.task_to_domain) if start.task_to_domain is None else start.task_to_domain,
    )


def find_idempotent(tx: Tx, start: Start) -> WorkflowRow | None:
    """Return the workflow of an earlier start with the same idempotency key, or None.

    Raises:
        ApiError: Such a workflow exists, and the idempotency strategy is to fail.
    """
    name = start.name if start.workflow_def is None else start.workflow_def["name"]
    if (name, start.idempotency_key) in tx.cache.unused_keys:
        return None
    row = tx.first(IDEMPOTENT_WORKFLOW, name, start.idempotency_key)
    if row is None:
        return None
    strategy = start.idempotency_strategy or "RETURN_EXISTING"
    if strategy == "FAIL" or (strategy == "FAIL_ON_RUNNING" and not row.terminal):
        raise conflict(f"a workflow {name} with idempotency key {start.idempotency_key} already exists")
    return row if strategy == "RETURN_EXISTING" else None


def ancestors(tx: Tx, row: WorkflowRow) -> Iterator[WorkflowRow]:
    """Yield a workflow, its parent, the parent of that, and so on."""
    yield row
    while row.parent_task is not None and (parent := get_task(tx, row.parent_task)) is not None:
        row = get_workflow(tx, parent.workflow)
        yield row


def _is_failure_workflow(tx: Tx, row: WorkflowRow) -> bool:
    """Return whether a workflow or one of its parents is a failure workflow, judged by its input."""
    return any(FAILED_WORKFLOW in msgspec.json.decode(workflow_data(tx, one.pk).input) for one in ancestors(tx, row))


def _callback_after_s(task: TaskState) -> int:
    """Return the delay that clients see: for a WAIT how long it waits, otherwise the start delay."""
    if task.type == "WAIT" and task.wait_until_ms is not None:
        return -((task.scheduled_ms - task.wait_until_ms) // 1000)
    return task.start_delay_ms // 1000


def _new_row(
    tx: Tx, workflow: WorkflowRow, task: TaskState, task_def: TaskDef, type_pk: int, queue: int | None
) -> TaskRow:
    """Return the row of a task that the decider has scheduled."""
    due_at_ms = task.scheduled_ms + task.start_delay_ms if task.start_delay_ms and queue else task.wait_until_ms
    return replace(
        NEW_TASK,
        pk=tx.cache.new_tasks[task.task_id],
        workflow=workflow.pk,
        queue=queue,
        type=type_pk,
        operator=task.type,
        ref=task.ref,
        seq=task.seq,
        iteration=task.iteration,
        status=task.status,
        priority=workflow.priority,
        retry_count=task.retry_count,
        retried_task=tx.ids.task_pk(task.retried_task_id) if task.retried_task_id else None,
        retried=int(task.retried),
        executed=int(task.executed),
        scheduled_ms=task.scheduled_ms,
        first_scheduled_ms=task.first_scheduled_ms,
        started_ms=task.started_ms,
        updated_ms=tx.now_ms,
        ended_ms=task.ended_ms,
        start_delay_s=task.start_delay_ms // 1000,
        callback_after_s=_callback_after_s(task),
        response_timeout_ms=task_def.response_timeout_seconds * 1000,
        timeout_ms=task_def.timeout_seconds * 1000,
        poll_timeout_ms=(task_def.poll_timeout_seconds or 0) * 1000,
        total_timeout_ms=task_def.total_timeout_seconds * 1000,
        ready_since_ms=tx.now_ms if queue and due_at_ms is None else None,
        due_at_ms=due_at_ms,
        sub_workflow=tx.ids.workflow_pk(task.sub_workflow_id) if task.sub_workflow_id else None,
    )
