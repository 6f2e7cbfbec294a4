"""docs/reference/workflows.md: each of its examples does what the page says."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from conductor.coordinator import Coordinator
from tests.integration.far_server import FarServer

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "workflows.md").read_text()
EXAMPLES: dict[str, dict[str, Any]] = {
    found["taskReferenceName"]: found
    for found in (json.loads(block) for block in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL))
    if "taskReferenceName" in found
}
GIVEN = {"order": 7, "note": "soon", "prices": [1, 2, 3], "people": [{"name": "Ada"}, {"name": "Bo"}]}


@pytest.fixture
def api() -> Iterator[httpx.Client]:
    with Coordinator() as found, httpx.Client(base_url=found.url) as client:
        report = {"name": "report", "tasks": [EXAMPLES["nothing"]]}
        assert client.post("/metadata/workflow", json=report).status_code == 200
        yield client


def registered(api: httpx.Client, ref: str, change: dict[str, str] | None = None) -> None:
    text = json.dumps({"name": f"flow_{ref}", "tasks": [EXAMPLES[ref]]})
    for old, new in (change or {}).items():
        assert old in text
        text = text.replace(old, new)
    answer = api.post("/metadata/workflow", content=text, headers={"Content-Type": "application/json"})
    assert answer.status_code == 200, answer.text


def output(api: httpx.Client, ref: str) -> Any:
    answer = api.post(
        f"/workflow/execute/flow_{ref}/1", params={"waitForSeconds": 60}, json={"name": "x", "input": GIVEN}
    ).json()
    assert answer["status"] == "COMPLETED", answer
    return answer["output"]


@pytest.mark.parametrize(
    ("ref", "expected"),
    [
        ("sum_up", {"result": {"total": 6}}),
        ("is_large", {"result": {"large": True}}),
        ("names", {"result": ["Ada", "Bo"], "resultList": [["Ada", "Bo"]]}),
        ("nothing", {}),
    ],
)
def test_the_computed_examples_have_the_output_that_the_page_shows(api: httpx.Client, ref: str, expected: Any) -> None:
    registered(api, ref)
    assert output(api, ref) == expected


def test_the_http_example_calls_its_server(api: httpx.Client) -> None:
    with FarServer() as far:
        registered(api, "fetch_order", {"http://127.0.0.1:8081": far.url})
        response = output(api, "fetch_order")["response"]
    assert response["statusCode"] == 200
    assert response["body"]["path"] == "/orders/7"
    assert (response["body"]["headers"]["X-Shop"], response["body"]["body"]) == ("north", '{"note":"soon"}')


def test_the_event_example_publishes(api: httpx.Client) -> None:
    registered(api, "announce")
    found = output(api, "announce")
    assert (found["order"], found["event_produced"]) == (7, "conductor:flow_announce:paid")


def test_the_start_workflow_example_starts_its_workflow(api: httpx.Client) -> None:
    registered(api, "start_report")
    started = api.get(f"/workflow/{output(api, 'start_report')['workflowId']}").json()
    assert (started["workflowName"], started["input"]) == ("report", {"order": 7})


def test_the_human_example_is_completed_from_outside(api: httpx.Client) -> None:
    registered(api, "approve")
    workflow = api.post("/workflow/flow_approve", json=GIVEN).text
    assert api.post(f"/tasks/{workflow}/approve/COMPLETED", json={"by": "Ada"}).status_code == 200
    found = api.get(f"/workflow/{workflow}").json()
    assert (found["status"], found["output"]) == ("COMPLETED", {"by": "Ada"})


def test_a_type_of_your_own(api: httpx.Client) -> None:
    registered(api, "grind")
    api.post("/workflow/flow_grind", json={})
    assert api.get("/tasks/poll/COFFEE_MACHINE").json()["taskDefName"] == "grind"


def test_messages_are_taken(api: httpx.Client) -> None:
    body = {"name": "pull", "workflowDef": {"name": "pull", "version": 1, "tasks": [EXAMPLES["next_orders"]]}}
    workflow_id = api.post("/workflow", json=body).text
    api.post(f"/workflow/{workflow_id}/messages", json={"order": 7}).raise_for_status()
    found = api.get(f"/workflow/{workflow_id}").json()
    assert (found["status"], found["output"]["messages"][0]["payload"]) == ("COMPLETED", {"order": 7})


def test_every_example_is_run() -> None:
    ran = {
        "next_orders",
        "sum_up",
        "is_large",
        "names",
        "nothing",
        "fetch_order",
        "announce",
        "start_report",
        "approve",
        "grind",
    }
    assert set(EXAMPLES) == ran
