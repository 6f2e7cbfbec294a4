"""One workflow as its server tells of it: where it stands, every attempt at its tasks, and why it waits.

A coordinator says all of it in one answer. Of a plain Conductor server the same is put together from what its REST API
tells, and what that leaves open is said, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct, field

from conductor.cli.queue_state import OWN_QUEUES
from conductor.cli.times import now_ms
from conductor.client.http.api.async_task_resource_api import AsyncTaskResourceApi
from conductor.client.http.async_api_client import AsyncApiClient
from conductor.client.http.endpoint import quote_segment
from conductor.client.http.errors import ApiException, AuthorizationException, ConductorError, MalformedAnswer
from conductor.client.http.models.task import Task
from conductor.client.http.models.workflow import Workflow
from conductor.client.workflow_client import AsyncWorkflowClient
from conductor.protocol.statuses import TERMINAL_TASK_STATUSES
from conductor.protocol.views import TaskAttempt, WorkflowDetails, base_reference
from conductor.protocol.why_waiting import (
    UNPOLLED_MS,
    QueueFacts,
    TaskFacts,
    Waiting,
    explain_waiting_task,
    explain_waiting_workflow,
)

#: The open tasks of a workflow that are looked at: beyond, they only say the same again.
MAX_OPEN = 200
#: What the REST API of a plain Conductor server does not have.
CANNOT_TELL = (
    "A plain Conductor server does not tell whether the worker that has a task still lives, "
    "nor whether a limit of rate or concurrency holds a task back"
)


class WorkflowReport(WorkflowDetails, kw_only=True):
    """A workflow as its server describes it, and what that server does not tell."""

    cannot_tell: list[str] = field(default_factory=list)


async def read_execution(api: AsyncApiClient, workflow_id: str) -> WorkflowReport:
    """One workflow, from whatever server this is. Raises ConductorError; NotFoundException for no such workflow."""
    found = await ask_view(api, f"/view/workflow/{quote_segment(workflow_id)}", WorkflowReport)
    return found if found is not None else await _from_plain_server(api, workflow_id)


async def ask_view(api: AsyncApiClient, path: str, type_: type[Any], **query: Any) -> Any:
    """What a coordinator shows people; None of a server that has no such route, or no such thing."""
    try:
        return await api.call_for(type_, "GET", path, query=query)
    except AuthorizationException:
        raise
    except ApiException as error:
        if error.status == 400:  # a coordinator that says what is wrong with the question
            raise
        return None
    except MalformedAnswer:  # a page of the server's own
        return None


async def _from_plain_server(api: AsyncApiClient, workflow_id: str) -> WorkflowReport:
    workflow = await AsyncWorkflowClient(api).get_workflow(workflow_id)
    now, facts = now_ms(), _Facts(api, workflow)
    workflow.tasks.sort(key=lambda task: task.seq)
    open_ones = [task for task in workflow.tasks if task.status not in TERMINAL_TASK_STATUSES][:MAX_OPEN]
    if workflow.is_terminal:
        failed = _telling_failure(workflow.tasks) if workflow.status != "COMPLETED" else None
        told = [] if failed is None else [await facts.of(failed, now)]
    else:
        told = [await facts.of(task, now) for task in open_ones]
    said = {task.task_id: explain_waiting_task(task, now) for task in told if task.task_id}
    steps = [_step(task, said.get(task.task_id)) for task in workflow.tasks]
    without_tasks = workflow.to_dict()
    without_tasks.pop("tasks", None)
    return WorkflowReport(
        now_ms=now,
        workflow=without_tasks,
        tasks=steps,
        waiting=explain_waiting_workflow(workflow.status, told, now, workflow.reason_for_incompletion),
        cannot_tell=[CANNOT_TELL] if open_ones and not workflow.is_terminal else [],
    )


def _telling_failure(tasks: list[Task]) -> Task | None:
    """The last task that failed. A join that failed repeats the reason of what it joins: it counts only if it is alone.

    Whether a plain server still fails the join, or cancels it with the rest, depends on which of its threads is first.
    """
    failed = [task for task in tasks if task.status in ("FAILED", "FAILED_WITH_TERMINAL_ERROR", "TIMED_OUT")]
    causes = [task for task in failed if kind_of(task) not in ("JOIN", "EXCLUSIVE_JOIN")]
    return next(reversed(causes or failed), None)


def _step(task: Task, waiting: Waiting | None) -> TaskAttempt:
    values = task.output_data.get("evaluationResult") or task.output_data.get("caseOutput")
    chosen = values[0] if isinstance(values, list) and values else None
    return TaskAttempt(
        task_id=task.task_id,
        ref=task.reference_task_name,
        base_ref=base_reference(task.reference_task_name, task.iteration, kind_of(task)),
        name=task.task_def_name,
        type=kind_of(task),
        status=task.status,
        seq=task.seq,
        iteration=task.iteration,
        retry_count=task.retry_count,
        scheduled_ms=task.scheduled_time,
        started_ms=task.start_time,
        ended_ms=task.end_time,
        worker_id=task.worker_id,
        domain=task.domain or "",
        sub_workflow_id=task.sub_workflow_id,
        reason=task.reason_for_incompletion,
        chosen=None if chosen is None else str(chosen),
        waiting=None if task.status in TERMINAL_TASK_STATUSES else waiting,
    )


def kind_of(task: Task) -> str:
    """SIMPLE, WAIT, JOIN, …: a plain server calls a task for workers by its name."""
    if task.task_type in OWN_QUEUES or task.workflow_task is None:
        return task.task_type
    return task.workflow_task.type


class _Facts:
    """What can be found out about open tasks on a plain server, each queue looked at once."""

    def __init__(self, api: AsyncApiClient, workflow: Workflow) -> None:
        self._tasks = AsyncTaskResourceApi(api)
        self._workflow = workflow
        self._queues: dict[tuple[str, str], QueueFacts | None] = {}

    async def of(self, task: Task, now: int) -> TaskFacts:
        """What is known of one task."""
        kind = kind_of(task)
        is_for_workers = task.task_type not in OWN_QUEUES and task.status not in TERMINAL_TASK_STATUSES
        is_held = task.status == "IN_PROGRESS"
        return TaskFacts(
            ref=task.reference_task_name,
            type=kind,
            status=task.status,
            task_id=task.task_id,
            workflow_status=self._workflow.status,
            retry_count=task.retry_count,
            retry_limit=_retry_limit(task),
            reason=task.reason_for_incompletion or self._reason_before(task),
            worker_id=task.worker_id if is_held else None,
            started_ms=task.start_time or None,
            due_at_ms=_due_ms(task),
            ready_since_ms=task.scheduled_time or None,
            postponed=bool(task.poll_count and task.callback_after_seconds),
            waits_for=self._waits_for(task),
            iteration=task.iteration if kind == "DO_WHILE" else 0,
            sub_workflow_id=task.sub_workflow_id or None,
            queue=await self._queue(task.task_type, task.domain or "", now) if is_for_workers else None,
        )

    def _reason_before(self, task: Task) -> str | None:
        before = [one for one in self._workflow.tasks if one.task_id == task.retried_task_id]
        return before[0].reason_for_incompletion if before else None

    def _waits_for(self, task: Task) -> list[str]:
        if task.task_type in ("JOIN", "EXCLUSIVE_JOIN"):
            ended = {one.reference_task_name for one in self._workflow.tasks if one.status in TERMINAL_TASK_STATUSES}
            return [ref for ref in _texts(task.input_data.get("joinOn")) if ref not in ended]
        if task.task_type == "DO_WHILE":
            suffix = f"__{task.iteration}"
            return [
                one.reference_task_name
                for one in self._workflow.tasks
                if one.status not in TERMINAL_TASK_STATUSES and one.reference_task_name.endswith(suffix)
            ]
        return []

    async def _queue(self, name: str, domain: str, now: int) -> QueueFacts | None:
        if (name, domain) not in self._queues:
            self._queues[name, domain] = await self._ask_queue(name, domain, now)
        return self._queues[name, domain]

    async def _ask_queue(self, name: str, domain: str, now: int) -> QueueFacts | None:
        """Who polls it and how much waits; None where the server does not say."""
        try:
            polls = await self._tasks.get_task_poll_data(name)
            ready = await self._tasks.get_queue_size_for_task(name, domain)
            in_hand = (
                await self._tasks.search(size=1, query=f"taskType IN ({name}) AND status IN (IN_PROGRESS)")
            ).total_hits
        except ConductorError:
            return None
        mine = max((poll for poll in polls if (poll.domain or "") == domain), key=_polled_ms, default=None)
        lately = [poll.domain or "" for poll in polls if now - _polled_ms(poll) <= UNPOLLED_MS]
        return QueueFacts(
            name=name,
            domain=domain,
            ready=ready,
            held=in_hand,
            last_poll_ms=_polled_ms(mine) or None if mine else None,
            last_worker=mine.worker_id if mine else None,
            polled_domains=[other for other in lately if other != domain],
        )


def _polled_ms(poll: Any) -> int:
    return int(poll.last_poll_time or 0)


def _texts(value: Any) -> Iterable[str]:
    return [str(item) for item in value] if isinstance(value, list) else []


def _retry_limit(task: Task) -> int:
    own = task.workflow_task.retry_count if task.workflow_task is not None else None
    registered = task.task_definition or (task.workflow_task.task_definition if task.workflow_task else None)
    return own if own is not None else (registered.retry_count or 0 if registered is not None else 0)


def _due_ms(task: Task) -> int | None:
    """When it can be polled, or a WAIT is over: the server tells the seconds, and they count from its last change."""
    wait_s = task.callback_after_seconds
    if not wait_s or wait_s >= 10**9:
        return None
    began_ms = task.update_time if task.poll_count else task.scheduled_time
    return (began_ms or task.scheduled_time) + wait_s * 1000


def base_of(ref: str, known: Iterable[str]) -> str:
    """The reference name in the definition: without the rounds of loops."""
    while ref not in known and (found := re.fullmatch(r"(.+)__\d+", ref)):
        ref = found[1]
    return ref


def plain(value: Struct | list[Any]) -> Any:
    """As JSON has it."""
    return msgspec.to_builtins(value)
