"""Bad input: one clear line, status 2, never a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conductor.version import __version__
from tests.unit.cli.program import CLI

MISTAKES = {
    "no such command": (["swerve"], "swerve"),
    "no such option": (["serve", "--prot", "1"], "--port"),
    "no module": (["run"], "MODULE"),
    "port out of range": (["serve", "--port", "70000"], "65535"),
    "port no number": (["serve", "--port", "http"], "--port"),
    "remote without authentication": (["serve", "--host", "0.0.0.0"], "--allow-remote"),
    "database in no directory": (["serve", "--port", "0", "--database", "nowhere/x.db"], "nowhere"),
    "database is a directory": (["serve", "--port", "0", "--database", "."], "directory"),
    "not a URL": (["run", "greetings", "--url", "ftp://x"], "--url: 'ftp://x'"),
    "module that is not there": (["run", "absent_module"], "absent_module: there is no such module"),
    "module that does not import": (["run", "broken"], "ZeroDivisionError: division by zero"),
    "file that is not there": (["run", "./absent.py"], "'./absent.py' is neither the name of a module"),
    "file that is not here": (["run", "absent.py"], "there is no file absent.py in "),
    "directory": (["run", ".."], "'..' is neither"),
    "nothing": (["workers", ""], "'' is neither"),
    "file that cannot be imported": (["workers", "my-workers.py"], "'my-workers' is not the name of a module"),
    "module without workers": (["run", "empty"], "there are no workers in empty"),
    "two workers for one type": (["run", "greetings", "rival", "--strict-registry"], "cli_greet"),
    "option of workers out of range": (["run", "greetings", "--thread-count", "0"], "--thread-count: '0'"),
    "option of workers no number": (["run", "greetings", "--poll-timeout", "soon"], "from 0 to 5000"),
    "option of workers no choice": (["run", "greetings", "--task-log-level", "LOUD"], "DEBUG, INFO"),
    "too few orders": (["demo", "--workflows", "0"], "--workflows"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_and_status_2(mistake: Any, cli: Any, place: Any) -> None:
    (place / "broken.py").write_text("\n1 / 0\n")
    (place / "empty.py").write_text("")
    (place / "my-workers.py").write_text("")
    (place / "rival.py").write_text((place / "greetings.py").read_text())
    arguments, said = MISTAKES[mistake]
    ran = cli(*arguments)
    assert ran.status == 2
    assert said in ran.err
    assert ran.err.count("\n") == 1
    assert ran.err.startswith("conductor-worker: ")
    assert ran.out == ""


def test_two_workers_for_one_type_are_told_and_the_last_one_is_listed(cli: Any, place: Any) -> None:
    (place / "rival.py").write_text((place / "greetings.py").read_text())
    ran = cli("workers", "greetings", "rival")
    assert ran.status == 0
    assert "warning: task type 'cli_greet' has 2 workers: greetings.greet and rival.greet" in ran.err
    assert [line for line in ran.out.splitlines() if line.startswith("cli_greet ") and "def rival.greet" in line]


def test_the_line_of_a_failed_import_says_where_it_failed(cli: Any, place: Any) -> None:
    (place / "broken.py").write_text("\n1 / 0\n")
    assert f"({place / 'broken.py'}, line 2;" in cli("workers", "broken").err


@pytest.mark.parametrize("command", ["run", "workers"])
def test_an_error_inside_an_import_names_the_users_own_line(cli: Any, place: Any, command: Any) -> None:
    (place / "settings.py").write_text("import json\n\nPRICES = json.loads('{')\n")
    (place / "broken.py").write_text("import settings\n")
    ran = cli(command, "broken")
    assert f"({place / 'settings.py'}, line 3;" in ran.err
    assert "decoder.py" not in ran.err
    assert ran.err.count("\n") == 1


def test_the_whole_traceback_of_a_failed_import_is_shown_when_asked_for(cli: Any, place: Any) -> None:
    (place / "broken.py").write_text("import json\n\njson.loads('{')\n")
    ran = cli("workers", "broken", "--traceback")
    assert ran.status == 2
    assert "Traceback (most recent call last)" in ran.err
    assert "decoder.py" in ran.err
    assert ran.err.splitlines()[-1].startswith("conductor-worker: cannot import broken")


def test_half_a_key_pair_is_a_mistake(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONDUCTOR_AUTH_KEY", "key")
    ran = cli("serve", "--port", "0")
    assert (ran.status, ran.err.count("\n")) == (2, 1)
    assert "CONDUCTOR_AUTH_SECRET" in ran.err


def test_a_bad_value_in_the_environment_is_a_mistake(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONDUCTOR_WORKER_CLI_WAVE_THREAD_COUNT", "many")
    ran = cli("workers", "greetings")
    assert (ran.status, ran.err.count("\n")) == (2, 1)
    assert "CONDUCTOR_WORKER_CLI_WAVE_THREAD_COUNT: 'many'" in ran.err


def test_the_doctor_finds_a_bad_value_in_the_environment_too(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONDUCTOR_WORKER_ALL_THREAD_COUNT", "lots")
    ran = cli("doctor")
    assert (ran.status, ran.err.count("\n")) == (2, 1)
    assert "CONDUCTOR_WORKER_ALL_THREAD_COUNT: 'lots'" in ran.err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("command", [["version"], ["workers", "greetings"], ["--help"]], ids=lambda c: c[0])
def test_output_that_cannot_be_written_is_one_line(place: Any, command: Any) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([*CLI, *command], cwd=place, stdout=full, stderr=subprocess.PIPE, text=True, timeout=200)
    assert done.returncode == 2
    assert done.stderr == "conductor-worker: the output cannot be written: No space left on device\n"


def test_a_reader_that_has_gone_away_needs_no_words(place: Any) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([*CLI, "workers", "greetings"], cwd=place, stdout=writer, stderr=subprocess.PIPE, timeout=200)
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, b"")


def test_a_file_that_is_no_database_is_refused(cli: Any, place: Any) -> None:
    (place / "letter.db").write_text("Dear Ada, " * 200)
    ran = cli("serve", "--port", "0", "--database", "letter.db")
    assert (ran.status, ran.err.count("\n")) == (2, 1)
    assert "letter.db" in ran.err
    assert (place / "letter.db").read_text().startswith("Dear Ada")


def test_help_without_a_command(cli: Any) -> None:
    ran = cli()
    assert ran.status == 0
    assert all(f"\n  {command} " in ran.out for command in ("serve", "run", "workers", "demo", "doctor", "version"))


def test_the_version_is_printed(cli: Any) -> None:
    assert cli("version").out.startswith(f"conductor-worker {__version__} ")


@pytest.mark.parametrize(
    ("missing", "command", "said"),
    [
        ("typer", "version", "needs typer: pip install 'conductor-worker[all]'"),
        ("rich", "version", "needs rich: pip install 'conductor-worker[all]'"),
        ("httptools", "serve", "needs httptools: pip install 'conductor-worker[all]'"),
        ("httptools", "demo", "needs httptools: pip install 'conductor-worker[all]'"),
    ],
)
def test_without_its_extra_a_command_says_how_to_get_it(missing: Any, command: Any, said: Any, place: Path) -> None:
    program = (
        f"import sys; sys.modules[{missing!r}] = None\nfrom conductor.cli import main\nsys.exit(main([{command!r}]))"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=200, check=False)
    assert ran.returncode == 2
    assert said in ran.stderr
    assert ran.stderr.count("\n") == 1


def test_workers_with_a_bad_value_in_the_environment_prints_one_line_u1_9(
    cli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONDUCTOR_WORKER_ALL_THREAD_COUNT", "many")
    for more in ([], ["--all"], ["--json"]):
        ran = cli("workers", "greetings", *more)
        assert (ran.status, ran.out, ran.err.count("\n")) == (2, "", 1)
        assert "CONDUCTOR_WORKER_ALL_THREAD_COUNT: 'many'" in ran.err
