"""The task endpoints: poll, report, read tasks, inspect queues."""

# mypy: disable-error-code="empty-body"
from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import urlencode

import msgspec

from conductor.client.http.async_api_client import TEXT, AsyncApiClient
from conductor.client.http.endpoint import quote_segment
from conductor.client.http.errors import UNREADABLE, MalformedAnswer, NotFoundException
from conductor.client.http.models.model import encode
from conductor.client.http.models.poll_data import PollData
from conductor.client.http.models.search_result import SearchResult
from conductor.client.http.models.signal_response import SignalResponse
from conductor.client.http.models.task import Task
from conductor.client.http.models.task_exec_log import TaskExecLog
from conductor.client.http.models.task_result import TaskResult
from conductor.client.http.models.task_summary import TaskSummary
from conductor.client.http.models.workflow import Workflow
from conductor.client.http.operation import AsyncClient, Operations, endpoint, operation
from conductor.client.http.response import Response
from conductor.common.text import escape
from conductor.protocol.epoch_token import choose_newer_token
from conductor.protocol.steps import StepPage
from conductor.protocol.wire import (
    CLIENT_QUERY,
    EPOCH_HEADER,
    FEATURES_HEADER,
    MAX_BODY_HEADER,
    NEXT_QUERY,
    SLOTS_QUERY,
)
from conductor.version import __version__

#: The time limit of a poll is the wait that it requests from the server plus this many seconds.
POLL_GRACE_S = 10.0
#: The time limit of a poll for more than `SMALL_BATCH` tasks grows by `GRACE_PER_TASK_S` for each further task, because
#: a busy server needs time for each task. If the client gives up a poll, no worker gets its tasks until their response
#: timeout.
SMALL_BATCH = 20
GRACE_PER_TASK_S = 0.5

#: How this SDK describes itself to a coordinator.
_CLIENT = f"conductor-worker {__version__}, Python {platform.python_version()}"
_BATCH_POLL = "/tasks/poll/batch/{tasktype}"
_TASKS = list[Task]
_FEATURES = FEATURES_HEADER.lower()
_EPOCH = EPOCH_HEADER.lower()
_MAX_BODY = MAX_BODY_HEADER.lower()
#: A smaller body limit of a server is ignored, because even the report that a result is too large would exceed it.
MIN_BODY_BYTES = 4096


class UnreadableTask(NamedTuple):
    """A task of an answer that cannot be decoded. `ids` contains the ids that could be decoded."""

    ids: Task
    reason: str


class PollAnswer(NamedTuple):
    """The answer to a poll.

    Attributes:
        tasks: The tasks.
        features: The features that the server announces.
        max_body: The largest body that the server accepts, in bytes; None if the server does not announce it.
        unreadable: Tasks in the same answer that cannot be decoded.
    """

    tasks: list[Task]
    features: frozenset[str]
    max_body: int | None = None
    unreadable: tuple[UnreadableTask, ...] = ()


class TaskOperations(Operations):
    """The operations of `AsyncTaskClient`, `TaskClient` and `AsyncTaskResourceApi`."""

    @endpoint("GET", "/tasks/poll/{tasktype}", task_type="tasktype", worker_id="workerid")
    async def poll_task(self, task_type: str, worker_id: str | None = None, domain: str | None = None) -> Task | None:
        """Poll for one task. Return None if there is none."""

    @operation
    async def batch_poll_tasks(
        self,
        task_type: str,
        worker_id: str | None = None,
        count: int | None = None,
        timeout_in_millisecond: int | None = None,
        domain: str | None = None,
    ) -> list[Task]:
        """Poll for several tasks, and return them.

        Args:
            task_type: The type of the tasks.
            worker_id: The name of the worker, as the server shows it.
            count: The largest number of tasks, 1 by default.
            timeout_in_millisecond: How long the server waits for the first task, 100 by default.
            domain: The domain of the tasks.
        """
        timeout = 100 if timeout_in_millisecond is None else timeout_in_millisecond
        api = AsyncTaskResourceApi(self.api_client)
        return await api.batch_poll(task_type, workerid=worker_id, domain=domain, count=count or 1, timeout=timeout)

    @endpoint("GET", "/tasks/{taskId}")
    async def get_task(self, task_id: str, *, timeout_s: float | None = None) -> Task:
        """Return a task. Raises `NotFoundException` if there is none with this id."""

    @endpoint("POST", "/tasks", body="task_result")
    async def update_task(self, task_result: TaskResult) -> str:
        """Report a result. Return the id of the task."""

    @endpoint("POST", "/tasks/update-v2")
    async def update_task_v2(self, body: TaskResult) -> Task | None:
        """Report a result. Return the next task of the same type, or None if there is none."""

    @operation
    async def update_task_by_ref_name(
        self,
        workflow_id: str,
        task_ref_name: str,
        status: str,
        output: Mapping[str, Any],
        worker_id: str | None = None,
    ) -> str:
        """Report a result for the open task with this reference name. Return the id of the task.

        Raises:
            NotFoundException: There is no such workflow, or it has no open task with this reference name.
        """
        path = f"/tasks/{quote_segment(workflow_id)}/{quote_segment(task_ref_name)}/{quote_segment(status)}"
        template, query = "/tasks/{workflowId}/{taskRefName}/{status}", {"workerid": worker_id}
        body = encode(output)
        task_id = await self.api_client.call_for(str, "POST", path, query=query, body=body, template=template)
        if not task_id:  # a Conductor server answers 200 with an empty body if it finds no task
            reason = f"workflow '{workflow_id}' has no open task with the reference name '{task_ref_name}'"
            raise NotFoundException(404, reason, request=f"POST {path}")
        return task_id

    @endpoint("POST", "/tasks/{workflowId}/{taskRefName}/{status}/sync", body="output", worker_id="workerid")
    async def update_task_sync(
        self,
        workflow_id: str,
        task_ref_name: str,
        status: str,
        output: Mapping[str, Any],
        worker_id: str | None = None,
    ) -> Workflow:
        """Report a result for the open task with this reference name. Return the workflow afterwards."""

    @endpoint("POST", "/tasks/{workflowId}/{status}/signal/sync", resend=False)
    async def signal(
        self, workflow_id: str, status: str, body: Mapping[str, Any], return_strategy: str | None = None
    ) -> SignalResponse:
        """End the task that a workflow waits in. `return_strategy` selects the content of the answer."""

    @endpoint("POST", "/tasks/{workflowId}/{status}/signal", resend=False)
    async def signal_async(self, workflow_id: str, status: str, body: Mapping[str, Any]) -> None:
        """End the task that a workflow waits in, without waiting for the tasks after it."""

    @endpoint("POST", "/tasks/{taskId}/log", body="log_message", as_text=True, content_type=TEXT, resend=False)
    async def add_task_log(self, task_id: str, log_message: str) -> None:
        """Add one line to the log of a task."""

    @endpoint("GET", "/tasks/{taskId}/log")
    async def get_task_logs(self, task_id: str, *, timeout_s: float | None = None) -> list[TaskExecLog]:
        """Return the log of a task."""

    @endpoint("GET", "/tasks/{taskId}/steps")
    async def get_task_steps(self, task_id: str, after: int | None = None) -> StepPage:
        """Return a page of the durable steps of a task, from a coordinator."""

    @endpoint("GET", "/tasks/queue/size")
    async def get_queue_size_for_task(self, task_type: str, domain: str | None = None) -> int:
        """Return the number of queued tasks of a type."""

    @endpoint("GET", "/tasks/queue/sizes", task_types="taskType")
    async def get_queue_sizes(self, task_types: list[str]) -> dict[str, int]:
        """Return the number of queued tasks of each type."""

    @endpoint("GET", "/tasks/queue/all")
    async def get_all_queue_sizes(self) -> dict[str, int]:
        """Return the number of queued tasks of every queue."""

    @endpoint("GET", "/tasks/queue/polldata")
    async def get_task_poll_data(self, task_type: str) -> list[PollData]:
        """Return the last poll for a task type in each domain."""

    @endpoint("GET", "/tasks/queue/polldata/all")
    async def get_all_poll_data(self) -> list[PollData]:
        """Return the last poll for every task type and domain."""

    @endpoint("POST", "/tasks/queue/requeue/{taskType}")
    async def requeue_pending_tasks(self, task_type: str) -> str:
        """Requeue every open task of a type, including running ones. Return the number of tasks as text."""

    @endpoint("GET", "/tasks/search")
    async def search(
        self,
        *,
        start: int = 0,
        size: int = 100,
        sort: str | None = None,
        free_text: str = "*",
        query: str | None = None,
    ) -> SearchResult[TaskSummary]:
        """Search tasks in the server's index, and return one page of results."""


class AsyncTaskResourceApi(TaskOperations, AsyncClient):
    """The task endpoints, including the endpoints that only workers need.

    Args:
        api_client: The connections to use.
    """

    def __init__(self, api_client: AsyncApiClient) -> None:
        super().__init__(api_client)

    async def poll_for_worker(
        self,
        tasktype: str,
        *,
        worker_id: str | None,
        domain: str | None,
        count: int,
        timeout_ms: int,
        slots: int | None = None,
    ) -> PollAnswer:
        """Poll for up to `count` tasks, and return the answer. The server waits up to `timeout_ms` for the first task.

        With `slots`, tell a coordinator how many tasks the worker runs at the same time, and the version of this SDK.
        """
        path = f"{_poll_path(tasktype, worker_id, domain, slots)}count={count}&timeout={timeout_ms}"
        client = self.api_client
        timeout_s = timeout_ms / 1000 + POLL_GRACE_S + GRACE_PER_TASK_S * max(0, count - SMALL_BATCH)
        response = await client.call("GET", path, timeout_s=timeout_s, template=_BATCH_POLL)
        unreadable: tuple[UnreadableTask, ...] = ()
        try:
            tasks = client.read(response, _TASKS, f"GET /tasks/poll/batch/{tasktype}")
        except MalformedAnswer as error:
            try:
                tasks, unreadable = decode_tasks(msgspec.json.decode(response.body, type=list[msgspec.Raw]))
            except UNREADABLE:
                raise error from None
        features = _features(response.headers.get(_FEATURES))
        epoch = response.headers.get(_EPOCH)
        if epoch is not None and epoch != client.configuration.seen_epoch:
            client.configuration.seen_epoch = choose_newer_token(client.configuration.seen_epoch, epoch)
        return PollAnswer(tasks, features, read_max_body(response), unreadable)

    async def batch_poll(
        self,
        tasktype: str,
        *,
        workerid: str | None = None,
        domain: str | None = None,
        count: int = 1,
        timeout: int = 100,
    ) -> list[Task]:
        """Poll for up to `count` tasks, and return them. The server waits up to `timeout` ms for the first task."""
        answer = await self.poll_for_worker(
            tasktype, worker_id=workerid, domain=domain, count=count, timeout_ms=timeout
        )
        for ids, reason in answer.unreadable:
            request = f"GET /tasks/poll/batch/{tasktype}"
            raise MalformedAnswer(
                f"{request} answered 200 with a body that is not a list of tasks: '{ids.task_id}': {reason}"
            )
        return answer.tasks

    @endpoint("POST", "/tasks")
    async def update_task(self, body: TaskResult) -> str:
        """Report a result. Return the id of the task."""

    async def send_report(
        self, body: bytes, *, timeout_s: float | None = None, wanted: Callable[[], bool] | None = None
    ) -> Response:
        """Send one encoded report and return the answer, whatever its status.

        Args:
            body: The report, encoded.
            timeout_s: Seconds for this call, in place of the Configuration's.
            wanted: Called before the report is sent a second time, which happens only if it returns True.
        """
        return await self.api_client.call("POST", "/tasks", body=body, timeout_s=timeout_s, wanted=wanted)

    async def send_reports(
        self,
        body: bytes,
        *,
        next_tasks: int = 0,
        timeout_s: float | None = None,
        wanted: Callable[[], bool] | None = None,
    ) -> Response:
        """Send an encoded array of reports to a coordinator. The other arguments are those of `send_report`.

        For each of the first `next_tasks` reports, the coordinator returns one more task of the same type.
        """
        query = {NEXT_QUERY: next_tasks} if next_tasks else None
        path = "/tasks/reports"
        return await self.api_client.call("POST", path, query=query, body=body, timeout_s=timeout_s, wanted=wanted)


@lru_cache(maxsize=1024)
def _poll_path(tasktype: str, worker_id: str | None, domain: str | None, slots: int | None) -> str:
    """Return the URL path of a poll without count and timeout. It is cached, because a worker repeats its polls."""
    query = {name: value for name, value in (("workerid", worker_id), ("domain", domain)) if value}
    if slots is not None:
        query |= {SLOTS_QUERY: str(slots), CLIENT_QUERY: _CLIENT}
    return f"/tasks/poll/batch/{quote_segment(tasktype)}?{urlencode(query)}{'&' if query else ''}"


@lru_cache(maxsize=64)
def _features(header: str | None) -> frozenset[str]:
    return frozenset(part.strip() for part in header.split(",") if part.strip()) if header else frozenset()


def read_max_body(response: Response) -> int | None:
    """Return the largest body that the server accepts, or None if the answer has no valid limit."""
    text = response.headers.get(_MAX_BODY)
    if not text or not text.isascii() or not text.isdigit() or len(text) > 18:
        return None
    limit_bytes = int(text)
    return limit_bytes if limit_bytes >= MIN_BODY_BYTES else None


class _Ids(msgspec.Struct, rename="camel"):
    task_id: Any = None
    workflow_instance_id: Any = None
    lease_id: Any = None


def decode_tasks(items: Sequence[bytes]) -> tuple[list[Task], tuple[UnreadableTask, ...]]:
    """Return the decoded tasks, and those that cannot be decoded. Each task is decoded separately."""
    tasks: list[Task] = []
    unreadable: list[UnreadableTask] = []
    for item in items:
        try:
            tasks.append(Task.decode(item))
        except UNREADABLE as wrong:
            unreadable.append(UnreadableTask(_ids_of(item), escape(str(wrong))))
    return tasks, tuple(unreadable)


def _ids_of(item: bytes) -> Task:
    try:
        ids = msgspec.json.decode(item, type=_Ids)
    except UNREADABLE:
        return Task()
    texts: dict[str, Any] = {
        name: value for name, value in msgspec.structs.asdict(ids).items() if isinstance(value, str)
    }
    return Task(**texts)
