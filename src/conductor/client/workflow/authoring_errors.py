"""Errors about mistakes in a workflow that is being built."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class WorkflowError(ValueError):
    """A workflow has a mistake. The message names the place and a correction."""


class UnknownOutput(WorkflowError, AttributeError):
    """The output of a step or the input of the workflow has no such field."""


def suggest_name(name: str, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown name: the most similar name, or all names."""
    names = sorted(known)
    close = get_close_matches(name, names, n=1, cutoff=0.5)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"there are {', '.join(map(repr, names))}" if names else "there are none"
