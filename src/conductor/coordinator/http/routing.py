"""Routes and the table that finds the route of a path."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from conductor.coordinator.http.answer import Answer
from conductor.coordinator.http.request import ApiRequest
from conductor.coordinator.http.unsupported_routes import UNSUPPORTED
from conductor.coordinator.keys.roles import Access
from conductor.coordinator.request_errors import ApiError, bad_request, not_found

#: The maximum number of paths with a cached route, and the longest path that is cached.
MAX_CACHED_PATHS = 1024
MAX_CACHED_PATH_BYTES = 200

Handler = Callable[[ApiRequest], Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class Route:
    """A method, a path and its handler. `{name}` in the path matches one segment; literal segments match first."""

    method: str
    path: str
    handler: Handler
    #: The roles that may use the route. There is no default, so that every route names its roles.
    access: Access
    #: True for a GET that changes something, such as a poll. HEAD requests and pages of other sites may not use it.
    has_side_effects: bool = False
    #: True if the route starts workflows, which is refused while the disk is nearly full.
    starts_workflows: bool = False
    #: True if the body is plain text.
    text_body: bool = False
    #: Query parameters and their JSON types, for the OpenAPI document.
    query: Mapping[str, str] = field(default_factory=dict)
    #: Type of the JSON body, for the OpenAPI document.
    body: Any = None

    def changes_something(self, method: str) -> bool:
        """Return whether a request with this method may have an effect."""
        return self.has_side_effects or method not in ("GET", "HEAD")


class RouteTable:
    """Every route, as a tree of path segments."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._root = _Node()
        for path, name in UNSUPPORTED.items():
            self._root.descend(path).unsupported = f"this coordinator has no {name} ({path})"
        for route in routes:
            self._root.descend(route.path).routes[route.method] = route
        # Clients request the same few paths again and again, so found routes are cached.
        self._cache: dict[tuple[str, bytes], tuple[Route, dict[str, str]]] = {}

    def find(self, method: str, path: bytes) -> tuple[Route, dict[str, str]]:
        """Return the route of a path, and the values of its `{name}` segments.

        Raises:
            ApiError: 400 for an invalid path, 404 for an unknown path, or 405 if the path has no route for the method.
        """
        found = self._cache.get((method, path))
        if found is None:
            found = self._search(method, _split_path(path))
            if len(path) <= MAX_CACHED_PATH_BYTES:
                if len(self._cache) >= MAX_CACHED_PATHS:
                    self._cache.clear()
                self._cache[method, path] = found
        return found

    def _search(self, method: str, segments: list[str]) -> tuple[Route, dict[str, str]]:
        path_exists, unsupported = False, None
        open_nodes: list[tuple[_Node, int]] = [(self._root, 0)]
        while open_nodes:
            node, depth = open_nodes.pop()
            is_end = depth == len(segments)
            if node.unsupported is not None:
                unsupported = node.unsupported
                if is_end:
                    break
            if is_end:
                path_exists = path_exists or bool(node.routes)
                route = node.routes.get(method) or (node.route_for_head() if method == "HEAD" else None)
                if route is not None:
                    return route, _read_params(route, segments)
                continue
            # The literal is pushed last and so searched first: "poll" before "{taskId}".
            if node.named is not None and segments[depth]:
                open_nodes.append((node.named, depth + 1))
            if segments[depth] in node.literal:
                open_nodes.append((node.literal[segments[depth]], depth + 1))
        if unsupported is not None:
            raise not_found(unsupported)
        if path_exists:
            raise ApiError(405, f"Request method '{method}' is not supported")
        raise not_found(f"No static resource {'/'.join(segments).rstrip('/')}.")


class _Node:
    """A node of the tree: the routes whose path ends at the node, and the segments that can follow."""

    __slots__ = ("literal", "named", "routes", "unsupported")

    def __init__(self) -> None:
        self.literal: dict[str, _Node] = {}
        self.named: _Node | None = None
        #: Routes by method.
        self.routes: dict[str, Route] = {}
        #: The error message for paths of Conductor that this coordinator does not support.
        self.unsupported: str | None = None

    def descend(self, path: str) -> _Node:
        """Return the node of a path; create it if it does not exist."""
        node = self
        for segment in path.removeprefix("/").split("/"):
            if segment.startswith("{"):
                node.named = node.named or _Node()
                node = node.named
            else:
                node = node.literal.setdefault(segment, _Node())
        return node

    def route_for_head(self) -> Route | None:
        """Return the GET route that answers a HEAD request."""
        route = self.routes.get("GET")
        return None if route is None or route.has_side_effects else route


def _split_path(path: bytes) -> list[str]:
    try:
        text = path.decode("ascii").removeprefix("/")
        return [unquote(part, errors="strict") for part in text.split("/")] if "%" in text else text.split("/")
    except UnicodeDecodeError:
        raise bad_request("the path is not valid UTF-8") from None


def _read_params(route: Route, segments: list[str]) -> dict[str, str]:
    names = route.path.removeprefix("/").split("/")
    return {name[1:-1]: value for name, value in zip(names, segments, strict=True) if name.startswith("{")}
