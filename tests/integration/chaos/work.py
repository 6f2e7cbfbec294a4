"""The work of all workers under test: planned endings, and one effect that must not be repeated.

Standard library only, so that a worker of another make can do exactly the same.
"""

from __future__ import annotations

import uuid
from typing import Any

from execution_log import ExecutionLog


class Work:
    """The execution of a step of a job."""

    def __init__(self, execution_log: ExecutionLog, plan: dict[str, Any], **about: Any) -> None:
        self.token = uuid.uuid4().hex
        self._plan = plan
        self._execution_log = execution_log
        self._about = {"job": plan["job"], "step": plan["step"], "token": self.token, **about}
        execution_log.write("began", **self._about)

    @property
    def half_s(self) -> float:
        """Half of what the work takes."""
        return float(self._plan["seconds"]) / 2

    def ending(self, retry_count: int, poll_count: int) -> str:
        """Return the end of this attempt: `fail`, `refuse`, `later` or `succeed`."""
        if retry_count < self._plan["failures"]:
            return "fail"
        if self._plan["refused"]:
            return "refuse"
        return "later" if poll_count <= self._plan["rounds"] else "succeed"

    def effect(self) -> None:
        """The thing that the world sees."""
        self._execution_log.write("effect", **self._about)

    def ended(self) -> dict[str, Any]:
        """The result, about to be returned."""
        self._execution_log.write("ended", **self._about)
        return {"token": self.token, "job": self._plan["job"], "step": self._plan["step"]}
