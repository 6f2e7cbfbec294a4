"""`/api/secrets` and `/api/environment` over HTTP."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import httpx
import pytest

from conductor.client.configuration.configuration import Configuration
from conductor.client.secret_client import SecretClient
from conductor.coordinator import Coordinator
from conductor.coordinator.settings.environment import environment


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[httpx.Client]:
    monkeypatch.setenv("CONDUCTOR_SECRET_DBPASS", "s3cret-value")
    monkeypatch.setenv("CONDUCTOR_ENV_REGION", "eu-1")
    environment.cache_clear()
    with Coordinator() as coordinator, httpx.Client(base_url=coordinator.url, timeout=30) as api:
        yield api
    environment.cache_clear()


def test_names_are_told_and_values_are_not(api: httpx.Client) -> None:
    assert api.get("/secrets").json() == ["DBPASS"]
    assert api.put("/secrets/NEW", content="text", headers={"content-type": "text/plain"}).status_code == 200
    assert api.put("/secrets/OTHER", json="as JSON").status_code == 200
    assert api.get("/secrets").json() == ["DBPASS", "NEW", "OTHER"]
    for name in ("DBPASS", "NEW"):
        answer = api.get(f"/secrets/{name}")
        assert answer.status_code == 403
        assert "shown to nobody" in answer.json()["message"]
        assert api.get(f"/secrets/{name}/exists").json() is True
    assert api.get("/secrets/NOPE/exists").json() is False
    assert api.delete("/secrets/NEW").status_code == 200
    assert api.get("/secrets").json() == ["DBPASS", "OTHER"]


def test_a_value_that_is_no_text_is_refused_without_being_shown(
    api: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        answer = api.put("/secrets/BAD", content=b"s3\xff", headers={"content-type": "text/plain"})
    assert answer.status_code == 400
    assert "s3" not in answer.text.replace("secret", "")
    assert "s3" not in caplog.text


def test_the_environment_is_as_conductor_answers(api: httpx.Client) -> None:
    assert api.get("/environment").json() == [{"name": "REGION", "value": "eu-1"}]
    found = api.get("/environment/REGION")
    assert (found.text, found.headers["content-type"]) == ("eu-1", "text/plain;charset=UTF-8")
    absent = api.get("/environment/NOPE")
    assert (absent.status_code, absent.content) == (200, b"")
    assert api.put("/environment/X", json="v").status_code == 405


def test_the_client_puts_lists_and_removes(api: httpx.Client) -> None:
    with SecretClient(Configuration(str(api.base_url))) as secrets:
        secrets.put_secret("TOKEN", "t0ken")
        assert secrets.list_all_secret_names() == {"DBPASS", "TOKEN"}
        assert secrets.secret_exists("TOKEN")
        secrets.delete_secret("TOKEN")
        assert not secrets.secret_exists("TOKEN")


def test_a_polled_task_brings_the_value_over_http(api: httpx.Client) -> None:
    task = {"name": "work", "taskReferenceName": "w", "inputParameters": {"p": "${workflow.secrets.DBPASS}"}}
    api.post("/metadata/workflow", json={"name": "wf", "tasks": [task]}).raise_for_status()
    workflow_id = api.post("/workflow/wf", json={}).text
    assert api.get("/tasks/poll/work").json()["inputData"] == {"p": "s3cret-value"}
    for path in (f"/workflow/{workflow_id}", "/tasks/search-v2", "/workflow/search-v2", "/metadata/workflow"):
        assert "s3cret-value" not in api.get(path).raise_for_status().text
