"""`/tasks`: poll, report, read, and look at queues."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import urlencode

import msgspec

from conductor.client.http.api.async_resource_api import AsyncResourceApi
from conductor.client.http.async_api_client import TEXT, encode
from conductor.client.http.endpoint import quote_segment
from conductor.client.http.errors import UNREADABLE, MalformedAnswer, NotFoundException
from conductor.client.http.models.poll_data import PollData
from conductor.client.http.models.search_result import SearchResult
from conductor.client.http.models.signal_response import SignalResponse
from conductor.client.http.models.task import Task
from conductor.client.http.models.task_exec_log import TaskExecLog
from conductor.client.http.models.task_result import TaskResult
from conductor.client.http.models.task_summary import TaskSummary
from conductor.client.http.models.workflow import Workflow
from conductor.client.http.response import Response
from conductor.common.text import escape
from conductor.protocol.wire import FEATURES_HEADER, MAX_BODY_HEADER, NEXT_QUERY

#: A poll may take what it asked the server to wait, and this.
POLL_GRACE_S = 10.0
#: A large batch gets more: a busy server needs its time for each task, and a poll that is given up takes all of its
#: tasks along, until their response timeout.
SMALL_BATCH = 20
GRACE_PER_TASK_S = 0.5

_BATCH_POLL = "/tasks/poll/batch/{tasktype}"
_BY_REF = "/tasks/{workflowId}/{taskRefName}/{status}"
_SIGNAL = "/tasks/{workflowId}/{status}/signal"
_TASKS = list[Task]
_FEATURES = FEATURES_HEADER.lower()
_MAX_BODY = MAX_BODY_HEADER.lower()
#: A server that says it takes less than this cannot be meant: not even the news that a result is too large fits.
MIN_BODY_BYTES = 4096


class Misread(NamedTuple):
    """A task in an answer that cannot be read as one: its ids, as far as it has them, and what is wrong."""

    ids: Task
    reason: str


class Polled(NamedTuple):
    """What a poll brought, and what the server says it can do and takes."""

    tasks: list[Task]
    features: frozenset[str]
    #: The largest body the server takes, in bytes; None when it does not say.
    max_body: int | None = None
    #: Tasks that came with the others and cannot be read.
    misread: tuple[Misread, ...] = ()


class AsyncTaskResourceApi(AsyncResourceApi):
    """The task endpoints, each one call, typed."""

    async def poll_batch(
        self, tasktype: str, *, worker_id: str | None, domain: str | None, count: int, timeout_ms: int
    ) -> Polled:
        """Take up to `count` tasks, waiting up to `timeout_ms` on the server for the first."""
        path = f"{_poll_path(tasktype, worker_id, domain)}count={count}&timeout={timeout_ms}"
        client = self.api_client
        timeout_s = timeout_ms / 1000 + POLL_GRACE_S + GRACE_PER_TASK_S * max(0, count - SMALL_BATCH)
        response = await client.call("GET", path, timeout_s=timeout_s, template=_BATCH_POLL)
        misread: tuple[Misread, ...] = ()
        try:
            tasks = client.read(response, _TASKS, f"GET /tasks/poll/batch/{tasktype}")
        except MalformedAnswer as error:
            try:
                tasks, misread = read_each(msgspec.json.decode(response.body, type=list[msgspec.Raw]))
            except UNREADABLE:
                raise error from None
        features = _features(response.headers.get(_FEATURES))
        return Polled(tasks, features, max_body_of(response), misread)

    async def batch_poll(
        self,
        tasktype: str,
        *,
        workerid: str | None = None,
        domain: str | None = None,
        count: int = 1,
        timeout: int = 100,
    ) -> list[Task]:
        """Take up to `count` tasks, waiting up to `timeout` milliseconds on the server."""
        polled = await self.poll_batch(tasktype, worker_id=workerid, domain=domain, count=count, timeout_ms=timeout)
        for ids, reason in polled.misread:
            request = f"GET /tasks/poll/batch/{tasktype}"
            raise MalformedAnswer(f"{request} answered 200 with what is no list of tasks: '{ids.task_id}': {reason}")
        return polled.tasks

    async def poll(self, tasktype: str, *, workerid: str | None = None, domain: str | None = None) -> Task | None:
        """Take one task, or None."""
        query = {"workerid": workerid, "domain": domain or None}
        path = f"/tasks/poll/{quote_segment(tasktype)}"
        response = await self.api_client.call("GET", path, query=query, template="/tasks/poll/{tasktype}")
        return self._task_or_none(response, f"GET {path}")

    async def update_task(self, body: TaskResult) -> str:
        """Report a result; the answer is the task's id."""
        return await self.api_client.call_for(str, "POST", "/tasks", body=body.encode())

    async def update_task_v2(self, body: TaskResult) -> Task | None:
        """Report a result and take the next task of the same type in one call."""
        response = await self.api_client.call("POST", "/tasks/update-v2", body=body.encode())
        return self._task_or_none(response, "POST /tasks/update-v2")

    async def send_report(
        self, body: bytes, *, timeout_s: float | None = None, wanted: Callable[[], bool] | None = None
    ) -> Response:
        """Send one encoded report; the caller judges the answer. `wanted` is asked before it is sent once more."""
        return await self.api_client.call("POST", "/tasks", body=body, timeout_s=timeout_s, wanted=wanted)

    async def send_reports(
        self,
        body: bytes,
        *,
        next_tasks: int = 0,
        timeout_s: float | None = None,
        wanted: Callable[[], bool] | None = None,
    ) -> Response:
        """Send an encoded array of reports to a coordinator; otherwise as `send_report`.

        The first `next_tasks` reports ask for one more task each, of the queue that their task came from.
        """
        query = {NEXT_QUERY: next_tasks} if next_tasks else None
        path = "/tasks/reports"
        return await self.api_client.call("POST", path, query=query, body=body, timeout_s=timeout_s, wanted=wanted)

    async def update_task_by_ref_name(
        self,
        workflow_id: str,
        task_ref_name: str,
        status: str,
        output: Mapping[str, Any],
        worker_id: str | None = None,
    ) -> str:
        """Report on the open task with that reference name; the answer is its id.

        Raises:
            NotFoundException: The workflow has no open task of that name, or there is no such workflow.
        """
        path = f"/tasks/{quote_segment(workflow_id)}/{quote_segment(task_ref_name)}/{quote_segment(status)}"
        query = {"workerid": worker_id}
        task_id = await self.api_client.call_for(str, "POST", path, query=query, body=encode(output), template=_BY_REF)
        if not task_id:  # how a server says that it has found nothing
            reason = f"workflow '{workflow_id}' has no open task with the reference name '{task_ref_name}'"
            raise NotFoundException(404, reason, request=f"POST {path}")
        return task_id

    async def update_task_sync(
        self,
        workflow_id: str,
        task_ref_name: str,
        status: str,
        output: Mapping[str, Any],
        worker_id: str | None = None,
    ) -> Workflow:
        """As `update_task_by_ref_name`; the answer is the workflow afterwards."""
        path = f"/tasks/{quote_segment(workflow_id)}/{quote_segment(task_ref_name)}/{quote_segment(status)}/sync"
        query = {"workerid": worker_id}
        body = encode(output)
        return await self.api_client.call_for(
            Workflow, "POST", path, query=query, body=body, template=_BY_REF + "/sync"
        )

    async def signal(
        self, workflow_id: str, status: str, body: Mapping[str, Any], return_strategy: str | None = None
    ) -> SignalResponse:
        """End the task that an execution waits in; the answer is what `return_strategy` asks for."""
        path = f"/tasks/{quote_segment(workflow_id)}/{quote_segment(status)}/signal/sync"
        query = {"returnStrategy": return_strategy}
        return await self.api_client.call_for(
            SignalResponse, "POST", path, query=query, body=encode(body), template=_SIGNAL + "/sync", resend=False
        )

    async def signal_async(self, workflow_id: str, status: str, body: Mapping[str, Any]) -> None:
        """End the task that an execution waits in, without waiting for what follows."""
        path = f"/tasks/{quote_segment(workflow_id)}/{quote_segment(status)}/signal"
        await self.api_client.call_for(str, "POST", path, body=encode(body), template=_SIGNAL, resend=False)

    async def get_task(self, task_id: str, *, timeout_s: float | None = None) -> Task:
        """Read one task."""
        path = f"/tasks/{quote_segment(task_id)}"
        return await self.api_client.call_for(Task, "GET", path, timeout_s=timeout_s, template="/tasks/{taskId}")

    async def log(self, task_id: str, text: str) -> None:
        """Add one line to a task's log."""
        path = f"/tasks/{quote_segment(task_id)}/log"
        body = text.encode()
        await self.api_client.call_for(
            str, "POST", path, body=body, content_type=TEXT, template="/tasks/{taskId}/log", resend=False
        )

    async def get_task_logs(self, task_id: str, *, timeout_s: float | None = None) -> list[TaskExecLog]:
        """Read a task's log."""
        path, template = f"/tasks/{quote_segment(task_id)}/log", "/tasks/{taskId}/log"
        return await self.api_client.call_for(list[TaskExecLog], "GET", path, timeout_s=timeout_s, template=template)

    async def get_queue_size_for_task(self, task_type: str, domain: str | None = None) -> int:
        """How many tasks of a type wait."""
        query = {"taskType": task_type, "domain": domain or None}
        return await self.api_client.call_for(int, "GET", "/tasks/queue/size", query=query)

    async def get_queue_sizes(self, task_types: list[str]) -> dict[str, int]:
        """How many tasks of each type wait."""
        return await self.api_client.call_for(
            dict[str, int], "GET", "/tasks/queue/sizes", query={"taskType": task_types}
        )

    async def get_all_queue_sizes(self) -> dict[str, int]:
        """How many tasks wait in every queue."""
        return await self.api_client.call_for(dict[str, int], "GET", "/tasks/queue/all")

    async def get_task_poll_data(self, task_type: str) -> list[PollData]:
        """Who polled for a type last, in each domain."""
        query = {"taskType": task_type}
        return await self.api_client.call_for(list[PollData], "GET", "/tasks/queue/polldata", query=query)

    async def get_all_poll_data(self) -> list[PollData]:
        """Who polled last, for every type and domain."""
        return await self.api_client.call_for(list[PollData], "GET", "/tasks/queue/polldata/all")

    async def requeue_pending_tasks(self, task_type: str) -> str:
        """Put every open task of a type back into its queue (also those being executed); how many, as text."""
        path = f"/tasks/queue/requeue/{quote_segment(task_type)}"
        return await self.api_client.call_for(str, "POST", path, template="/tasks/queue/requeue/{taskType}")

    async def search(
        self,
        *,
        start: int = 0,
        size: int = 100,
        sort: str | None = None,
        free_text: str = "*",
        query: str | None = None,
    ) -> SearchResult[TaskSummary]:
        """Search tasks in the server's index."""
        params = {"start": start, "size": size, "sort": sort, "freeText": free_text, "query": query}
        return await self.api_client.call_for(SearchResult[TaskSummary], "GET", "/tasks/search", query=params)

    def _task_or_none(self, response: Response, request: str) -> Task | None:
        """No task is 204, or an empty body."""
        if response.status < 300 and not response.body:
            return None
        return self.api_client.read(response, Task, request)


@lru_cache(maxsize=1024)
def _poll_path(tasktype: str, worker_id: str | None, domain: str | None) -> str:
    """A worker asks the same again and again; only count and timeout differ. An empty domain must not be sent."""
    query = {name: value for name, value in (("workerid", worker_id), ("domain", domain)) if value}
    return f"/tasks/poll/batch/{quote_segment(tasktype)}?{urlencode(query)}{'&' if query else ''}"


@lru_cache(maxsize=64)
def _features(header: str | None) -> frozenset[str]:
    return frozenset(part.strip() for part in header.split(",") if part.strip()) if header else frozenset()


def max_body_of(response: Response) -> int | None:
    """The largest body the server takes, where an answer says so and means it."""
    text = response.headers.get(_MAX_BODY)
    if not text or not text.isascii() or not text.isdigit() or len(text) > 18:
        return None
    limit_bytes = int(text)
    return limit_bytes if limit_bytes >= MIN_BODY_BYTES else None


class _Ids(msgspec.Struct, rename="camel"):
    task_id: Any = None
    workflow_instance_id: Any = None
    lease_id: Any = None


def read_each(items: Sequence[bytes]) -> tuple[list[Task], tuple[Misread, ...]]:
    """Read each task by itself, so that a malformed one does not affect the others."""
    tasks: list[Task] = []
    misread: list[Misread] = []
    for item in items:
        try:
            tasks.append(Task.decode(item))
        except UNREADABLE as wrong:
            misread.append(Misread(_ids_of(item), escape(str(wrong))))
    return tasks, tuple(misread)


def _ids_of(item: bytes) -> Task:
    try:
        ids = msgspec.json.decode(item, type=_Ids)
    except UNREADABLE:
        return Task()
    texts: dict[str, Any] = {
        name: value for name, value in msgspec.structs.asdict(ids).items() if isinstance(value, str)
    }
    return Task(**texts)
