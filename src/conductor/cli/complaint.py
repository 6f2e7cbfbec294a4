"""What goes wrong because of what the user gave: said in one line, without a traceback."""

from __future__ import annotations


class Complaint(Exception):
    """One line for people: what happened, which value, what to do. The command ends with status 2."""


def one_line(text: object) -> str:
    """The same on one line, however many the library behind it wrote."""
    return " ".join(str(text).split())
