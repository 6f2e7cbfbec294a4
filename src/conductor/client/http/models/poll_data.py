"""Who polled a queue last."""

from __future__ import annotations

from conductor.client.http.models.model import Model, OrDefault, sent


class PollData(Model, kw_only=True):
    """Who polled a queue last, and when (epoch milliseconds)."""

    queue_name: OrDefault[str] = sent(str)
    domain: str | None = None
    worker_id: str | None = None
    last_poll_time: OrDefault[int] = sent(int)
