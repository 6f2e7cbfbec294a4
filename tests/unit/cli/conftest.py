"""The command line, in this process for its words, and as a program for its deeds."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
import typer.main

from conductor.cli import main

# All commands with all their options are made of functions once, not for each command that a test runs.
setattr(typer.main, "get_command", cache(typer.main.get_command))

GREETINGS = """
from conductor import worker_task


@worker_task(task_definition_name="cli_greet", thread_count=3)
def greet(name: str) -> dict:
    return {"greeting": f"Hello {name}"}


@worker_task(task_definition_name="cli_wave")
async def wave(name: str) -> str:
    return f"{name} waves"
"""


class Ran(NamedTuple):
    status: int
    out: str
    err: str


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory of the test, with a module of workers in it."""
    (tmp_path / "greetings.py").write_text(GREETINGS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def cli(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Ran]]:
    """Run a command in this process, and leave the process as it was."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(os, "environ", os.environ.copy())
    modules = set(sys.modules)

    def run(*arguments: str) -> Ran:
        capsys.readouterr()
        status = main(arguments)
        return Ran(status, *capsys.readouterr())

    yield run
    for name in set(sys.modules) - modules:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(place)):
            del sys.modules[name]
