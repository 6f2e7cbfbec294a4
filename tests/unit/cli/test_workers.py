"""`conductor-worker workers`: the workers with every option and the source of its value."""

from __future__ import annotations

import json
from typing import Any

import pytest

from conductor.client.worker.worker_config import OPTIONS


def values_of(worker: str, out: str) -> dict[str, list[str]]:
    """Option to value and source, as listed under one worker."""
    part = out.split(f"{worker}: ", 1)[1].split("\n\n", 1)[0]
    return {
        words[0]: [*words[1:2], words[2].strip()]
        for line in part.splitlines()
        if len(words := line.split(maxsplit=2)) == 3
    }


def test_every_option_of_every_worker_is_listed(cli: Any) -> None:
    ran = cli("workers", "greetings", "--all")
    assert ran.status == 0
    assert "cli_greet: def greetings.greet" in ran.out
    assert "cli_wave: async def greetings.wave" in ran.out
    for worker in ("cli_greet", "cli_wave"):
        assert set(OPTIONS) <= set(values_of(worker, ran.out))


def test_each_value_says_where_it_came_from(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONDUCTOR_WORKER_POLL_TIMEOUT", "250")
    monkeypatch.setenv("CONDUCTOR_WORKER_CLI_WAVE_THREAD_COUNT", "7")
    out = cli("workers", "greetings", "--all").out
    greet, wave = values_of("cli_greet", out), values_of("cli_wave", out)
    assert greet["thread_count"] == ["3", "code"]
    assert wave["thread_count"] == ["7", "env CONDUCTOR_WORKER_CLI_WAVE_THREAD_COUNT"]
    assert greet["poll_timeout"] == wave["poll_timeout"] == ["250", "env CONDUCTOR_WORKER_POLL_TIMEOUT"]
    assert wave["poll_interval_millis"] == ["100", "default"]


def test_only_options_that_differ_from_the_default_are_listed(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONDUCTOR_WORKER_CLI_WAVE_THREAD_COUNT", "7")
    monkeypatch.setenv("CONDUCTOR_WORKER_CLI_WAVE_DOMAIN", "[red]blue")
    monkeypatch.delenv("CONDUCTOR_WORKER_JOURNAL_DIR", raising=False)  # the suite's own
    head, greet, wave, domain = cli("workers", "greetings").out.splitlines()
    assert head.split() == ["worker", "function", "option", "value", "from"]
    assert greet.split() == ["cli_greet", "def", "greetings.greet", "thread_count", "3", "code"]
    assert wave.split()[:6] == ["cli_wave", "async", "def", "greetings.wave", "thread_count", "7"]
    assert domain.split() == ["domain", "[red]blue", "env", "CONDUCTOR_WORKER_CLI_WAVE_DOMAIN"]


def test_workers_writes_json_for_programs(cli: Any) -> None:
    greet, wave = json.loads(cli("workers", "greetings", "--json").out)
    assert (greet["taskType"], greet["function"], greet["async"]) == ("cli_greet", "greetings.greet", False)
    assert greet["options"]["thread_count"] == {"value": 3, "from": "code"}
    assert set(wave["options"]) == set(OPTIONS)
    assert wave["async"] is True


def test_a_variable_that_is_nearly_right_is_warned_about(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONDUCTOR_WORKER_CLI_GREET_THREADCOUNT", "5")
    ran = cli("workers", "greetings")
    assert ran.status == 0
    assert "CONDUCTOR_WORKER_CLI_GREET_THREADCOUNT sets nothing" in ran.err
    assert "did you mean CONDUCTOR_WORKER_CLI_GREET_THREAD_COUNT?" in ran.err


def test_packages_are_searched_for_workers(cli: Any, place: Any) -> None:
    (place / "shop" / "back").mkdir(parents=True)
    for package in ("shop", "shop/back"):
        (place / package / "__init__.py").write_text("")
    (place / "shop" / "back" / "office.py").write_text((place / "greetings.py").read_text())
    assert "cli_greet  def shop.back.office.greet" in cli("workers", "shop").out


@pytest.mark.parametrize("spelling", ["greetings.py", "./greetings.py", "{place}/greetings.py"])
def test_a_file_will_do(cli: Any, place: Any, spelling: Any) -> None:
    assert "cli_greet  def greetings.greet" in cli("workers", spelling.format(place=place)).out


def test_a_file_in_a_folder_is_the_module_it_would_be_imported_as(cli: Any, place: Any) -> None:
    (place / "shop").mkdir()
    (place / "greetings.py").rename(place / "shop" / "office.py")
    assert "cli_greet  def shop.office.greet" in cli("workers", "shop/office.py").out
    assert "there are no workers" not in cli("workers", "shop/office.py").err


def test_a_file_elsewhere_is_a_module_by_itself(cli: Any, place: Any, tmp_path_factory: Any) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (place / "greetings.py").rename(elsewhere / "hellos.py")
    assert "cli_greet  def hellos.greet" in cli("workers", str(elsewhere / "hellos.py")).out


def test_a_syntax_error_that_two_modules_import_is_reported_once_u2_10(cli: Any, place: Any) -> None:
    (place / "wrong.py").write_text("def (:\n")
    (place / "first.py").write_text("import wrong\n")
    (place / "second.py").write_text("import wrong\n")
    ran = cli("workers", "first", "second")
    assert (ran.status, ran.err.count("SyntaxError")) == (2, 1)
    assert "the same error in second" in ran.err
