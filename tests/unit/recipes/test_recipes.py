"""The recipes of deploy/ use existing options, variables, probes, ports and times."""

from __future__ import annotations

import ast
import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conductor.client.worker.worker_config import OPTIONS
from tests.unit.docs.test_docs import COMMANDS, known_variables
from tests.unit.recipes.recipes import (
    DEPLOY,
    ROOT,
    UNITS,
    CommandLine,
    command_lines,
    dockerfile,
    documents,
    healthcheck,
    services,
    setting,
    tool,
    workloads,
)

YAML = sorted([*DEPLOY.rglob("*.yaml"), *DEPLOY.rglob("*.yml")])
GRACE_S = float(OPTIONS["shutdown_grace_seconds"].default)


def test_every_half_is_in_every_recipe() -> None:
    found = {str(line) for line in command_lines()}
    assert {"Dockerfile, coordinator: serve", "Dockerfile, workers: run"} <= found
    assert {"compose.yaml, coordinator: serve", "compose.yaml, workers: run"} <= found
    assert {"kubernetes, conductor-coordinator: serve", "kubernetes, conductor-workers: run"} <= found
    assert {"conductor-coordinator.service: serve", "conductor-workers.service: run"} <= found


@pytest.mark.parametrize("line", list(command_lines()), ids=str)
def test_our_command_line_understands_theirs(line: CommandLine) -> None:
    name, *rest = line.words
    with COMMANDS[name].make_context(name, list(rest)) as context:  # an option that does not exist is an error here
        assert context.params


@pytest.mark.parametrize("file", YAML, ids=lambda file: str(file.relative_to(DEPLOY)))
def test_yaml_can_be_read(file: Path) -> None:
    assert all(isinstance(document, dict) for document in documents(file))


@pytest.mark.parametrize(
    "file", [file for file in sorted(DEPLOY.rglob("*")) if file.is_file() and file.suffix != ".json"], ids=str
)
def test_variables_exist(file: Path) -> None:
    named = set(re.findall(r"\bCONDUCTOR_[A-Z0-9_]*[A-Z0-9]\b", file.read_text("utf-8")))
    assert named - known_variables() == set()


def pods() -> list[Any]:
    return [pytest.param(pod, id=name) for name, pod in workloads().items()]


@pytest.mark.parametrize("pod", pods())
def test_pods_have_no_more_rights_than_they_need(pod: Any) -> None:
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    (container,) = pod["containers"]
    own = container["securityContext"]
    assert (own["allowPrivilegeEscalation"], own["readOnlyRootFilesystem"]) == (False, True)
    assert own["capabilities"] == {"drop": ["ALL"]}
    assert "/tmp" in [mount["mountPath"] for mount in container["volumeMounts"]], "somewhere to write beside the root"
    assert {mount["name"] for mount in container["volumeMounts"]} >= {volume["name"] for volume in pod["volumes"]}


@pytest.mark.parametrize("pod", pods())
def test_probes_ask_ports_that_are_open(pod: Any) -> None:
    (container,) = pod["containers"]
    ports = {port["name"]: str(port["containerPort"]) for port in container["ports"]}
    for name in ("readinessProbe", "livenessProbe"):
        assert ports[container[name]["httpGet"]["port"]] in container["args"]


def test_pods_containers_and_units_are_given_the_time_that_a_drain_takes() -> None:
    assert workloads()["conductor-workers"]["terminationGracePeriodSeconds"] > GRACE_S
    assert float(services()["workers"]["stop_grace_period"].removesuffix("s")) > GRACE_S
    assert float(setting(DEPLOY / "systemd" / "conductor-workers.service", "TimeoutStopSec")) > GRACE_S


def test_images_run_as_nobody_and_copy_what_is_there() -> None:
    assert dockerfile("USER", "base") == ["10001:10001"]
    for stage in ("build", "workers"):
        for copied in dockerfile("COPY", stage):
            assert [name for name in copied.split()[:-1] if not (ROOT / name).exists()] == []
    assert dockerfile("COPY", "coordinator") == [
        "--from=litestream /usr/local/bin/litestream /usr/local/bin/litestream"
    ]
    kept = (DEPLOY / "Dockerfile.dockerignore").read_text().split()
    assert {f"!{name}" for name in ("src", "pyproject.toml", "README.md", "LICENSE", "deploy/app")} <= set(kept)
    for stage in ("coordinator", "workers"):
        python, flag, program = healthcheck(stage)
        assert (python, flag) == ("python", "-c")
        ast.parse(program)
        (port,) = dockerfile("EXPOSE", stage)
        assert f":{port}/health" in program


@pytest.mark.parametrize("mounted", [mount for one in services().values() for mount in one["volumes"]], ids=str)
def test_the_mounts_of_compose_exist(mounted: str) -> None:
    source = mounted.split(":")[0]
    (compose,) = documents(DEPLOY / "compose.yaml")
    assert source in compose["volumes"] or (DEPLOY / source).is_dir()


def test_compose_opens_ports_on_this_machine_only() -> None:
    ports = [port for service in services().values() for port in service.get("ports", [])]
    assert len(ports) == 3
    assert [port for port in ports if not port.startswith("127.0.0.1:")] == []


def queries() -> set[str]:
    (scaled,) = documents(DEPLOY / "kubernetes" / "autoscaling.yaml")
    asked = " ".join(trigger["metadata"]["query"] for trigger in scaled["spec"]["triggers"])
    return set(re.findall(r"\b[a-z]+_[a-z_]+(?={)", asked))


@pytest.mark.skipif(
    importlib.util.find_spec("conductor.coordinator.server_metrics") is None,
    reason="the coordinator has no metrics here",
)
def test_autoscaling_asks_for_metrics_that_exist() -> None:
    table: Any = importlib.import_module("conductor.coordinator.server_metrics")
    assert queries() <= {metric.name for metric in table.METRICS}


def test_autoscaling_is_about_the_workers_that_are_deployed() -> None:
    (scaled,) = documents(DEPLOY / "kubernetes" / "autoscaling.yaml")
    assert scaled["spec"]["scaleTargetRef"]["name"] in workloads()
    asked = " ".join(trigger["metadata"]["query"] for trigger in scaled["spec"]["triggers"])
    named = {name for names in re.findall(r'taskType=~"([^"]+)"', asked) for name in names.split("|")}
    source = (DEPLOY / "app" / "orders.py").read_text()
    assert named == set(re.findall(r'task_definition_name="(\w+)"', source))
    assert queries() == {"coordinator_queue_depth", "coordinator_tasks_in_hand", "coordinator_queue_oldest_seconds"}


@pytest.mark.slow
def test_hadolint_has_nothing_to_say() -> None:
    subprocess.run([tool("hadolint"), str(DEPLOY / "Dockerfile")], check=True, timeout=200)


@pytest.mark.slow
def test_kubernetes_takes_the_manifests() -> None:
    manifests = [str(DEPLOY / "kubernetes" / name) for name in ("coordinator.yaml", "workers.yaml")]
    subprocess.run([tool("kubernetes-validate"), "--strict", *manifests], check=True, timeout=200)


@pytest.mark.slow
@pytest.mark.parametrize("unit", [*UNITS, DEPLOY / "systemd" / "conductor-backup.timer"], ids=lambda unit: unit.name)
def test_systemd_takes_the_units_and_finds_them_safe(unit: Path, tmp_path: Path) -> None:
    analyze = tool("systemd-analyze")
    for other in (DEPLOY / "systemd").glob("conductor-*"):
        # The program is where it is here, and so is the user: systemd looks for both.
        text = other.read_text().replace("/opt/conductor/bin/conductor-worker", str(Path(sys.executable)))
        (tmp_path / other.name).write_text(text.replace("User=conductor\n", "User=daemon\n"))
    own = tmp_path / unit.name
    ran = subprocess.run([analyze, "verify", "--man=no", str(own)], capture_output=True, text=True, timeout=200)
    assert ran.returncode == 0, ran.stderr
    assert [line for line in ran.stderr.splitlines() if unit.name in line] == []
    if unit.suffix == ".service":
        command = [analyze, "security", "--offline=true", "--threshold=20", "--no-pager", str(own)]
        assert subprocess.run(command, capture_output=True, text=True, timeout=200).returncode == 0
