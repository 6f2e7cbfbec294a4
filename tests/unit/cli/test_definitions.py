"""`conductor-worker workflow`: definitions from code to JSON and to a server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from conductor.cli.main import run_command
from conductor.client.configuration.configuration import Configuration
from conductor.client.metadata_client import MetadataClient
from conductor.coordinator import Coordinator

CODE = """
from conductor.client.workflow.conductor_workflow import ConductorWorkflow
from conductor.client.workflow.task.simple_task import SimpleTask
from conductor.client.workflow.task.switch_task import SwitchTask

{name} = ConductorWorkflow(None, "{name}", version=2, description="{description}").owner_email("ada@example.com")
{name} >> SimpleTask("pack", "pack").input_parameter("count", 0)
{name} >> SwitchTask("how", {name}.input("how")).switch_case("post", [SimpleTask("post", "post")])
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    """A module with a workflow in the current directory; its name is that of no other test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    name = request.node.name.replace("[", "_").replace("]", "_")
    file = tmp_path / f"{name}.py"
    file.write_text(CODE.format(name=name, description="Sends a parcel"))
    return file


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with Coordinator() as coordinator:
        yield coordinator.url


def test_the_command_exports_to_the_standard_output(module: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["workflow", "export", module.stem]) == 0
    definition = json.loads(capsys.readouterr().out)
    assert (definition["name"], definition["version"], len(definition["tasks"])) == (module.stem, 2, 2)


def test_the_command_exports_a_file_for_each(module: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["workflow", "export", module.name, "--output", "out/definitions"]) == 0
    file = tmp_path / "out" / "definitions" / f"{module.stem}.json"
    assert json.loads(file.read_text())["description"] == "Sends a parcel"
    assert capsys.readouterr().out.strip() == f"out/definitions/{module.stem}.json"


def test_the_command_says_what_is_new_registers_it_and_says_that_nothing_changes(
    module: Path, server: str, capsys: pytest.CaptureFixture[str]
) -> None:
    name = module.stem
    assert run_command(["workflow", "diff", name, "--url", server]) == 1
    assert capsys.readouterr().out == f"{name} version 2: new\n"
    assert run_command(["workflow", "register", name, "--url", server]) == 0
    assert capsys.readouterr().out == f"{name} version 2: registered\n"
    assert run_command(["workflow", "diff", name, "--url", server]) == 0
    assert capsys.readouterr().out == f"{name} version 2: unchanged\n"


def test_register_without_a_server_prints_the_remedy(module: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["workflow", "register", module.stem, "--url", "http://127.0.0.1:1/api"]) == 2
    refusal = capsys.readouterr().err
    assert "http://127.0.0.1:1/api cannot be reached: no connection" in refusal
    assert "Start a server with `conductor-worker serve`" in refusal


def test_the_command_says_what_would_change(module: Path, server: str, capsys: pytest.CaptureFixture[str]) -> None:
    run_command(["workflow", "register", module.stem, "--url", server])
    with MetadataClient(Configuration(server)) as metadata:
        there = metadata.get_workflow_def(module.stem, 2)
        there.description = "Sends a letter"
        metadata.update_workflow_def(there)
    capsys.readouterr()
    assert run_command(["workflow", "diff", module.stem, "--url", server]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{module.stem} version 2: changed"
    assert [line.strip() for line in lines if line[0] in "+-" and line[:3] not in ("+++", "---")] == [
        '-  "description": "Sends a letter",',
        '+  "description": "Sends a parcel",',
    ]


def test_the_command_keeps_what_is_there_when_told_so(
    module: Path, server: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["workflow", "register", module.stem, "--url", server, "--no-overwrite"]) == 0
    assert run_command(["workflow", "register", module.stem, "--url", server, "--no-overwrite"]) == 2
    assert f"{module.stem} version 2: " in capsys.readouterr().err


def test_a_wrong_definition_is_one_line(module: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["workflow", "export", "nothing_here"]) == 2
    assert (
        "'nothing_here' is neither a module that can be imported nor an existing Python file" in capsys.readouterr().err
    )
    module.write_text("x = 1\n")
    assert run_command(["workflow", "export", module.stem]) == 2
    assert "has no module-level workflow" in capsys.readouterr().err


def test_a_file_that_fails_is_named(module: Path, capsys: pytest.CaptureFixture[str]) -> None:
    module.write_text("1 / 0\n")
    assert run_command(["workflow", "export", module.name]) == 2
    assert f"cannot import {module.name}: ZeroDivisionError" in capsys.readouterr().err


def test_a_server_that_is_away_is_named(module: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["workflow", "register", module.stem, "--url", "http://127.0.0.1:1/api"]) == 2
    assert "127.0.0.1:1" in capsys.readouterr().err
