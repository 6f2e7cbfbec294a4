"""Text from outside the process that is made safe to print."""

from __future__ import annotations


def escape_surrogates(text: str) -> str:
    """Return text that UTF-8 can encode: lone surrogates, as in odd file names, become escapes."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def escape(text: str) -> str:
    """Return printable text for a log line or a message.

    Other characters become escapes, so that none of them can start a new line or control the terminal.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
