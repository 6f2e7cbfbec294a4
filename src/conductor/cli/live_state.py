"""Reads the state of a server for `top`: the overview, the queues and the open leases."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from conductor.cli.queue_state import read_queues
from conductor.client.configuration.configuration import Configuration
from conductor.client.http.async_api_client import AsyncApiClient
from conductor.client.http.async_rest import NotFoundException
from conductor.common.text import escape

#: `top` shows at most this many leases.
MAX_LEASES = 100
LIMITATION = "a Conductor server: it reports neither rates nor running tasks, and has no leases"


class Frame(NamedTuple):
    """The state that `top` shows at one moment. Queues have the format of a coordinator's `/view/queues`."""

    now_ms: int
    overview: dict[str, Any]
    queues: list[dict[str, Any]]
    #: The leases that expire first, at most `MAX_LEASES`; None if the server does not report them.
    leases: list[dict[str, Any]] | None = None
    #: A note about facts that the server does not report.
    limitation: str | None = None

    def workers(self) -> list[dict[str, Any]]:
        """Return the workers that hold tasks, and the last worker that polled each queue."""
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
        return {
            "nowMs": self.now_ms,
            "overview": self.overview,
            "queues": self.queues,
            "workers": self.workers(),
            "leases": self.leases,
            "notTold": self.limitation,
        }


async def read_frame(api: AsyncApiClient, configuration: Configuration) -> Frame:
    """Read and return the state of the server. Raise ConductorError if it does not answer."""
    try:
        overview = await api.call_for(dict[str, Any], "GET", "/view/overview")
    except NotFoundException:
        return await _read_conductor_server(configuration)
    seen = await api.call_for(dict[str, Any], "GET", "/view/queues")
    queues = [queue for queue in seen["queues"] if not queue.get("ofServer")]
    try:
        held = await api.call_for(dict[str, Any], "GET", f"/view/leases?size={MAX_LEASES}")
    except NotFoundException:  # an older coordinator does not have this route
        return Frame(overview["nowMs"], overview, queues, None, "an older coordinator: it does not report leases")
    return Frame(overview["nowMs"], overview, queues, held["leases"])


async def _read_conductor_server(configuration: Configuration) -> Frame:
    now_ms = int(time.time() * 1000)
    queues: list[dict[str, Any]] = [
        {
            "name": queue.task_type,
            "domain": queue.domain,
            "ready": queue.waiting,
            "oldestMs": None if queue.oldest_s is None else now_ms - int(queue.oldest_s * 1000),
            "lastPollMs": None if queue.polled_s is None else now_ms - int(queue.polled_s * 1000),
            "lastWorker": queue.worker_id,
            "problem": {"sentence": queue.problem} if queue.unattended else None,
        }
        for queue in await read_queues(configuration)
    ]
    overview = {"waiting": sum(queue["ready"] for queue in queues)}
    return Frame(now_ms, overview, queues, None, LIMITATION)


def queue_name(queue: dict[str, Any]) -> str:
    """Return Conductor's name of a queue, escaped for a terminal."""
    name = f"{queue['domain']}:{queue['name']}" if queue.get("domain") else str(queue["name"])
    return escape(name)
