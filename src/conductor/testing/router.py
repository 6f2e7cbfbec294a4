"""Maps a request to the handler that answers it, and builds answers and errors in Conductor's format."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeAlias

import msgspec

from conductor.protocol.wire import VERDICT_FIELD, VERDICT_HEADER, Verdict
from conductor.testing.http11 import StubAnswer
from conductor.testing.request import JsonObject, Request

#: Called with the request and the value of each `*` in the path.
Handler: TypeAlias = Callable[..., Awaitable[StubAnswer] | StubAnswer]


class StubError(Exception):
    """Ends the handling of a request with an error answer."""

    def __init__(self, status: int, message: str, *, verdict: Verdict | None = None, **fields: Any) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.verdict = verdict
        self.fields = fields

    def to_dict(self) -> JsonObject:
        """Return Conductor's error body."""
        body: JsonObject = {"status": self.status, "message": self.message, "retryable": False, **self.fields}
        if self.verdict is not None:
            body[VERDICT_FIELD] = str(self.verdict)
        return body

    def answer(self) -> StubAnswer:
        headers = {} if self.verdict is None else {VERDICT_HEADER: str(self.verdict)}
        return StubAnswer(self.status, msgspec.json.encode(self.to_dict()), headers=headers)


class StubRoute(NamedTuple):
    """An endpoint. `*` in the path stands for one segment."""

    methods: str
    path: str
    handler: Handler


class Router:
    """All endpoints of the stub; the first match answers."""

    def __init__(self, *groups: list[StubRoute]) -> None:
        self._routes = [
            (route.methods.split(), re.compile(route.path.replace("*", "([^/]+)")), route.handler)
            for group in groups
            for route in group
        ]

    async def answer(self, request: Request) -> StubAnswer:
        """Return the answer of the handler. An unknown path gets Conductor's 404, a wrong method its 405."""
        is_known_path = False
        for methods, pattern, handler in self._routes:
            match = pattern.fullmatch(request.path)
            if match and request.method in methods:
                answer = handler(request, *match.groups())
                return answer if isinstance(answer, StubAnswer) else await answer
            is_known_path = is_known_path or match is not None
        if is_known_path:
            raise StubError(405, f"Request method '{request.method}' is not supported")
        raise StubError(404, f"No static resource {request.path.lstrip('/')}.")


def json_answer(value: Any) -> StubAnswer:
    return StubAnswer(body=msgspec.json.encode(value))


def text_answer(text: str, headers: dict[str, str] | None = None) -> StubAnswer:
    """Return plain text, the format in which Conductor answers with ids."""
    return StubAnswer(body=text.encode(), content_type="text/plain;charset=UTF-8", headers=headers or {})


def body_object(request: Request) -> JsonObject:
    """Return the body; raise StubError unless it is a JSON object."""
    if not isinstance(request.json, dict):
        raise StubError(500, "Cannot deserialize the body: a JSON object is required")
    return request.json


def body_array(request: Request) -> list[JsonObject]:
    """Return the body; raise StubError unless it is a JSON array of objects."""
    if not isinstance(request.json, list) or not all(isinstance(item, dict) for item in request.json):
        raise StubError(500, "Cannot deserialize the body: a JSON array of objects is required")
    return request.json
