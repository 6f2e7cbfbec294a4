"""The systems on which the package runs, and its errors on others."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from conductor.coordinator.store import sql

PROJECT = Path(__file__).parents[2]
#: Windows, as far as we meet it: Python has no such module there.
WITHOUT_FCNTL = "import sys; sys.modules['fcntl'] = None; "


@pytest.mark.parametrize(
    "program",
    [
        "from conductor import TaskHandler",
        "import conductor.client.automator.task_handler_asyncio",
        "import conductor.coordinator",
        "import conductor.client.telemetry.metric_file",
    ],
)
def test_windows_is_refused_by_name(program: str) -> None:
    ran = subprocess.run([sys.executable, "-c", WITHOUT_FCNTL + program], capture_output=True, text=True, timeout=120)
    assert ran.stderr.splitlines()[-1] == ("ImportError: conductor-worker runs on Linux and macOS; on Windows use WSL")


def test_the_command_line_says_it_in_one_line() -> None:
    program = WITHOUT_FCNTL + "from conductor.cli import main; sys.exit(main(['version']))"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert ran.returncode == 2
    assert ran.stderr == "conductor-worker runs on Linux and macOS; on Windows use WSL\n"


def test_the_classifiers_name_the_systems_it_runs_on() -> None:
    classifiers = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))["project"]["classifiers"]
    systems = [one.removeprefix("Operating System :: ") for one in classifiers if one.startswith("Operating System")]
    assert systems == ["MacOS", "POSIX", "POSIX :: Linux"]


#: `?1` given by a sequence is a DeprecationWarning from Python 3.12 on; `:name` given by a mapping is none.
NUMBERED = re.compile(r"\?\d")


def test_no_statement_has_numbered_parameters() -> None:
    assert NUMBERED.search("SELECT ?1")
    assert {name: text for name, text in sql.STATEMENTS.items() if NUMBERED.search(text)} == {}


def test_no_statement_written_beside_the_code_has_either() -> None:
    found = [
        f"{path.relative_to(PROJECT)}: {line.strip()}"
        for path in sorted((PROJECT / "src" / "conductor" / "coordinator").rglob("*"))
        if path.suffix in (".py", ".sql")
        for line in path.read_text("utf-8").splitlines()
        if NUMBERED.search(line)
    ]
    assert found == []
