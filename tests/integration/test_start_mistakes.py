"""Mistakes of a start request: the answer names the workflow that was probably meant, and the place of the input."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from conductor.coordinator import Coordinator


@pytest.fixture(scope="module")
def api() -> Iterator[httpx.Client]:
    tasks = [{"name": "t", "taskReferenceName": "t", "type": "SIMPLE"}]
    with Coordinator() as coordinator, httpx.Client(base_url=coordinator.url, timeout=60) as api:
        api.post("/metadata/workflow", json={"name": "reminder", "version": 2, "tasks": tasks}).raise_for_status()
        yield api


@pytest.mark.parametrize(
    ("name", "version", "advice"),
    [
        ("remindr", None, "; did you mean 'reminder'?"),
        ("billing", None, "; GET /api/metadata/workflow lists the definitions"),
        ("reminder", 7, "; it has version 2"),
    ],
)
def test_the_start_of_an_unknown_workflow_names_the_next_step_u4_44(
    api: httpx.Client, name: str, version: int | None, advice: str
) -> None:
    by_body = api.post("/workflow", json={"name": name, "version": version})
    by_path = api.post(f"/workflow/{name}", json={}, params={"version": version or 0})
    for answer in (by_body, by_path):
        assert answer.status_code == 404
        assert answer.json()["message"].startswith("No such workflow")
        assert answer.json()["message"].endswith(advice)


@pytest.mark.parametrize(
    ("path", "body", "text"),
    [
        ("/workflow", {"name": "reminder", "input": [1]}, "at `$.input`; the input of a workflow is a JSON object"),
        ("/workflow/reminder", [1], "the body is the input of the workflow, a JSON object"),
    ],
)
def test_an_input_that_is_a_list_is_explained_u4_45(api: httpx.Client, path: str, body: Any, text: str) -> None:
    answer = api.post(path, json=body)
    assert answer.status_code == 400
    assert answer.json()["message"].endswith(text)
