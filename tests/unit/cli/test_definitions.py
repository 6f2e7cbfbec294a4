"""`conductor-worker workflow`: definitions from code to JSON and to a server."""

from __future__ import annotations

import json
import re
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from conductor.cli.command_line import run_command
from conductor.client.configuration.configuration import Configuration
from conductor.client.metadata_client import MetadataClient
from conductor.client.scheduler_client import SchedulerClient
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


SUBMODULE = """
from conductor.client.workflow import workflow
from {package}.workers import pack

with workflow("{name}") as {name}:
    pack(sku="x")
"""
PACKED = """
from conductor import worker_task

@worker_task("packed_in_{package}")
def pack(sku: str) -> str: ...
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """A package in the current directory, whose submodules have workflows. No other test has a package of its name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    name = re.sub(r"\W+", "_", request.node.name)
    folder = tmp_path / name
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "workers.py").write_text(PACKED.format(package=name))
    for workflow in ("late", "soon"):
        (folder / f"{workflow}.py").write_text(SUBMODULE.format(package=name, name=workflow))
    return name


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


SCHEDULED = """
from conductor import OrkesClients, worker_task
from conductor.client.workflow import workflow

@worker_task("sweep")
def sweep() -> None: ...

server = OrkesClients().get_workflow_executor()
with workflow("nightly_{name}", cron="0 0 2 * * *", time_zone="Europe/Berlin", executor=server) as nightly:
    sweep()
"""


@pytest.mark.parametrize("way", ["command", "method"])
def test_a_registration_saves_the_schedule_of_the_workflow(
    tmp_path: Path, server: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"nightly_{way}"
    file = tmp_path / f"{name}_module.py"
    file.write_text(SCHEDULED.format(name=way))
    monkeypatch.setenv("CONDUCTOR_SERVER_URL", server)
    if way == "command":
        assert run_command(["workflow", "register", str(file)]) == 0
    else:
        runpy.run_path(str(file))["nightly"].register(overwrite=True)
    with SchedulerClient(Configuration(server)) as schedules:
        (saved,) = schedules.get_all_schedules(name)
    assert (saved.cron_expression, saved.zone_id) == ("0 0 2 * * *", "Europe/Berlin")


RETRIED = """
from conductor import worker_task
from conductor.client.workflow import workflow

@worker_task("retried", retries={retries}, retry_delay_s=5)
def retried(text: str) -> str: ...

@worker_task("plain")
def plain(text: str) -> str: ...

with workflow("{name}", inputs={{"text": str}}) as {name}:
    retried(text=plain(text={name}.input("text")))
"""


def test_register_registers_the_task_definitions_that_workers_declare(
    tmp_path: Path, server: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def register(name: str, retries: int, *options: str) -> list[str]:
        file = tmp_path / f"{name}_module.py"
        file.write_text(RETRIED.format(name=name, retries=retries))
        assert run_command(["workflow", "register", str(file), "--url", server, *options]) == 0
        return capsys.readouterr().out.splitlines()

    assert register("first", 7) == ["first version 1: registered", "task retried: registered"]
    assert register("second", 9) == ["second version 1: registered", "task retried: registered"]
    assert register("third", 3, "--no-overwrite") == ["third version 1: registered"]
    with MetadataClient(Configuration(server)) as metadata:
        registered = metadata.get_task_def("retried")
        assert (registered.retry_count, registered.retry_delay_seconds) == (9, 5)
        assert [one.name for one in metadata.get_all_task_defs()] == ["retried"]


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


@pytest.mark.parametrize("name", ["{}", "{}/__init__.py"])
def test_a_package_stands_for_its_submodules(name: str, package: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["workflow", "export", name.format(package), "--output", "out"]) == 0
    assert capsys.readouterr().out.splitlines() == ["out/late.json", "out/soon.json"]


def test_a_file_of_a_package_imports_the_package(package: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["workflow", "export", f"{package}/soon.py", "--output", "out"]) == 0
    assert capsys.readouterr().out.splitlines() == ["out/soon.json"]


def test_a_submodule_that_fails_is_named(package: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path(package, "broken.py").write_text("1 / 0\n")
    assert run_command(["workflow", "export", package]) == 2
    assert f"cannot import {package}.broken: ZeroDivisionError" in capsys.readouterr().err


def test_a_file_that_fails_is_named(module: Path, capsys: pytest.CaptureFixture[str]) -> None:
    module.write_text("1 / 0\n")
    assert run_command(["workflow", "export", module.name]) == 2
    assert f"cannot import {module.name}: ZeroDivisionError" in capsys.readouterr().err


def test_a_server_that_is_away_is_named(module: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["workflow", "register", module.stem, "--url", "http://127.0.0.1:1/api"]) == 2
    assert "127.0.0.1:1" in capsys.readouterr().err


def test_register_prints_what_is_probably_a_mistake_u4_58(
    module: Path, server: str, capsys: pytest.CaptureFixture[str]
) -> None:
    definition = {
        "name": "hasty",
        "tasks": [
            {"name": "a", "taskReferenceName": "a", "type": "SIMPEL", "inputParams": {}},
            {"name": "b", "taskReferenceName": "b", "type": "INLINE", "inputParameters": {"expression": "1 +"}},
        ],
    }
    body = json.dumps(definition).encode()
    request = Request(f"{server}/metadata/workflow", body, {"Content-Type": "application/json"})
    with urlopen(request, timeout=60) as answer:
        headers = answer.headers.get_all("Conductor-Warning")
    with urlopen(f"{server}/view/definition/hasty/warnings?version=1", timeout=60) as answer:
        assert json.load(answer)["warnings"] == headers
    assert [text.partition(":")[0] for text in headers] == ["a.inputParams", "a.type", "b.inputParameters.expression"]

    module.write_text(
        "from conductor.client.http.models.workflow_def import WorkflowDef\n"
        "from conductor.client.http.models.workflow_task import WorkflowTask\n"
        "flow = WorkflowDef(name='hasty', version=2, tasks=[\n"
        "    WorkflowTask(name='a', task_reference_name='a', type='SIMPEL')])\n"
    )
    assert run_command(["workflow", "register", module.stem, "--url", server]) == 0
    printed = capsys.readouterr()
    assert printed.out == "hasty version 2: registered\n"
    assert printed.err.startswith("warning: hasty: a.type: 'SIMPEL' is a custom task type")


def test_exported_json_is_registered_as_it_is_written(
    module: Path, server: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["workflow", "export", module.name, "--output", "."]) == 0
    exported = f"{module.stem}.json"
    assert run_command(["workflow", "register", exported, "--url", server]) == 0
    assert run_command(["workflow", "diff", module.name, exported, "--url", server]) == 0
    hasty = [
        {"name": "from_json", "tasks": [{"name": "a", "taskReferenceName": "a", "type": "SIMPLE", "inputParam": {}}]}
    ]
    (tmp_path / "hasty.json").write_text(json.dumps(hasty))
    capsys.readouterr()
    assert run_command(["workflow", "register", "hasty.json", "--url", server]) == 0
    printed = capsys.readouterr()
    assert "from_json version 1: registered" in printed.out
    assert "did you mean 'inputParameters'?" in printed.out + printed.err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot read wrong.json: No such file or directory"),
        ("{", "wrong.json is not JSON"),
        ("[1]", "wrong.json must contain a workflow definition (an object with a name), or a list of them"),
    ],
)
def test_a_wrong_json_file_is_one_line(
    text: str | None, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    if text is not None:
        (tmp_path / "wrong.json").write_text(text)
    assert run_command(["workflow", "register", "wrong.json"]) == 2
    assert message in capsys.readouterr().err


def test_definitions_and_doctor_show_warnings_of_a_registration_by_curl_u4_55(
    capsys: pytest.CaptureFixture[str],
) -> None:
    branch = [{"name": "a", "taskReferenceName": "a", "type": "SIMPLE"}]
    fork = {"name": "f", "taskReferenceName": "f", "type": "FORK_JOIN", "forkTasks": [branch]}
    with Coordinator() as coordinator:
        body = json.dumps({"name": "forked", "tasks": [fork]}).encode()
        urlopen(Request(f"{coordinator.url}/metadata/workflow", body, {"Content-Type": "application/json"})).close()
        assert run_command(["workflow", "definitions", "--url", coordinator.url]) == 0
        assert capsys.readouterr().err.startswith("warning: forked: f: no JOIN follows FORK_JOIN 'f'")
        assert run_command(["doctor", "--url", coordinator.url, "--json"]) == 0
        assert '"suspect-definition"' in capsys.readouterr().out


def test_the_python_client_logs_each_warning_once_u4_57(server: str, caplog: pytest.LogCaptureFixture) -> None:
    tasks = [{"name": "a", "taskReferenceName": "a", "type": "SIMPEL", "inputParams": {}}]
    with MetadataClient(Configuration(server)) as metadata:
        metadata.register_workflow_def({"name": "misspelt", "tasks": tasks})
    logged = [one.getMessage() for one in caplog.records if one.name == "conductor.client.http.async_api_client"]
    assert [text.split(": ")[1] for text in logged] == ["a.inputParams", "a.type"]
    served = [one.getMessage() for one in caplog.records if one.name == "conductor.coordinator.http.routes.metadata"]
    assert [text.split(": ")[1:3] for text in served] == [["misspelt", "a.inputParams"], ["misspelt", "a.type"]]
