"""Polling and reading tasks."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec

from conductor.coordinator.core import Poll
from conductor.coordinator.http.answer import DONE, NO_CONTENT, Answer, as_json, as_text, error_answer
from conductor.coordinator.http.memory_budget import UNCOUNTED_BYTES
from conductor.coordinator.http.request import Request
from conductor.coordinator.http.routing import Route
from conductor.coordinator.limits import MAX_BODY_BYTES
from conductor.coordinator.request_errors import ApiError, bad_request, not_found
from conductor.coordinator.store.lookup import get_task
from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.views import queue_sizes as sizes
from conductor.coordinator.views import task_views
from conductor.protocol.wire import FEATURES as FEATURE_LIST
from conductor.protocol.wire import FEATURES_HEADER, MAX_BODY_HEADER

#: Every poll answer says what this server can do beyond a plain one, and how much it takes.
ANNOUNCED = ((FEATURES_HEADER, FEATURE_LIST), (MAX_BODY_HEADER, str(MAX_BODY_BYTES)))
#: The answer to a poll whose tasks are too large for the memory that is left for answers.
TOO_LARGE_NOW = error_answer(
    ApiError(503, "the coordinator has too many large answers in memory; try again in a moment", retryable=True)
)


async def poll_one(request: Request) -> Answer:
    """GET /tasks/poll/{type}: one task or 204, after at most 100 ms."""
    tasks = await request.core.poll(_poll(request, 1, 100), request.when_gone)
    if not tasks:
        return Answer(204, headers=ANNOUNCED)
    return or_requeue(request, tasks, as_json(tasks[0], *ANNOUNCED))


async def poll_batch(request: Request) -> Answer:
    """GET /tasks/poll/batch/{type}: as soon as there is at least one task, or [] when the time is over.

    With count=0 the parked polls of the same worker are answered at once, with []: it wants no more work.
    """
    poll = _poll(request, request.query_int("count", 1), request.query_int("timeout", 100))
    tasks = await request.core.poll(poll, request.when_gone)
    return or_requeue(request, tasks, as_json(tasks, *ANNOUNCED))


def or_requeue(
    request: Request, tasks: list[dict[str, Any]], answer: Answer, instead: Answer = TOO_LARGE_NOW
) -> Answer:
    """Return an answer that delivers tasks. If there is no memory for it, they are requeued and `instead` is sent."""
    if len(answer.body) <= UNCOUNTED_BYTES:
        return answer
    core, task_ids = request.core, [task["taskId"] for task in tasks]

    async def requeue() -> Answer:
        await core.write(lambda tx: core.queue.take_back(tx, task_ids))
        return instead

    return answer._replace(fallback=requeue)


def _poll(request: Request, count: int, timeout_ms: int) -> Poll:
    domain = request.query("domain") or ""
    return Poll(request.params["type"], domain, request.query("workerid"), count, timeout_ms)


async def get(request: Request) -> Answer:
    """GET /tasks/{taskId}: the task, or 404."""
    task_id = request.params["taskId"]
    return as_json(await request.core.read(lambda tx: task_views.task(tx, request.core.snapshots, task_id)))


async def add_log(request: Request) -> Answer:
    """POST /tasks/{taskId}/log: the body is the line, raw or as a JSON string; 404 without such a task."""
    if not request.body:
        raise bad_request("Required request body is missing")
    line, task_id = _log_line(request.body), request.params["taskId"]

    def add(tx: Tx) -> None:
        if get_task(tx, tx.ids.task_pk(task_id)) is None:
            raise not_found(f"Task not found for taskId: {task_id}")
        tx.run("add log", task_id, tx.now_ms, line)

    await request.core.write(add)
    return DONE


def _log_line(body: bytes) -> str:
    # JavaScript clients send a quoted JSON string, Java ones the bare text, both as application/json.
    if body.startswith(b'"') and body.endswith(b'"'):
        try:
            return msgspec.json.decode(body, type=str)
        except (msgspec.DecodeError, UnicodeDecodeError):
            pass
    return body.decode("utf-8", "replace")


async def logs(request: Request) -> Answer:
    """GET /tasks/{taskId}/log: its lines, oldest first."""
    task_id = request.params["taskId"]
    rows = await request.core.read(lambda tx: tx.rows("logs", task_id))
    if not rows:
        return NO_CONTENT
    return as_json([{"log": line, "taskId": task_id, "createdTime": at_ms} for line, at_ms in rows])


async def queue_size(request: Request) -> Answer:
    """GET /tasks/queue/size?taskType=&domain=: how many wait to be polled."""
    task_type, domain = request.required_query("taskType"), request.query("domain") or ""
    return as_json(await request.core.read(lambda tx: sizes.queue_size(tx, task_type, domain)))


async def queue_sizes(request: Request) -> Answer:
    """GET /tasks/queue/sizes?taskType=a&taskType=b: name to how many wait."""
    names = request.query_list("taskType")
    if not names:
        raise bad_request("query parameter 'taskType' is required")
    return as_json(await request.core.read(lambda tx: {name: sizes.queue_size(tx, name, "") for name in names}))


async def all_queues(request: Request) -> Answer:
    """GET /tasks/queue/all: every queue and how many wait in it."""
    return as_json(await request.core.read(sizes.all_queues))


async def all_queues_verbose(request: Request) -> Answer:
    """GET /tasks/queue/all/verbose: the same, in the nesting of a plain server."""
    return as_json(await request.core.read(sizes.all_queues_verbose))


async def poll_data(request: Request) -> Answer:
    """GET /tasks/queue/polldata?taskType=: who polled for it last, and when."""
    return as_json(request.core.poll_data.of(request.required_query("taskType")))


async def all_poll_data(request: Request) -> Answer:
    """GET /tasks/queue/polldata/all: the same for every type."""
    return as_json(request.core.poll_data.of())


async def requeue(request: Request) -> Answer:
    """POST /tasks/queue/requeue/{type}: everything open of a type goes back to its queue; leases end."""
    requeue, task_type, count, last = request.core.queue.requeue_some, request.params["type"], 0, 0
    while done := await request.core.write(partial(requeue, task_type=task_type, after=last)):
        count, last = count + len(done), done[-1]
    return as_text(str(count))


_WHO = {"workerid": "string", "domain": "string"}
_BATCH = {**_WHO, "count": "integer", "timeout": "integer"}

ROUTES = [
    Route("GET", "/api/tasks/poll/{type}", poll_one, has_side_effects=True, query=_WHO),
    Route("GET", "/api/tasks/poll/batch/{type}", poll_batch, has_side_effects=True, query=_BATCH),
    Route("POST", "/api/tasks/poll/batch/{type}", poll_batch, query=_BATCH),
    Route("GET", "/api/tasks/queue/size", queue_size, query={"taskType": "string", "domain": "string"}),
    Route("GET", "/api/tasks/queue/sizes", queue_sizes, query={"taskType": "string"}),
    Route("GET", "/api/tasks/queue/all", all_queues),
    Route("GET", "/api/tasks/queue/all/verbose", all_queues_verbose),
    Route("GET", "/api/tasks/queue/polldata", poll_data, query={"taskType": "string"}),
    Route("GET", "/api/tasks/queue/polldata/all", all_poll_data),
    Route("POST", "/api/tasks/queue/requeue/{type}", requeue),
    Route("GET", "/api/tasks/{taskId}", get),
    Route("POST", "/api/tasks/{taskId}/log", add_log, body=str),
    Route("GET", "/api/tasks/{taskId}/log", logs),
]
