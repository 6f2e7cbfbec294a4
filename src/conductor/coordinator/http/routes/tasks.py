"""Poll, read and requeue tasks."""

from __future__ import annotations

from functools import partial

import msgspec

from conductor.coordinator.audit import Action
from conductor.coordinator.http.answer import DONE, NO_CONTENT, Answer, as_json, as_text, error_answer
from conductor.coordinator.http.memory_budget import UNCOUNTED_BYTES
from conductor.coordinator.http.permissions import check_readable_task, check_task_type, check_writable_task
from conductor.coordinator.http.request import ApiRequest
from conductor.coordinator.http.routing import Route
from conductor.coordinator.keys.roles import Access
from conductor.coordinator.limits import MAX_LOG_BYTES
from conductor.coordinator.request_errors import ApiError, bad_request, not_found
from conductor.coordinator.store.lookup import get_task
from conductor.coordinator.store.statements import ADD_LOG, NEWEST_LOGS, LogLine
from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.task_authority import Poll
from conductor.coordinator.tasks import task_steps
from conductor.coordinator.views import queue_sizes, task_views
from conductor.protocol.json_types import JsonObject
from conductor.protocol.wire import CLIENT_QUERY, SLOTS_QUERY

#: The description of a worker's SDK is cut to this length.
MAX_CLIENT_CHARS = 200
#: The answer to a poll whose tasks do not fit into the free memory for answers.
OUT_OF_MEMORY = error_answer(
    ApiError(503, "the coordinator has too many large answers in memory; try again in a moment", retryable=True)
)


async def poll_one(request: ApiRequest) -> Answer:
    """GET /tasks/poll/{type}: return one task, or 204 after at most 100 ms."""
    tasks = await _poll(request, _read_poll(request, 1, 100))
    if not tasks:
        return Answer(204, headers=request.core.poll_headers)
    return deliver_or_requeue(request, tasks, as_json(tasks[0], *request.core.poll_headers))


async def poll_batch(request: ApiRequest) -> Answer:
    """GET /tasks/poll/batch/{type}: return tasks as soon as there is one, or [] after the timeout.

    A request with count=0 makes the coordinator answer the parked polls of the same worker at once, with [].
    """
    poll = _read_poll(request, request.query_int("count", 1), request.query_int("timeout", 100))
    tasks = await _poll(request, poll)
    return deliver_or_requeue(request, tasks, as_json(tasks, *request.core.poll_headers))


async def _poll(request: ApiRequest, poll: Poll) -> list[JsonObject]:
    tasks = await request.tasks.poll(poll, request.on_disconnect)
    feed = request.core.change_feed
    if tasks and feed.is_active:
        find_pk = request.core.store.ids.workflow_pk
        feed.note_tasks(find_pk(task["workflowInstanceId"]) for task in tasks)
    return tasks


def deliver_or_requeue(
    request: ApiRequest, tasks: list[JsonObject], answer: Answer, instead: Answer = OUT_OF_MEMORY
) -> Answer:
    """Return an answer that delivers tasks. If there is no memory for it, requeue them and send `instead`."""
    if len(answer.body) <= UNCOUNTED_BYTES:
        return answer
    authority, task_ids = request.tasks, [task["taskId"] for task in tasks]

    async def requeue() -> Answer:
        await authority.undo_grants(task_ids)
        return instead

    return answer._replace(fallback=requeue)


def _read_poll(request: ApiRequest, count: int, timeout_ms: int) -> Poll:
    domain, task_type = request.query("domain") or "", request.params["type"]
    check_task_type(request, task_type)
    # Other SDKs do not send a description, so their user agent is stored.
    client = request.query(CLIENT_QUERY) or request.header(b"user-agent")
    slots = request.query_int(SLOTS_QUERY, 0)
    return Poll(task_type, domain, request.query("workerid"), count, timeout_ms, slots, client[:MAX_CLIENT_CHARS])


async def get_task_by_id(request: ApiRequest) -> Answer:
    """GET /tasks/{taskId}: return a task."""
    task_id, snapshots = request.params["taskId"], request.reader.snapshots

    def read(tx: Tx) -> JsonObject:
        check_readable_task(request, tx, task_id)
        return task_views.read_task(tx, snapshots, task_id)

    return as_json(await request.reader.read(read))


async def add_log(request: ApiRequest) -> Answer:
    """POST /tasks/{taskId}/log: add a log line; the body is the line, as text or as a JSON string."""
    if not request.body:
        raise bad_request("Required request body is missing")
    line, task_id = _read_log_line(request.body), request.params["taskId"]

    def add(tx: Tx) -> None:
        if get_task(tx, tx.ids.task_pk(task_id)) is None:
            raise not_found(f"Task not found for taskId: {task_id}")
        check_writable_task(request, tx, task_id)
        tx.run(ADD_LOG, task_id, tx.now_ms, line)

    await request.write(add)
    return DONE


def _read_log_line(body: bytes) -> str:
    # JavaScript clients send a quoted JSON string, Java ones the bare text, both as application/json.
    if body.startswith(b'"') and body.endswith(b'"'):
        try:
            return msgspec.json.decode(body, type=str)
        except (msgspec.DecodeError, UnicodeDecodeError):
            pass
    return body.decode("utf-8", "replace")


async def get_logs(request: ApiRequest) -> Answer:
    """GET /tasks/{taskId}/log: return the log lines of a task, oldest first; of a long log, the newest lines."""
    task_id = request.params["taskId"]

    def read(tx: Tx) -> list[LogLine]:
        check_readable_task(request, tx, task_id)
        return read_newest_lines(tx, task_id)

    rows = await request.reader.read(read)
    if not rows:
        return NO_CONTENT
    return as_json([{"log": line, "taskId": task_id, "createdTime": at_ms} for line, at_ms in rows])


def read_newest_lines(tx: Tx, task_id: str) -> list[LogLine]:
    """Return the newest log lines of a task, up to about `MAX_LOG_BYTES`, oldest first."""
    found: list[LogLine] = []
    size = 0
    for line in tx.each(NEWEST_LOGS, task_id):
        size += len(line.line)
        if size > MAX_LOG_BYTES and found:
            break
        found.append(line)
    return found[::-1]


async def get_steps(request: ApiRequest) -> Answer:
    """GET /tasks/{taskId}/steps?after=: return the durable steps of a task and of its earlier attempts, page by page.

    `next` of the answer is the value of `after` for the next page; null after the last page.
    """
    task_id, after = request.params["taskId"], request.query_int("after", 0)

    def read(tx: Tx) -> JsonObject:
        check_readable_task(request, tx, task_id)
        return task_steps.read_page(tx, task_id, after)

    return as_json(await request.reader.read(read))


async def get_queue_size(request: ApiRequest) -> Answer:
    """GET /tasks/queue/size?taskType=&domain=: return the number of tasks in a queue."""
    task_type, domain = request.required_query("taskType"), request.query("domain") or ""
    return as_json(await request.reader.read(lambda tx: queue_sizes.count_tasks(tx, task_type, domain)))


async def get_queue_sizes(request: ApiRequest) -> Answer:
    """GET /tasks/queue/sizes?taskType=a&taskType=b: return the number of tasks in each queue."""
    names = request.query_list("taskType")
    if not names:
        raise bad_request("query parameter 'taskType' is required")
    return as_json(
        await request.reader.read(lambda tx: {name: queue_sizes.count_tasks(tx, name, "") for name in names})
    )


async def get_all_queue_sizes(request: ApiRequest) -> Answer:
    """GET /tasks/queue/all: return the number of tasks in every queue."""
    return as_json(await request.reader.read(queue_sizes.count_all_tasks))


async def get_all_queues_verbose(request: ApiRequest) -> Answer:
    """GET /tasks/queue/all/verbose: return the number of tasks in every queue, in Conductor's form with shards."""
    sizes = await request.reader.read(queue_sizes.count_all_tasks)
    return as_json({name: {"a": {"size": size, "uacked": 0}} for name, size in sizes.items()})


async def get_poll_data(request: ApiRequest) -> Answer:
    """GET /tasks/queue/polldata?taskType=: return the last poll for a task type in each domain."""
    return as_json(request.tasks.poll_data.list_wire(request.required_query("taskType")))


async def get_all_poll_data(request: ApiRequest) -> Answer:
    """GET /tasks/queue/polldata/all: return the last polls for all task types."""
    return as_json(request.tasks.poll_data.list_wire())


async def requeue(request: ApiRequest) -> Answer:
    """POST /tasks/queue/requeue/{type}: requeue all open tasks of a type; their leases end."""
    task_type = request.params["type"]
    authority = request.tasks

    def requeue_first(tx: Tx) -> list[int]:
        request.audit(tx, Action.REQUEUE_TASKS, task_type)
        return authority.requeue_batch(tx, task_type, 0)

    keys = await request.write(requeue_first)
    count = len(keys)
    while keys:
        keys = await request.write(partial(authority.requeue_batch, task_type=task_type, after=keys[-1]))
        count += len(keys)
    return as_text(str(count))


_WORKER = {"workerid": "string", "domain": "string", SLOTS_QUERY: "integer", CLIENT_QUERY: "string"}
_BATCH = {**_WORKER, "count": "integer", "timeout": "integer"}

ROUTES = [
    Route("GET", "/api/tasks/poll/{type}", poll_one, Access.POLL, has_side_effects=True, query=_WORKER),
    Route("GET", "/api/tasks/poll/batch/{type}", poll_batch, Access.POLL, has_side_effects=True, query=_BATCH),
    Route("POST", "/api/tasks/poll/batch/{type}", poll_batch, Access.POLL, query=_BATCH),
    Route(
        "GET", "/api/tasks/queue/size", get_queue_size, Access.READ, query={"taskType": "string", "domain": "string"}
    ),
    Route("GET", "/api/tasks/queue/sizes", get_queue_sizes, Access.READ, query={"taskType": "string"}),
    Route("GET", "/api/tasks/queue/all", get_all_queue_sizes, Access.READ),
    Route("GET", "/api/tasks/queue/all/verbose", get_all_queues_verbose, Access.READ),
    Route("GET", "/api/tasks/queue/polldata", get_poll_data, Access.READ, query={"taskType": "string"}),
    Route("GET", "/api/tasks/queue/polldata/all", get_all_poll_data, Access.READ),
    Route("POST", "/api/tasks/queue/requeue/{type}", requeue, Access.OPERATE),
    Route("GET", "/api/tasks/{taskId}", get_task_by_id, Access.READ_TASK),
    Route("POST", "/api/tasks/{taskId}/log", add_log, Access.REPORT, body=str),
    Route("GET", "/api/tasks/{taskId}/log", get_logs, Access.READ_TASK),
    Route("GET", "/api/tasks/{taskId}/steps", get_steps, Access.READ_TASK, query={"after": "integer"}),
]
