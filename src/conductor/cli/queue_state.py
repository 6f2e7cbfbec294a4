"""Reads the queues of a server over the REST API: waiting tasks, their age, and the last poll."""

from __future__ import annotations

import time
from datetime import datetime
from typing import Any, NamedTuple
from urllib.parse import quote

from conductor.cli.server_kind import PROBE
from conductor.client.configuration.configuration import Configuration
from conductor.client.http.api.async_task_resource_api import AsyncTaskResourceApi
from conductor.client.http.async_api_client import AsyncApiClient
from conductor.client.http.async_rest import ConductorError
from conductor.protocol.why_waiting import format_duration

#: A queue with waiting tasks counts as unattended if its last poll is older than this. A worker with a free slot polls
#: every few seconds. A worker without a free slot does not poll, so a queue of busy workers also counts as unattended.
UNATTENDED_AFTER_S = 60.0
#: Task types that the server itself processes. No worker polls their queues.
OWN_QUEUES = {
    "DO_WHILE",
    "DYNAMIC",
    "EVENT",
    "EXCLUSIVE_JOIN",
    "FORK",
    "FORK_JOIN",
    "FORK_JOIN_DYNAMIC",
    "HTTP",
    "HUMAN",
    "INLINE",
    "JOIN",
    "JSON_JQ_TRANSFORM",
    "KAFKA_PUBLISH",
    "LAMBDA",
    "NOOP",
    "PULL_WORKFLOW_MESSAGES",
    "SET_VARIABLE",
    "START_WORKFLOW",
    "SUB_WORKFLOW",
    "SWITCH",
    "DECISION",
    "TERMINATE",
    "WAIT",
}


class QueueState(NamedTuple):
    """The tasks and the last poll of a queue. The domain may be empty."""

    task_type: str
    domain: str
    waiting: int
    #: Age of the oldest waiting task; None if unknown.
    oldest_s: float | None = None
    #: Time since the last poll; None if there is none.
    polled_s: float | None = None
    worker_id: str | None = None

    @property
    def name(self) -> str:
        """Return Conductor's name of the queue: the task type, after its domain if it has one."""
        return f"{self.domain}:{self.task_type}" if self.domain else self.task_type

    @property
    def unattended(self) -> bool:
        """Whether tasks wait and no worker polls."""
        return self.waiting > 0 and (self.polled_s is None or self.polled_s > UNATTENDED_AFTER_S)

    @property
    def problem(self) -> str:
        """Describe an unattended queue; the remedy follows after a colon."""
        polled = "no worker polls it"
        if self.polled_s is not None:
            polled = f"the last poll was {format_duration(self.polled_s * 1000)} ago"
        since = "" if self.oldest_s is None else f", the oldest for {format_duration(self.oldest_s * 1000)}"
        what = "1 task waits" if self.waiting == 1 else f"{self.waiting} tasks wait"
        domain = f" in domain {self.domain}" if self.domain else ""
        return f"{what} in queue {self.name}{since}, and {polled}: run a worker for {self.task_type}{domain}"


async def read_queues(configuration: Configuration) -> list[QueueState]:
    """Return every queue with waiting tasks or polls. Raise ConductorError if the server does not answer."""
    async with AsyncTaskResourceApi(AsyncApiClient(configuration)) as tasks:
        api = tasks.api_client
        waiting = await api.call_for(dict[str, int], "GET", "/tasks/queue/all")
        polls = await api.call_for(list[dict[str, Any]], "GET", "/tasks/queue/polldata/all")
        found = _merge(waiting, polls, time.time() * 1000)
        return [queue._replace(oldest_s=await _oldest_s(api, queue)) if queue.waiting else queue for queue in found]


def _merge(waiting: dict[str, int], polls: list[dict[str, Any]], now_ms: float) -> list[QueueState]:
    queues = {key: QueueState(*key, size) for name, size in waiting.items() if (key := _key(name)) is not None}
    for poll in polls:
        key = (str(poll.get("queueName") or ""), str(poll.get("domain") or ""))
        if key[0] in ("", PROBE):
            continue
        polled_s = max(0.0, (now_ms - float(poll.get("lastPollTime") or 0)) / 1000)
        queues[key] = queues.get(key, QueueState(*key, 0))._replace(polled_s=polled_s, worker_id=poll.get("workerId"))
    return sorted(queues.values())


def _key(name: str) -> tuple[str, str] | None:
    """Return the task type and the domain of a queue; None if the server itself processes its tasks."""
    domain, _, task_type = name.rpartition(":")
    return None if task_type.startswith("_") or task_type in OWN_QUEUES else (task_type, domain)


async def _oldest_s(api: AsyncApiClient, queue: QueueState) -> float | None:
    """Return the age of the oldest waiting task; None if the server's search does not find it."""
    wanted = quote(f"taskType='{queue.task_type}' AND status=SCHEDULED")
    path = f"/tasks/search?start=0&size=100&sort=scheduledTime:ASC&query={wanted}"
    try:
        found = await api.call_for(dict[str, Any], "GET", path)
        ours = [task for task in found.get("results", []) if (task.get("domain") or "") == queue.domain]
        began = datetime.fromisoformat(str(ours[0]["scheduledTime"])).timestamp()
    except (ConductorError, AttributeError, IndexError, KeyError, ValueError):
        return None
    return max(0.0, time.time() - began)
