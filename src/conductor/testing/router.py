"""From a request to the function that answers it."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeAlias

import msgspec

from conductor.testing.http11 import StubAnswer
from conductor.testing.request import Request
from conductor.testing.stub_errors import StubError

#: Gets the request and what stands in place of each `*` of the path.
Handler: TypeAlias = Callable[..., Awaitable[StubAnswer] | StubAnswer]


class StubRoute(NamedTuple):
    """One endpoint. `*` in the path stands for one segment."""

    methods: str
    path: str
    handler: Handler


class Router:
    """All endpoints of the stub; the first that fits is taken."""

    def __init__(self, *groups: list[StubRoute]) -> None:
        self._routes = [
            (route.methods.split(), re.compile(route.path.replace("*", "([^/]+)")), route.handler)
            for group in groups
            for route in group
        ]

    async def answer(self, request: Request) -> StubAnswer:
        """Call the handler; unknown paths and wrong methods are Conductor's 404 and 405."""
        known_path = False
        for methods, pattern, handler in self._routes:
            match = pattern.fullmatch(request.path)
            if match and request.method in methods:
                answer = handler(request, *match.groups())
                return answer if isinstance(answer, StubAnswer) else await answer
            known_path = known_path or match is not None
        if known_path:
            raise StubError(405, f"Request method '{request.method}' is not supported")
        raise StubError(404, f"No static resource {request.path.lstrip('/')}.")


def json_answer(value: Any, **headers: str) -> StubAnswer:
    """The value as JSON."""
    return StubAnswer(body=msgspec.json.encode(value), headers=headers)


def text_answer(text: str, headers: dict[str, str] | None = None) -> StubAnswer:
    """Plain text, as Conductor answers ids."""
    return StubAnswer(body=text.encode(), content_type="text/plain;charset=UTF-8", headers=headers or {})


def body_object(request: Request) -> dict[str, Any]:
    """The body, which must be a JSON object."""
    if not isinstance(request.json, dict):
        raise StubError(500, "Cannot deserialize the body: a JSON object is required")
    return request.json


def body_array(request: Request) -> list[dict[str, Any]]:
    """The body, which must be a JSON array of objects."""
    if not isinstance(request.json, list) or not all(isinstance(item, dict) for item in request.json):
        raise StubError(500, "Cannot deserialize the body: a JSON array of objects is required")
    return request.json
