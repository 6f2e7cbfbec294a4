"""Text from outside the process, made safe to print."""

from __future__ import annotations


def printable(text: str) -> str:
    """Return the text as valid UTF-8. A lone surrogate, as in odd file names, becomes an escape."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def shown(text: str) -> str:
    """Return the text for a log line or a message, so that no character can start a line or control a terminal."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
