"""The commands in a real terminal: they fit its width, colour is optional, and data cannot send control sequences."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from rich.cells import cell_len

from conductor.common.text import escape
from conductor.coordinator import Coordinator
from tests.unit.cli.program import CLI, DEADLINE_S
from tests.unit.cli.screen import Screen, run_in_terminal
from tests.unit.cli.server_client import EVIL, Client, order

#: The escape sequences of colours and weights; no other sequence may reach a terminal.
_STYLE = re.compile(r"\x1b\[[0-9;]*m")
_COLOUR = re.compile(r"\x1b\[(?:[0-9]+;)*(?:3[0-7]|38|9[0-7])[;m]")


class Place(NamedTuple):
    """A server with one workflow in it, whose every name is a trap."""

    client: Client
    directory: Path
    workflow_id: str

    def see(self, columns: int, *command: str, typed: str = "", **env: str) -> Screen:
        """Run a command in a terminal."""
        env["CONDUCTOR_SERVER_URL"] = self.client.url
        return run_in_terminal([*CLI, *command], self.directory, columns, env, typed)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with Coordinator() as coordinator:
        client = Client(coordinator.url)
        client.register(EVIL, *order(EVIL, "pack"))
        workflow_id = client.start(EVIL, {"how": "post"}, EVIL)
        client.work("pack", count=5, logs=[{"log": EVIL}])
        (tmp_path := tmp_path_factory.mktemp("terminal")).joinpath("greetings.py").write_text(
            "from conductor import worker_task\n\n\n@worker_task(task_definition_name='greet', thread_count=3)\n"
            "def greet(name: str) -> str:\n    return name\n"
        )
        yield Place(client, tmp_path, workflow_id)


def command_lines(workflow_id: str) -> dict[str, list[str]]:
    """Every command that shows something."""
    return {
        "workflow list": ["workflow", "list"],
        "workflow show": ["workflow", "show", workflow_id],
        "task show": ["task", "show", f"{workflow_id}:stamp"],
        "task logs": ["task", "logs", f"{workflow_id}:stamp"],
        "queues": ["queues"],
        "workers": ["workers", "greetings"],
        "schedule list": ["schedule", "list"],
        "purge": ["purge", "--older-than", "1d", "--dry-run"],
    }


def check(screen: Screen, columns: int, *, coloured: bool) -> None:
    """Check that the command succeeded, every line fits, and only wanted colours were sent."""
    assert screen.status == 0, screen.text
    assert coloured or not _COLOUR.search(screen.text)
    plain = [_STYLE.sub("", line) for line in screen.lines]
    assert all(line.isprintable() for line in plain), plain
    assert max(map(cell_len, plain)) <= columns, plain


def test_a_list_fits_and_keeps_whole_ids(place: Place) -> None:
    screen = place.see(80, "workflow", "list")
    check(screen, 80, coloured=True)
    assert place.workflow_id in screen.text
    assert "◐ RUNNING" in screen.text
    assert "evil" in screen.text
    assert "since the server started" in screen.text


def test_a_graph_fits_with_colour(place: Place) -> None:
    screen = place.see(80, "workflow", "show", place.workflow_id)
    check(screen, 80, coloured=True)
    assert _COLOUR.search(screen.text)
    plain = [_STYLE.sub("", line) for line in screen.lines]
    assert any(line.startswith("│  ✓ stamp") for line in plain), plain
    assert any(line.startswith("· ship") for line in plain)


def test_a_graph_fits_without_colour(place: Place) -> None:
    screen = place.see(120, "workflow", "show", place.workflow_id, NO_COLOR="1")
    check(screen, 120, coloured=False)
    assert escape(EVIL) in _STYLE.sub("", screen.text).replace("\r\n", "")


def test_a_terminal_without_our_signs(place: Place) -> None:
    screen = place.see(80, "workflow", "show", place.workflow_id, PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert screen.status == 0
    assert "? RUNNING" in _STYLE.sub("", screen.text)


def test_json_is_the_same_in_a_terminal(place: Place) -> None:
    screen = place.see(80, "workflow", "show", place.workflow_id, "--json")
    (line,) = screen.lines
    assert json.loads(line)["workflow"]["workflowName"] == EVIL
    assert line.isascii()
    assert line.isprintable()


def test_a_mistake_does_not_drive_the_terminal_either(place: Place) -> None:
    screen = place.see(80, "workflow", "show", EVIL)
    assert screen.status == 2
    assert screen.text.replace("\r\n", "").isprintable()


@pytest.mark.slow
@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("no_color", [False, True])
@pytest.mark.parametrize("name", command_lines(""))
def test_each_command_fits_its_terminal(place: Place, name: str, columns: int, no_color: bool) -> None:
    env = {"NO_COLOR": "1"} if no_color else {}
    check(place.see(columns, *command_lines(place.workflow_id)[name], **env), columns, coloured=not no_color)


@pytest.mark.slow
def test_a_question_is_asked_in_a_terminal(place: Place) -> None:
    workflow_id = place.client.start(EVIL)
    place.client.ask(f"/workflow/{workflow_id}", method="DELETE")
    screen = place.see(80, "purge", "--older-than", "2100-01-01", typed="n\n")
    assert screen.status == 1
    assert "Remove them? [y/N]" in screen.text
    assert "Nothing was removed." in screen.text


@pytest.mark.slow
def test_a_reader_that_has_seen_enough(place: Place) -> None:
    command = f"{' '.join(CLI)} workflow list --size 200 --url {place.client.url} | head -1; exit ${{PIPESTATUS[0]}}"
    for _ in range(100):
        place.client.start(EVIL)
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert done.stdout.startswith("status ")
    assert done.stdout.count("\n") == 1
    # Hints may follow on stderr if the pipe closes late.
    assert not {"Traceback", "Error", "Broken"} & set(re.findall(r"[A-Z][a-z]+", done.stderr)), done.stderr
    assert done.returncode in (0, 1), "1: it could not write all of it"


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_completes_commands(place: Place, shell: str) -> None:
    env: dict[str, Any] = {
        "_CONDUCTOR_WORKER_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": "conductor-worker workflow re",
        "COMP_CWORD": "2",
        "_TYPER_COMPLETE_ARGS": "conductor-worker workflow re",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    screen = run_in_terminal([*CLI], place.directory, 200, env)
    assert all(word in screen.text for word in ("resume", "retry", "rerun", "restart", "register")), screen.text
