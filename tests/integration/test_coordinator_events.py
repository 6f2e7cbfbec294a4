"""`/api/event` over HTTP, as Conductor 3.32.3 answered but for the statuses: there a 500, here 409 or 404."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from conductor.coordinator import Coordinator

HANDLER: dict[str, Any] = {
    "name": "h1",
    "event": "conductor:pub:evt",
    "condition": "$.go == 'yes'",
    "actions": [
        {
            "action": "start_workflow",
            "start_workflow": {"name": "wf", "version": 1, "correlationId": "${cid}", "input": {"x": "${a.b}"}},
        }
    ],
    "active": True,
}
#: GET /event, as Conductor 3.32.3 answered it.
SHOWN = {**HANDLER, "actions": [{**HANDLER["actions"][0], "expandInlineJSON": False}]}


@pytest.fixture
def api() -> Iterator[httpx.Client]:
    with Coordinator() as coordinator, httpx.Client(base_url=coordinator.url, timeout=30) as api:
        yield api


def test_handlers_are_added_replaced_listed_and_removed(api: httpx.Client) -> None:
    assert api.get("/event").json() == []
    assert api.post("/event", json=HANDLER).status_code == 200
    again = api.post("/event", json=HANDLER)
    assert (again.status_code, again.json()["message"]) == (409, "EventHandler with name h1 already exists!")
    assert api.get("/event").json() == [SHOWN]
    assert api.get("/event/conductor:pub:evt").json() == [SHOWN]
    assert api.get("/event/none").json() == []
    assert api.put("/event", json={**HANDLER, "active": False}).status_code == 200
    assert api.get("/event/conductor:pub:evt").json() == []
    assert api.get("/event/conductor:pub:evt?activeOnly=false").json() == [{**SHOWN, "active": False}]
    unknown = api.put("/event", json={**HANDLER, "name": "nope"})
    assert (unknown.status_code, unknown.json()["message"]) == (404, "EventHandler with name nope not found!")
    assert api.delete("/event/h1").status_code == 200
    assert api.delete("/event/h1").status_code == 404


def test_a_missing_field_is_named_as_conductor_names_it(api: httpx.Client) -> None:
    answer = api.post("/event", json={"name": "b"})
    assert answer.status_code == 400
    assert sorted(problem["message"] for problem in answer.json()["validationErrors"]) == [
        "Missing event location",
        "No actions specified. Please specify at-least one action",
    ]
    bad = api.post("/event", json={**HANDLER, "actions": [{"action": "dance"}]})
    assert bad.status_code == 400
    assert "action 'dance'" in bad.json()["message"]
