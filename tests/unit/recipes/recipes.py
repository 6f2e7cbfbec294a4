"""The recipes of deploy/ as the tests read them: documents, command lines, probes."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
PROGRAM = "conductor-worker"


class CommandLine(NamedTuple):
    """A command of a recipe: the words after `conductor-worker`."""

    where: str
    words: list[str]

    def __str__(self) -> str:
        return f"{self.where}: {self.words[0]}"


def documents(path: Path) -> list[Any]:
    """The documents of a YAML file."""
    return list(yaml.safe_load_all(path.read_text("utf-8")))


def dockerfile(instruction: str, stage: str) -> list[str]:
    """Return the instructions of a stage of the Dockerfile: the JSON array, or the words."""
    text = (DEPLOY / "Dockerfile").read_text("utf-8").replace("\\\n", " ")
    part = re.split(r"^FROM .+ AS (\w+)$", text, flags=re.MULTILINE)
    body = dict(zip(part[1::2], part[2::2], strict=True))[stage]
    return [line.removeprefix(instruction).strip() for line in body.splitlines() if line.startswith(f"{instruction} ")]


def healthcheck(stage: str) -> list[str]:
    """The command that the image looks at its own health with."""
    found: list[str] = json.loads(dockerfile("HEALTHCHECK", stage)[0].partition("CMD ")[2])
    return found


def exec_start(unit: Path) -> list[str]:
    """The command of a systemd unit."""
    (line,) = re.findall(r"^ExecStart=(.+)$", unit.read_text("utf-8"), re.MULTILINE)
    return shlex.split(line)


def setting(unit: Path, name: str) -> str:
    """Return a setting of a systemd unit."""
    (value,) = re.findall(rf"^{name}=(.*)$", unit.read_text("utf-8"), re.MULTILINE)
    return str(value)


def services() -> dict[str, dict[str, Any]]:
    """The services of the compose file."""
    (compose,) = documents(DEPLOY / "compose.yaml")
    found: dict[str, dict[str, Any]] = compose["services"]
    return found


def workloads() -> dict[str, dict[str, Any]]:
    """Name to the pod of every workload of the Kubernetes manifests."""
    return {
        document["metadata"]["name"]: document["spec"]["template"]["spec"]
        for file in sorted((DEPLOY / "kubernetes").glob("*.yaml"))
        for document in documents(file)
        if "template" in document["spec"]
    }


def command_lines() -> Iterator[CommandLine]:
    """Return every `conductor-worker` command line in the recipes."""
    for stage in ("coordinator", "workers"):
        yield CommandLine(f"Dockerfile, {stage}", json.loads(dockerfile("CMD", stage)[0]))
    for name, service in services().items():
        if "build" in service:
            yield CommandLine(f"compose.yaml, {name}", service["command"])
    for name, pod in workloads().items():
        for container in pod["containers"]:
            yield CommandLine(f"kubernetes, {name}", container["args"])
    for unit in UNITS:
        yield CommandLine(unit.name, exec_start(unit)[1:])


def replaced(words: list[str], changes: Mapping[str, str]) -> list[str]:
    """The command with other values after some options, so that it can run here."""
    found = list(words)
    for option, value in changes.items():
        found[found.index(option) + 1] = value
    return found


def tool(name: str) -> str:
    """A program that a test needs; where it is missing the test is skipped by name, and in CI it fails."""
    places = [str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"]
    found = shutil.which(name, path=os.pathsep.join(places))
    if found is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"{name} is not installed")
    return found
