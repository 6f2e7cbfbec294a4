"""Plays a script on a server and records the answers, for a comparison of two servers."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

#: Headers that a client acts on.
HEADERS = ("content-type", "allow", "retry-after")
#: Milliseconds since 1970, of any year that matters.
_TIMES = range(1_500_000_000_000, 3_000_000_000_000)
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
#: Measured on the way: never the same twice.
_MEASURED = ("queueWaitTime",)

Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Ask:
    """A request. `<name>` in path and body stands for a value kept from an earlier answer.

    `keep` names values of the answer by their path; the empty path is the whole body.
    """

    title: str
    method: str
    path: str
    json: Any = None
    text: str | None = None
    content_type: str | None = None
    keep: Mapping[str, Path] = field(default_factory=dict)
    #: Not asked of a server without an index.
    indexed: bool = False


@dataclass
class Answer:
    """An answer as flat fields and values. Values that cannot be equal are replaced by their names."""

    title: str
    fields: dict[str, Any]


class Player:
    """A server and the values kept while the script is played on it."""

    def __init__(self, url: str, values: Mapping[str, str]) -> None:
        self._http = httpx.Client(base_url=url, timeout=60, headers={"content-type": "application/json"})
        self._values = dict(values)

    def play(self, script: Sequence[Ask]) -> list[Answer]:
        """All answers, in order."""
        with self._http:
            return [self._ask(ask) for ask in script]

    def _ask(self, ask: Ask) -> Answer:
        content = ask.text if ask.json is None else json.dumps(ask.json)
        headers = {"content-type": ask.content_type} if ask.content_type else {}
        response = self._http.request(
            ask.method, self._fill(ask.path), content=None if content is None else self._fill(content), headers=headers
        )
        body = _body(response)
        for name, path in ask.keep.items():
            self._values[name] = str(_dig(body, path, ask.title))
        return Answer(ask.title, self._fields(response, body))

    def _fill(self, text: str) -> str:
        for name, value in self._values.items():
            text = text.replace(f"<{name}>", value)
        return text

    def _fields(self, response: httpx.Response, body: Any) -> dict[str, Any]:
        fields: dict[str, Any] = {"status": response.status_code}
        for name in response.headers:
            if name in HEADERS or name.startswith("conductor-"):
                fields[f"header {name}"] = self._plain(response.headers[name].lower().replace("; ", ";"))
        for path, value in _flat(body):
            fields["body" + self._plain(path)] = "<measured>" if path.endswith(_MEASURED) else self._plain(value)
        return fields

    def _plain(self, value: Any) -> Any:
        """Without what no two servers share: ids, times, names of this run, the host."""
        if isinstance(value, int) and not isinstance(value, bool) and value in _TIMES:
            return "<time>"
        if not isinstance(value, str):
            return value
        for name, known in self._values.items():
            value = value.replace(known, f"<{name}>")
        value = _UUID.sub("<id>", value)
        return "<host>" if value == socket.gethostname() else value


def _body(response: httpx.Response) -> Any:
    if not response.content:
        return None
    if response.headers.get("content-type", "").startswith("application/json"):
        return _in_order(response.json())
    return response.text


def _in_order(body: Any) -> Any:
    """A real server names what is wrong in any order."""
    if isinstance(body, dict) and "validationErrors" in body:
        body["validationErrors"].sort(key=lambda problem: problem["message"])
    return body


def _dig(body: Any, path: Path, title: str) -> Any:
    for step in path:
        try:
            body = body[step]
        except (KeyError, IndexError, TypeError):
            raise AssertionError(f"{title!r}: the answer has no {path}: {str(body)[:500]}") from None
    return body


def _flat(value: Any, path: str = "") -> list[tuple[str, Any]]:
    """(path, scalar) for every leaf; empty containers are leaves, too, and so is one that calls itself empty."""
    if isinstance(value, dict) and value.get("empty") is True:
        value = {}
    if isinstance(value, dict) and value:
        return [leaf for key, item in value.items() for leaf in _flat(item, f"{path}.{key}")]
    if isinstance(value, list) and value:
        return [leaf for index, item in enumerate(value) for leaf in _flat(item, f"{path}[{index}]")]
    return [(path, value)]
