"""The stub's error answers, in the shape that Conductor gives them."""

from __future__ import annotations

from typing import Any

import msgspec

from conductor.protocol.wire import VERDICT_FIELD, VERDICT_HEADER, Verdict
from conductor.testing.http11 import StubAnswer


class StubError(Exception):
    """Ends the handling of a request with an error answer."""

    def __init__(self, status: int, message: str, *, verdict: Verdict | None = None, **fields: Any) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.verdict = verdict
        self.fields = fields

    def to_dict(self) -> dict[str, Any]:
        """Conductor's error body."""
        body: dict[str, Any] = {"status": self.status, "message": self.message, "retryable": False, **self.fields}
        if self.verdict is not None:
            body[VERDICT_FIELD] = str(self.verdict)
        return body

    def answer(self) -> StubAnswer:
        """The whole answer."""
        headers = {} if self.verdict is None else {VERDICT_HEADER: str(self.verdict)}
        return StubAnswer(self.status, msgspec.json.encode(self.to_dict()), headers=headers)


def blank_ids(**ids: str) -> StubError:
    """What Conductor says when a report names no task or no workflow."""
    errors = [
        {"path": f"updateTask.{name}", "message": f"{name} cannot be null or empty"} for name in ids if not ids[name]
    ]
    return StubError(400, "Validation failed, check below errors for detail.", validationErrors=errors)
