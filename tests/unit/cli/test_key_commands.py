"""`conductor-worker key`: keys on a running coordinator, and in the file of a stopped one."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from conductor.cli.command_line import run_command
from conductor.cli.server_kind import identify_server
from conductor.client.configuration.configuration import Configuration
from conductor.client.configuration.settings.authentication_settings import AuthenticationSettings
from conductor.client.http.async_rest import ConductorError
from conductor.coordinator import Coordinator


@pytest.fixture(autouse=True)
def no_shared_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Configuration, "AUTH_TOKEN", None, raising=False)


def output(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def test_keys_are_created_in_a_file_and_then_managed_on_the_server_o09(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    database = tmp_path / "c.db"
    assert run_command(["key", "create", "w", "--role", "worker", "--database", str(database)]) == 2
    assert "the first key must have role admin" in capsys.readouterr().err
    assert run_command(["key", "create", "ada", "--role", "queen", "--database", str(database)]) == 2
    roles = "admin, metrics, operator, starter, viewer, worker"
    assert f"there is no role 'queen'; there are {roles}" in capsys.readouterr().err
    assert run_command(["key", "create", "ada", "--role", "admin", "--database", str(database), "--json"]) == 0
    ada = output(capsys)
    with Coordinator(database) as coordinator:
        monkeypatch.setenv("CONDUCTOR_SERVER_URL", coordinator.url)
        assert run_command(["key", "list"]) == 2
        assert "CONDUCTOR_AUTH_KEY" in capsys.readouterr().err
        assert run_command(["key", "create", "b", "--role", "viewer", "--database", str(database)]) == 2
        assert "leave out --database to use the running coordinator" in capsys.readouterr().err
        monkeypatch.setenv("CONDUCTOR_AUTH_KEY", "ada")
        monkeypatch.setenv("CONDUCTOR_AUTH_SECRET", ada["secret"])
        assert run_command(["key", "create", "charger", "--role", "worker", "--task-type", "charge"]) == 0
        made = capsys.readouterr().out
        assert "CONDUCTOR_AUTH_KEY=charger" in made
        assert "CONDUCTOR_AUTH_SECRET=" in made
        assert run_command(["key", "create", "prometheus", "--role", "metrics"]) == 0
        assert "Authorization: Bearer cwm_" in capsys.readouterr().out
        assert run_command(["key", "rotate", "charger", "--overlap", "7d", "--json"]) == 0
        assert output(capsys)["secret"] not in made
        assert run_command(["key", "list"]) == 0
        listed = capsys.readouterr().out
        assert [line.split()[0] for line in listed.splitlines()[1:]] == ["ada", "charger", "prometheus"]
        assert "charge " in listed
        assert run_command(["key", "revoke", "charger"]) == 0
        assert run_command(["key", "revoke", "charger"]) == 2
        assert "there is no key charger" in capsys.readouterr().err
        assert run_command(["key", "rotate", "ada", "--overlap", "soon"]) == 2
        assert "--overlap: 'soon' is not a duration" in capsys.readouterr().err
    assert run_command(["key", "list", "--database", str(database), "--json"]) == 0
    assert [key["name"] for key in output(capsys)] == ["ada", "prometheus"]
    assert run_command(["key", "revoke", "prometheus", "--database", str(database)]) == 0
    assert run_command(["key", "revoke", "ada", "--database", str(database)]) == 0
    capsys.readouterr()
    assert run_command(["key", "list", "--database", str(database)]) == 0
    assert capsys.readouterr().out == "There are no keys, so requests need none.\n"


def test_a_rejected_request_names_the_key_and_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    database = tmp_path / "c.db"
    assert run_command(["key", "create", "ada", "--role", "admin", "--database", str(database), "--json"]) == 0
    ada = output(capsys)
    with Coordinator(database) as coordinator:
        monkeypatch.setenv("CONDUCTOR_SERVER_URL", coordinator.url)
        monkeypatch.setenv("CONDUCTOR_AUTH_KEY", "ada")
        monkeypatch.setenv("CONDUCTOR_AUTH_SECRET", "wrong")
        assert run_command(["workflow", "list"]) == 2
        text = "rejects the key 'ada': unknown key or wrong secret. Correct CONDUCTOR_AUTH_KEY and"
        assert text in capsys.readouterr().err
        monkeypatch.setenv("CONDUCTOR_AUTH_SECRET", ada["secret"])
        assert run_command(["key", "create", "ben", "--role", "viewer", "--json"]) == 0
        monkeypatch.setenv("CONDUCTOR_AUTH_KEY", "ben")
        monkeypatch.setenv("CONDUCTOR_AUTH_SECRET", output(capsys)["secret"])
        assert run_command(["workflow", "start", "order"]) == 2
        answer = capsys.readouterr().err
        assert "key ben has role viewer, but " in answer
        assert answer.endswith(". Use a key with this permission\n")


def test_a_wrong_path_in_the_url_is_named(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with Coordinator() as coordinator:
        monkeypatch.setenv("CONDUCTOR_SERVER_URL", coordinator.url.replace("/api", "/wrong"))
        assert run_command(["workflow", "list"]) == 2
    answer = capsys.readouterr().err
    assert "/wrong/api answers, but not as Conductor does: 404: No static resource" in answer
    assert "Is the URL right?" in answer


def test_a_key_that_may_not_poll_every_type_does_not_make_the_server_unusable_o09(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    database = tmp_path / "c.db"
    secrets = {}
    for name, *options in [
        ("ada", "--role", "admin"),
        ("charger", "--role", "worker", "--task-type", "charge"),
        ("ben", "--role", "operator"),
    ]:
        assert run_command(["key", "create", name, *options, "--database", str(database), "--json"]) == 0
        secrets[name] = output(capsys)["secret"]
    with Coordinator(database) as coordinator:
        for name in ("charger", "ben"):
            settings = AuthenticationSettings(name, secrets[name])
            configuration = Configuration(coordinator.url, authentication_settings=settings)
            assert asyncio.run(identify_server(configuration)).is_coordinator
            monkeypatch.setattr(Configuration, "AUTH_TOKEN", None, raising=False)
        wrong = Configuration(coordinator.url, authentication_settings=AuthenticationSettings("ben", "wrong"))
        with pytest.raises(ConductorError):
            asyncio.run(identify_server(wrong))
