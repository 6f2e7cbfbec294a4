"""Heads of requests that a connection has said before: clients repeat themselves, to the byte.

What was read and checked once need not be read and checked again. That holds for a request that comes in one piece,
alone, when nothing of another one is pending, and whose head is the same but for the length of its body. Anything else
is for the parser.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conductor.coordinator.http.app import Request

#: So many heads are kept for a connection, none longer than this or with more lines; a longer body is for the parser.
MAX_HEADS = 3
MAX_HEAD_BYTES = 1024
MAX_HEADERS = 24
MAX_BODY_BYTES = 64 * 1024

_END = b"\r\n\r\n"
#: A length in the one spelling that is understood here, and not 0: whether there is a body changes what is checked.
_LENGTH = re.compile(rb"\r\nContent-Length: ([1-9]\d{0,8})(?=\r\n|\Z)", re.IGNORECASE)
#: What stands for the length. No head has it.
_ANY_LENGTH = b"\0"


class Heads:
    """Of one connection."""

    __slots__ = ("_known", "said")

    def __init__(self) -> None:
        self._known: dict[bytes, Request] = {}
        #: The head of what has just come, if it is a whole request, as far as can be seen without reading it.
        self.said: bytes | None = None

    def request(self, data: bytes) -> Request | None:
        """The request that has come, if its head is known."""
        head, end, body = data.partition(_END)
        length, wanted = _LENGTH.search(head), 0
        if length is not None:
            wanted = int(length[1])
            head = head[: length.start(1)] + _ANY_LENGTH + head[length.end(1) :]
        if not end or len(body) != wanted or len(head) > MAX_HEAD_BYTES or wanted > MAX_BODY_BYTES:
            self.said = None
            return None
        self.said = head
        known = self._known.get(head)
        return None if known is None else known.again(body)

    def keep(self, request: Request) -> None:
        """A request was read, and done: one with this head is known from now on.

        The parser has found its end where it was seen here: so its length is the one that was understood, or it has no
        body, in whatever words it says so.
        """
        if request.head is None or len(request.headers) > MAX_HEADERS:
            return
        if len(self._known) >= MAX_HEADS:
            self._known.clear()
        self._known[request.head] = request.again(b"")
