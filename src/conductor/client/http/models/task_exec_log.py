"""One line of a task's log."""

from __future__ import annotations

import time

from conductor.client.http.models.model import Model, OrDefault, sent


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class TaskExecLog(Model):
    """One line of a task's log, stamped with the time it was made (epoch milliseconds)."""

    log: OrDefault[str] = sent(str)
    task_id: str | None = None
    created_time: OrDefault[int] = sent(_now_ms)
    #: Another name for `log` that some senders use; read into `log`, never sent.
    message: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.message is not None:
            self.log = self.log or self.message
            self.message = None
