"""Queues as one can see them from outside: how much waits, since when, and who polled last."""

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

#: Workers with a free hand poll every few seconds; a queue without a poll for this long has nobody.
UNATTENDED_AFTER_S = 60.0
#: A server's own queues: its workers are inside of it, and no poll is seen.
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
    "SET_VARIABLE",
    "START_WORKFLOW",
    "SUB_WORKFLOW",
    "SWITCH",
    "DECISION",
    "TERMINATE",
    "WAIT",
}


class Queue(NamedTuple):
    """One queue: a task type, in a domain or in none."""

    task_type: str
    domain: str
    waiting: int
    #: How long the oldest has been waiting; None: not known.
    oldest_s: float | None = None
    #: Since the last poll; None: none is known.
    polled_s: float | None = None
    worker_id: str | None = None

    @property
    def name(self) -> str:
        """As Conductor writes it."""
        return f"{self.domain}:{self.task_type}" if self.domain else self.task_type

    @property
    def unattended(self) -> bool:
        """Whether something waits here that nobody asks for."""
        return self.waiting > 0 and (self.polled_s is None or self.polled_s > UNATTENDED_AFTER_S)

    @property
    def trouble(self) -> str:
        """What is wrong with an unattended queue, and what to do."""
        polled = "nobody polls for it" if self.polled_s is None else f"the last poll was {span(self.polled_s)} ago"
        since = "" if self.oldest_s is None else f", the oldest for {span(self.oldest_s)}"
        what = "1 task waits" if self.waiting == 1 else f"{self.waiting} tasks wait"
        domain = f" in domain {self.domain}" if self.domain else ""
        return f"{what} in queue {self.name}{since}, and {polled}: run a worker for {self.task_type}{domain}"


async def ask_queues(configuration: Configuration) -> list[Queue]:
    """Every queue of the server at which something waits or somebody polls. Raises ConductorError."""
    async with AsyncTaskResourceApi(AsyncApiClient(configuration)) as tasks:
        api = tasks.api_client
        waiting = await api.call_for(dict[str, int], "GET", "/tasks/queue/all")
        polls = await api.call_for(list[dict[str, Any]], "GET", "/tasks/queue/polldata/all")
        found = _joined(waiting, polls, time.time() * 1000)
        return [queue._replace(oldest_s=await _oldest_s(api, queue)) if queue.waiting else queue for queue in found]


def _joined(waiting: dict[str, int], polls: list[dict[str, Any]], now_ms: float) -> list[Queue]:
    queues = {key: Queue(*key, size) for name, size in waiting.items() if (key := _key(name)) is not None}
    for poll in polls:
        key = (str(poll.get("queueName") or ""), str(poll.get("domain") or ""))
        if key[0] in ("", PROBE):
            continue
        polled_s = max(0.0, (now_ms - float(poll.get("lastPollTime") or 0)) / 1000)
        queues[key] = queues.get(key, Queue(*key, 0))._replace(polled_s=polled_s, worker_id=poll.get("workerId"))
    return sorted(queues.values())


def _key(name: str) -> tuple[str, str] | None:
    """The task type and the domain of a queue; None if it is one of the server's own."""
    domain, _, task_type = name.rpartition(":")
    return None if task_type.startswith("_") or task_type in OWN_QUEUES else (task_type, domain)


async def _oldest_s(api: AsyncApiClient, queue: Queue) -> float | None:
    """Since when the oldest waits, of a server that can be searched and says so."""
    wanted = quote(f"taskType='{queue.task_type}' AND status=SCHEDULED")
    path = f"/tasks/search?start=0&size=100&sort=scheduledTime:ASC&query={wanted}"
    try:
        found = await api.call_for(dict[str, Any], "GET", path)
        ours = [task for task in found.get("results", []) if (task.get("domain") or "") == queue.domain]
        began = datetime.fromisoformat(str(ours[0]["scheduledTime"])).timestamp()
    except (ConductorError, AttributeError, IndexError, KeyError, ValueError):
        return None
    return max(0.0, time.time() - began)


def span(seconds: float) -> str:
    """A length of time as people say it."""
    for length_s, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * length_s:
            return f"{seconds / length_s:.0f} {unit}"
    return f"{seconds:.0f} s"
