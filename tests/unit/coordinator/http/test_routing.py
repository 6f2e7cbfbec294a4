"""The table that finds the route of a path."""

from __future__ import annotations

import pytest

from conductor.coordinator.http.answer import DONE, Answer
from conductor.coordinator.http.request import ApiRequest
from conductor.coordinator.http.routing import MAX_CACHED_PATHS, Route, RouteTable
from conductor.coordinator.keys.roles import Access
from conductor.coordinator.request_errors import ApiError


async def handle(_request: ApiRequest) -> Answer:
    return DONE


POLL = Route("GET", "/api/tasks/poll/{type}", handle, Access.READ, has_side_effects=True)
TASK = Route("GET", "/api/tasks/{taskId}", handle, Access.READ)
TASK_LOG = Route("POST", "/api/tasks/{taskId}/log", handle, Access.READ)
EVENT = Route("GET", "/api/event/{event}", handle, Access.READ)


@pytest.fixture
def table() -> RouteTable:
    return RouteTable([POLL, TASK, TASK_LOG, EVENT])


def test_a_literal_segment_wins_over_a_name(table: RouteTable) -> None:
    assert table.find("GET", b"/api/tasks/poll/charge") == (POLL, {"type": "charge"})
    assert table.find("POST", b"/api/tasks/poll/log") == (TASK_LOG, {"taskId": "poll"})


def test_names_are_decoded(table: RouteTable) -> None:
    assert table.find("GET", b"/api/tasks/a%2Fb%20c")[1] == {"taskId": "a/b c"}


def test_head_uses_a_get_route_without_side_effects(table: RouteTable) -> None:
    assert table.find("HEAD", b"/api/tasks/1")[0] == TASK
    with pytest.raises(ApiError) as error:
        table.find("HEAD", b"/api/tasks/poll/charge")
    assert error.value.status == 405


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("DELETE", b"/api/tasks/1", 405),
        ("GET", b"/api/tasks", 404),
        ("GET", b"/api/tasks/", 404),
        ("GET", b"/nothing", 404),
        ("GET", b"/api/tasks/%ff", 400),
        ("GET", b"/api/tasks/\xff", 400),
    ],
)
def test_a_path_without_a_route_is_an_error(table: RouteTable, method: str, path: bytes, status: int) -> None:
    with pytest.raises(ApiError) as error:
        table.find(method, path)
    assert error.value.status == status


@pytest.mark.parametrize("path", [b"/api/event/queue", b"/api/users/ada", b"/api/webhook/1"])
def test_an_unsupported_path_is_a_404_that_names_the_feature(table: RouteTable, path: bytes) -> None:
    with pytest.raises(ApiError, match="this coordinator has no ") as error:
        table.find("GET", path)
    assert error.value.status == 404


def test_the_cache_of_paths_is_limited(table: RouteTable) -> None:
    for number in range(2 * MAX_CACHED_PATHS):
        assert table.find("GET", b"/api/tasks/%d" % number)[1] == {"taskId": str(number)}
    assert len(table._cache) <= MAX_CACHED_PATHS
