"""Reads one workflow from a server: its status, every attempt at its tasks, and why it waits.

A coordinator returns all of these facts in one answer. For a Conductor server, this module derives them from the REST
API, with a note about the facts that this API does not have.
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
from conductor.protocol.statuses import TERMINAL_TASK_STATUSES, TaskStatus, WorkflowStatus
from conductor.protocol.views import TaskAttempt, WorkflowDetails, base_reference
from conductor.protocol.why_waiting import (
    UNPOLLED_MS,
    QueueFacts,
    TaskFacts,
    Waiting,
    explain_waiting_task,
    explain_waiting_workflow,
)

#: At most this many open tasks are explained; more would repeat the same reasons.
MAX_OPEN_TASKS = 200
_FAILED = (TaskStatus.FAILED, TaskStatus.FAILED_WITH_TERMINAL_ERROR, TaskStatus.TIMED_OUT)
#: Shown with a running workflow of a Conductor server, because only a coordinator returns these facts.
LIMITATION = (
    "A Conductor server does not report whether the worker of a task is alive, "
    "nor whether a rate or concurrency limit holds a task back"
)


class WorkflowReport(WorkflowDetails, kw_only=True):
    """A workflow as the command line shows it."""

    #: Sentences about facts that the server does not report.
    cannot_tell: list[str] = field(default_factory=list)


async def read_workflow(api: AsyncApiClient, workflow_id: str) -> WorkflowReport:
    """Read one workflow from either kind of server.

    Raises:
        NotFoundException: The workflow does not exist.
        ConductorError: The server does not answer.
    """
    found = await read_view(api, f"/view/workflow/{quote_segment(workflow_id)}", WorkflowReport)
    return found if found is not None else await _read_from_conductor_server(api, workflow_id)


async def read_view(api: AsyncApiClient, path: str, type_: type[Any], **query: Any) -> Any:
    """Return a view of a coordinator; None if the server has no such route or object, or does not answer with a view.

    Raise ApiException if the server rejects the query or the key.
    """
    try:
        return await api.call_for(type_, "GET", path, query=query)
    except AuthorizationException:
        raise
    except ApiException as error:
        if error.status == 400:  # the coordinator has the view but rejects the query
            raise
        return None
    except MalformedAnswer:  # the answer is not a view but, for example, a web page
        return None


async def _read_from_conductor_server(api: AsyncApiClient, workflow_id: str) -> WorkflowReport:
    workflow = await AsyncWorkflowClient(api).get_workflow(workflow_id)
    now, facts = now_ms(), _FactReader(api, workflow)
    workflow.tasks.sort(key=lambda task: task.seq)
    open_tasks = [task for task in workflow.tasks if task.status not in TERMINAL_TASK_STATUSES][:MAX_OPEN_TASKS]
    if workflow.is_terminal:
        failed = _find_cause(workflow.tasks) if workflow.status != WorkflowStatus.COMPLETED else None
        known = [] if failed is None else [await facts.read_task(failed, now)]
    else:
        known = [await facts.read_task(task, now) for task in open_tasks]
    reasons = {task.task_id: explain_waiting_task(task, now) for task in known if task.task_id}
    without_tasks = workflow.to_dict()
    without_tasks.pop("tasks", None)
    return WorkflowReport(
        now_ms=now,
        workflow=without_tasks,
        tasks=[_to_attempt(task, reasons.get(task.task_id)) for task in workflow.tasks],
        waiting=explain_waiting_workflow(workflow.status, known, now, workflow.reason_for_incompletion),
        cannot_tell=[LIMITATION] if open_tasks and not workflow.is_terminal else [],
    )


def _find_cause(tasks: list[Task]) -> Task | None:
    """Return the last failed task. A failed join only repeats the reason of a joined task, so other tasks come first.

    A Conductor server either fails or cancels the join, depending on which of its threads is first.
    """
    failed = [task for task in tasks if task.status in _FAILED]
    causes = [task for task in failed if operator_of(task) not in ("JOIN", "EXCLUSIVE_JOIN")]
    return next(reversed(causes or failed), None)


def _to_attempt(task: Task, waiting: Waiting | None) -> TaskAttempt:
    values = task.output_data.get("evaluationResult") or task.output_data.get("caseOutput")
    chosen = values[0] if isinstance(values, list) and values else None
    return TaskAttempt(
        task_id=task.task_id,
        ref=task.reference_task_name,
        base_ref=base_reference(task.reference_task_name, task.iteration, operator_of(task)),
        name=task.task_def_name,
        type=operator_of(task),
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


def operator_of(task: Task) -> str:
    """Return the kind of a task: SIMPLE, WAIT, JOIN, ….

    The `taskType` of a Conductor server is not enough: for a worker task, it is the name of the task.
    """
    if task.task_type in OWN_QUEUES or task.workflow_task is None:
        return task.task_type
    return task.workflow_task.type


class _FactReader:
    """Collects the facts about tasks from a Conductor server. Reads each queue once."""

    def __init__(self, api: AsyncApiClient, workflow: Workflow) -> None:
        self._tasks = AsyncTaskResourceApi(api)
        self._workflow = workflow
        self._queues: dict[tuple[str, str], QueueFacts | None] = {}

    async def read_task(self, task: Task, now: int) -> TaskFacts:
        kind = operator_of(task)
        is_for_workers = task.task_type not in OWN_QUEUES and task.status not in TERMINAL_TASK_STATUSES
        is_held = task.status == TaskStatus.IN_PROGRESS
        return TaskFacts(
            ref=task.reference_task_name,
            type=kind,
            status=task.status,
            task_id=task.task_id,
            workflow_status=self._workflow.status,
            retry_count=task.retry_count,
            retry_limit=_retry_limit(task),
            reason=task.reason_for_incompletion or self._previous_reason(task),
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

    def _previous_reason(self, task: Task) -> str | None:
        before = [one for one in self._workflow.tasks if one.task_id == task.retried_task_id]
        return before[0].reason_for_incompletion if before else None

    def _waits_for(self, task: Task) -> list[str]:
        if task.task_type in ("JOIN", "EXCLUSIVE_JOIN"):
            ended = {one.reference_task_name for one in self._workflow.tasks if one.status in TERMINAL_TASK_STATUSES}
            join_on = task.input_data.get("joinOn")
            return [str(ref) for ref in join_on if ref not in ended] if isinstance(join_on, list) else []
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
            self._queues[name, domain] = await self._read_queue(name, domain, now)
        return self._queues[name, domain]

    async def _read_queue(self, name: str, domain: str, now: int) -> QueueFacts | None:
        """Return the polls and the size of a queue; None if the server does not report them."""
        try:
            polls = await self._tasks.get_task_poll_data(name)
            ready = await self._tasks.get_queue_size_for_task(name, domain)
            held = (
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
            held=held,
            last_poll_ms=_polled_ms(mine) or None if mine else None,
            last_worker=mine.worker_id if mine else None,
            polled_domains=[other for other in lately if other != domain],
        )


def _polled_ms(poll: Any) -> int:
    return int(poll.last_poll_time or 0)


def _retry_limit(task: Task) -> int:
    own = task.workflow_task.retry_count if task.workflow_task is not None else None
    registered = task.task_definition or (task.workflow_task.task_definition if task.workflow_task else None)
    return own if own is not None else (registered.retry_count or 0 if registered is not None else 0)


def _due_ms(task: Task) -> int | None:
    """Return the time at which the task can be polled or, for a WAIT, ends; None if it has no delay.

    The delay counts from the last change of the task.
    """
    wait_s = task.callback_after_seconds
    if not wait_s or wait_s >= 10**9:
        return None
    began_ms = task.update_time if task.poll_count else task.scheduled_time
    return (began_ms or task.scheduled_time) + wait_s * 1000


def base_reference_in(ref: str, known: Iterable[str]) -> str:
    """Return the reference name in the definition, without the suffixes that loop iterations add."""
    while ref not in known and (found := re.fullmatch(r"(.+)__\d+", ref)):
        ref = found[1]
    return ref


def to_json_value(value: Struct | list[Any]) -> Any:
    return msgspec.to_builtins(value)
