import time

from conductor.client.http.models.model import Model, OrDefault, sent_default


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class TaskExecLog(Model):
    """A line of the log of a task. `created_time` is in epoch milliseconds."""

    log: OrDefault[str] = sent_default(str)
    task_id: str | None = None
    created_time: OrDefault[int] = sent_default(_now_ms)
    #: Another name for `log` that some clients use. It is moved to `log` and never sent.
    message: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.message is not None:
            self.log = self.log or self.message
            self.message = None
