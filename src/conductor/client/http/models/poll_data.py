from conductor.client.http.models.model import Model, OrDefault, sent_default


class PollData(Model, kw_only=True):
    """The last poll of a queue. `last_poll_time` is in epoch milliseconds."""

    queue_name: OrDefault[str] = sent_default(str)
    domain: str | None = None
    worker_id: str | None = None
    last_poll_time: OrDefault[int] = sent_default(int)
