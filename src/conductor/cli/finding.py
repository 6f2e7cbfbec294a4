"""What an examination finds: a line, the name of the fault, and what to do about it."""

from __future__ import annotations

from typing import Any, NamedTuple

from conductor.common.text import escape


class Finding(NamedTuple):
    """One line of the examination; a fault has a name and a remedy."""

    mark: str
    line: str
    fault: str | None = None
    remedy: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """For programs."""
        return {"mark": self.mark.lower(), "fault": self.fault, "what": self.line, "remedy": self.remedy}


def well(line: str) -> Finding:
    """As it should be."""
    return Finding("ok", escape(line))


def worth_a_look(fault: str, line: str, remedy: str) -> Finding:
    """Workers run, but not as somebody thought."""
    return Finding("warning", escape(line), fault, escape(remedy))


def broken(fault: str, line: str, remedy: str) -> Finding:
    """Workers cannot do their work."""
    return Finding("BROKEN", escape(line), fault, escape(remedy))
