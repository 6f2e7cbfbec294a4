"""The result of one check of `doctor`."""

from __future__ import annotations

from typing import Any, NamedTuple

from conductor.common.text import escape


class Finding(NamedTuple):
    """The result of one check. A fault has a name and a remedy."""

    mark: str
    line: str
    fault: str | None = None
    remedy: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return {"mark": self.mark.lower(), "fault": self.fault, "what": self.line, "remedy": self.remedy}


def ok(line: str) -> Finding:
    return Finding("ok", escape(line))


def warning(fault: str, line: str, remedy: str) -> Finding:
    """Return a fault with which workers can run, but perhaps not as intended."""
    return Finding("warning", escape(line), fault, escape(remedy))


def broken(fault: str, line: str, remedy: str) -> Finding:
    """Return a fault that stops workers from running."""
    return Finding("BROKEN", escape(line), fault, escape(remedy))
