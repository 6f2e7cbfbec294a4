"""One look at a server, for `top`: the numbers above everything, its queues, who has what in hand and until when."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from conductor.cli.queue_state import ask_queues
from conductor.client.configuration.configuration import Configuration
from conductor.client.http.async_api_client import AsyncApiClient
from conductor.client.http.async_rest import NotFoundException
from conductor.common.text import escape

#: So many leases are looked at.
LEASES = 100
#: What a plain Conductor server does not say.
NOT_TOLD = "a plain Conductor server: it tells neither rates nor what workers have in hand, and knows no leases"


class Frame(NamedTuple):
    """What is shown at one moment. Queues are as the coordinator's view has them."""

    now_ms: int
    overview: dict[str, Any]
    queues: list[dict[str, Any]]
    #: The leases that end soonest, `LEASES` at most. None: the server does not tell.
    leases: list[dict[str, Any]] | None = None
    #: What the server cannot tell; None: it tells all.
    not_told: str | None = None

    def workers(self) -> list[dict[str, Any]]:
        """Workers with something in hand, and the last one that polled each queue."""
        found: dict[tuple[str, str], dict[str, Any]] = {}
        for queue in self.queues:
            for holder in queue.get("holders", ()):
                worker = str(holder.get("workerId") or "?")
                found[worker, queue["name"]] = {
                    "worker": worker,
                    "queue": queue["name"],
                    "inHand": holder["inHand"],
                    "oldestStartedMs": holder["oldestStartedMs"],
                }
            last = queue.get("lastWorker")
            if last and (last, queue["name"]) not in found:
                found[last, queue["name"]] = {"worker": last, "queue": queue["name"], "inHand": 0}
        return sorted(found.values(), key=lambda one: (-one["inHand"], one["worker"], one["queue"]))

    def to_dict(self) -> dict[str, Any]:
        """For programs."""
        return {
            "nowMs": self.now_ms,
            "overview": self.overview,
            "queues": self.queues,
            "workers": self.workers(),
            "leases": self.leases,
            "notTold": self.not_told,
        }


async def look(api: AsyncApiClient, configuration: Configuration) -> Frame:
    """Ask the server. Raises ConductorError."""
    try:
        overview = await api.call_for(dict[str, Any], "GET", "/view/overview")
    except NotFoundException:
        return await _plain(configuration)
    seen = await api.call_for(dict[str, Any], "GET", "/view/queues")
    queues = [queue for queue in seen["queues"] if not queue.get("ofServer")]
    try:
        held = await api.call_for(dict[str, Any], "GET", f"/view/leases?size={LEASES}")
    except NotFoundException:  # a coordinator of an older version
        return Frame(overview["nowMs"], overview, queues, None, "an older coordinator: it does not tell who holds what")
    return Frame(overview["nowMs"], overview, queues, held["leases"])


async def _plain(configuration: Configuration) -> Frame:
    now_ms = int(time.time() * 1000)
    queues: list[dict[str, Any]] = [
        {
            "name": queue.task_type,
            "domain": queue.domain,
            "ready": queue.waiting,
            "oldestMs": None if queue.oldest_s is None else now_ms - int(queue.oldest_s * 1000),
            "lastPollMs": None if queue.polled_s is None else now_ms - int(queue.polled_s * 1000),
            "lastWorker": queue.worker_id,
            "problem": {"sentence": queue.trouble} if queue.unattended else None,
        }
        for queue in await ask_queues(configuration)
    ]
    overview = {"waiting": sum(queue["ready"] for queue in queues)}
    return Frame(now_ms, overview, queues, None, NOT_TOLD)


def queue_name(queue: dict[str, Any]) -> str:
    """A queue as Conductor writes it, fit for a terminal."""
    name = f"{queue['domain']}:{queue['name']}" if queue.get("domain") else str(queue["name"])
    return escape(name)
