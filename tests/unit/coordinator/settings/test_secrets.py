"""Secrets and the environment: which tasks get the values, and where the values never appear."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from conductor.coordinator.request_errors import ApiError
from conductor.coordinator.settings.cipher import CipherError
from conductor.coordinator.settings.environment import environment
from conductor.coordinator.store.statements import SECRETS, SET_SECRET
from conductor.coordinator.store.transaction import Tx
from tests.unit.coordinator.core_harness import Harness, simple

SECRET = "s3cret-value"
KEY = "a passphrase of many words"
INPUT = {
    "whole": "${workflow.secrets.DBPASS}",
    "inside": "user:${workflow.secrets.DBPASS}@${workflow.input.host}",
    "deep": [{"a": "${workflow.secrets.DBPASS}"}, "plain"],
    "unknown": "${workflow.secrets.NOPE}",
    "region": "${workflow.env.REGION}",
    "no_region": "${workflow.env.NOPE}",
    "data": "${workflow.input.data}",
}


@pytest.fixture(autouse=True)
def variables(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("CONDUCTOR_SECRET_DBPASS", SECRET)
    monkeypatch.setenv("CONDUCTOR_ENV_REGION", "eu-1")
    environment.cache_clear()
    yield
    environment.cache_clear()


def start(harness: Harness, given: dict[str, Any] | None = None, **fields: Any) -> str:
    harness.workflow_def("flow", simple("work", inputParameters=INPUT), **fields)
    return harness.start("flow", input=given or {"host": "db"})


def put(harness: Harness, name: str, value: str) -> None:
    harness.store.call(lambda tx: harness.core.secrets.put(tx, name, value))
    harness.core.secrets.apply(harness.notes[-1].secrets)


class TestASecret:
    def test_a_secret_is_given_to_the_worker_that_polls_the_task(self, harness: Harness) -> None:
        start(harness, {"host": "db", "data": 1})
        assert harness.poll_one()["inputData"] == {
            "whole": SECRET,
            "inside": f"user:{SECRET}@db",
            "deep": [{"a": SECRET}, "plain"],
            "unknown": None,
            "region": "eu-1",
            "no_region": None,
            "data": 1,
        }

    def test_a_secret_is_a_placeholder_everywhere_else(self, harness: Harness, tmp_path: Path) -> None:
        """As on Conductor 3.32.3, which keeps the placeholder in the task's input and in the workflow's output."""
        workflow_id = start(harness, outputParameters={"leak": "${workflow.secrets.DBPASS}"})
        task = harness.poll_one()
        assert harness.task(task["taskId"])["inputData"]["whole"] == "${workflow.secrets.DBPASS}"
        harness.report(task)
        workflow = harness.workflow(workflow_id)
        assert workflow["output"] == {"leak": "${workflow.secrets.DBPASS}"}
        assert workflow["tasks"][0]["inputData"]["inside"] == "user:${workflow.secrets.DBPASS}@db"
        harness.close()
        assert not [path for path in tmp_path.iterdir() if SECRET.encode() in path.read_bytes()]
        harness.open()

    def test_a_secret_is_given_again_with_the_next_attempt(self, harness: Harness) -> None:
        harness.task_def("work", retryDelaySeconds=0)
        start(harness)
        harness.report(harness.poll_one(), "FAILED")
        assert harness.poll_one()["inputData"]["whole"] == SECRET

    def test_a_secret_is_not_given_to_data_that_names_it(self, harness: Harness) -> None:
        """The input of a workflow may contain any text; it stays a text."""
        placeholder = "${workflow.secrets.DBPASS}"
        start(harness, {"host": placeholder, "data": {"a": placeholder, "b": [placeholder]}})
        given = harness.poll_one()["inputData"]
        assert given["inside"] == f"user:{SECRET}@{placeholder}"
        assert given["data"] == {"a": placeholder, "b": [placeholder]}

    def test_a_secret_may_be_named_by_the_template_of_the_task_definition(self, harness: Harness) -> None:
        harness.task_def("work", inputTemplate={"token": "${workflow.secrets.DBPASS}"})
        harness.workflow_def("flow", simple("work"))
        harness.start("flow")
        assert harness.poll_one()["inputData"] == {"token": SECRET}

    def test_a_secret_comes_with_the_task_if_its_definition_asks_for_it(self, harness: Harness) -> None:
        harness.task_def("work", runtimeMetadata=["DBPASS", "NOPE"])
        workflow_id = harness.start_one("work")
        task = harness.poll_one()
        assert task["runtimeMetadata"] == {"DBPASS": SECRET}
        assert task["taskDefinition"]["runtimeMetadata"] == ["DBPASS", "NOPE"]
        assert "runtimeMetadata" not in harness.task(task["taskId"])
        assert SECRET not in msgspec.json.encode(harness.workflow(workflow_id)).decode()

    def test_next_to_an_escaped_brace_keeps_it(self, harness: Harness) -> None:
        harness.workflow_def("flow", simple("work", inputParameters={"a": "$${x} ${workflow.secrets.DBPASS}"}))
        harness.start("flow")
        assert harness.poll_one()["inputData"] == {"a": f"${{x}} {SECRET}"}

    @pytest.mark.parametrize(
        "template",
        [
            "${workflow.secrets.DBPASS}${workflow.input.a}${workflow.input.b}",
            "${workflow.secrets.DBPASS}${workflow.input.a}{",
        ],
    )
    def test_data_that_is_put_together_does_not_name_a_secret(self, harness: Harness, template: str) -> None:
        """The input `$`, followed by `{`, must not become an expression."""
        put(harness, "OTHER", "other-value")
        given = {"a": "$", "b": "{workflow.secrets.OTHER}"}
        if template.endswith("{"):
            template, given = template + "${workflow.input.b}", {"a": "$", "b": "workflow.secrets.OTHER}"}
        harness.workflow_def("flow", simple("work", inputParameters={"a": template}))
        harness.start("flow", input=given)
        assert harness.poll_one()["inputData"] == {"a": SECRET + "${workflow.secrets.OTHER}"}

    def test_a_branch_cannot_take_the_name_of_a_task_that_receives_a_secret(self, harness: Harness) -> None:
        forked = {
            "name": "fork",
            "taskReferenceName": "fork",
            "type": "FORK_JOIN_DYNAMIC",
            "inputParameters": {"forkTaskName": "work", "forkTaskInputs": "${workflow.input.branches}"},
        }
        join = {"name": "join", "taskReferenceName": "join", "type": "JOIN"}
        secret = simple("later", "_work_1", inputParameters={"a": "${workflow.secrets.DBPASS}"})
        harness.workflow_def("flow", forked, join, secret)
        workflow_id = harness.start("flow", input={"branches": [{}, {"a": "${workflow.secrets.DBPASS}"}]})
        assert harness.poll(count=2) == []
        assert "already has a task with this reference name" in harness.workflow(workflow_id)["reasonForIncompletion"]


class TestSecretsOfTheApi:
    def test_secrets_of_the_api_win_over_the_environment_until_they_are_removed(self, harness: Harness) -> None:
        put(harness, "DBPASS", "other")
        put(harness, "MORE", "x")
        assert harness.core.secrets.names() == ["DBPASS", "MORE"]
        start(harness)
        assert harness.poll_one()["inputData"]["whole"] == "other"
        harness.store.call(lambda tx: harness.core.secrets.remove(tx, "DBPASS"))
        harness.core.secrets.apply(harness.notes[-1].secrets)
        start(harness)
        assert harness.poll_one()["inputData"]["whole"] == SECRET

    def test_a_change_that_is_not_committed_has_no_effect(self, harness: Harness) -> None:
        """Otherwise a secret could change without an entry in the audit trail."""
        put(harness, "KEPT", "first")

        def change_and_fail(tx: Tx) -> None:
            harness.core.secrets.put(tx, "KEPT", "second")
            harness.core.secrets.put(tx, "ADDED", "x")
            raise ApiError(500, "the audit entry cannot be written")

        with pytest.raises(ApiError):
            harness.store.call(change_and_fail)
        assert harness.core.secrets.value("KEPT") == "first"
        assert harness.core.secrets.names() == ["DBPASS", "KEPT"]

    def test_secrets_of_the_api_are_gone_after_a_restart_without_a_key_and_that_is_said(
        self, harness: Harness, caplog: pytest.LogCaptureFixture, tmp_path: Path
    ) -> None:
        with caplog.at_level(logging.INFO):
            harness.restart()
            put(harness, "MORE", "kept-in-memory")
        assert "Secrets from the API are kept in memory only; set CONDUCTOR_SECRETS_KEY" in caplog.text
        assert "Secret is kept in memory only: name=MORE" in caplog.text
        assert "kept-in-memory" not in caplog.text
        harness.restart()
        assert harness.core.secrets.names() == ["DBPASS"]
        assert not [path for path in tmp_path.iterdir() if b"kept-in-memory" in path.read_bytes()]

    def test_secrets_of_the_api_are_kept_encrypted_with_a_key(
        self, harness: Harness, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setenv("CONDUCTOR_SECRETS_KEY", KEY)
        harness.restart()
        put(harness, "MORE", "kept-in-the-file")
        harness.restart()
        assert harness.core.secrets.value("MORE") == "kept-in-the-file"
        harness.close()
        assert not [path for path in tmp_path.iterdir() if b"kept-in-the-file" in path.read_bytes()]
        monkeypatch.setenv("CONDUCTOR_SECRETS_KEY", KEY + "!")
        with pytest.raises(CipherError, match="secret MORE in the database was encrypted with another key"):
            harness.open()
        harness.close()
        monkeypatch.delenv("CONDUCTOR_SECRETS_KEY")
        harness.open()
        assert harness.core.secrets.value("MORE") is None
        assert "Stored secrets are unreadable: secrets=1; set CONDUCTOR_SECRETS_KEY" in caplog.text
        assert harness.core.secrets.unreadable == 1

    def test_a_value_cannot_be_moved_to_another_name(self, harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("CONDUCTOR_SECRETS_KEY", KEY)
        harness.restart()
        put(harness, "A", "x")
        harness.store.call(lambda tx: tx.run(SET_SECRET, "B", tx.rows(SECRETS)[0].value))
        harness.close()
        with pytest.raises(CipherError, match="secret B"):
            harness.open()
        harness.close()
        monkeypatch.delenv("CONDUCTOR_SECRETS_KEY")
        harness.open()

    def test_a_short_key_is_refused(self, harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("CONDUCTOR_SECRETS_KEY", "short")
        harness.close()
        with pytest.raises(CipherError, match="fewer than 16 characters"):
            harness.open()
        harness.close()
        monkeypatch.delenv("CONDUCTOR_SECRETS_KEY")
        harness.open()

    @pytest.mark.parametrize(("name", "value"), [("a b", "x"), ("", "x"), ("${x}", "x"), ("A", "x" * 70_000)])
    def test_names_and_sizes_have_limits(self, harness: Harness, name: str, value: str) -> None:
        with pytest.raises(ApiError) as refused:
            put(harness, name, value)
        assert refused.value.status == 400
        assert "xx" not in refused.value.message
