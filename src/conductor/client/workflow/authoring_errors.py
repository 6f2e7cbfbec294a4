"""A mistake in a workflow that is being built."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class WorkflowError(ValueError):
    """The workflow that is being built has a mistake; the message says where, and what would be right."""


class UnknownOutput(WorkflowError, AttributeError):
    """A step, or the workflow's input, has no such field."""


def suggest_name(name: str, known: Iterable[str]) -> str:
    """What may have been meant, as the end of a message: the nearest name, or all of them."""
    names = sorted(known)
    close = get_close_matches(name, names, n=1, cutoff=0.5)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"there are {', '.join(map(repr, names))}" if names else "there are none"
