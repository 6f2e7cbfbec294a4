"""`conductor-worker init`: a new project runs without changes."""

from __future__ import annotations

import signal
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from conductor.testing import ConductorStub
from tests.unit.cli.program import CLI, CONSOLE_SCRIPT, DEADLINE_S, Program
from tests.unit.cli.terminal import Terminal


def test_the_tests_of_a_new_project_pass_without_a_server(cli: Any, place: Path) -> None:
    ran = cli("init", "my-shop")
    assert ran.status == 0
    assert "conductor-worker dev my_shop" in ran.out
    project = place / "my-shop"
    assert tomllib.loads((project / "pyproject.toml").read_text())["project"]["name"] == "my-shop"
    assert "USER worker" in (project / "Dockerfile").read_text()
    assert "run my_shop" in (project / "my-shop.service").read_text()
    assert [file for file in project.rglob("*") if file.is_file() and "{{" in file.read_text()] == []
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:asyncio"],
        cwd=project,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert "3 passed" in tested.stdout, tested.stdout + tested.stderr


def test_init_overwrites_nothing(cli: Any, place: Path) -> None:
    (place / "shop").mkdir()
    assert cli("init", "shop").status == 0, "an empty directory is no loss"
    before = {file: file.read_bytes() for file in (place / "shop").rglob("*") if file.is_file()}
    ran = cli("init", "shop")
    assert ran.status == 2
    assert "is not overwritten" in ran.err
    assert {file: file.read_bytes() for file in before} == before
    assert cli("init", "greetings.py/shop").status == 2


@pytest.mark.parametrize("name", ["2nd", "a b", "json", "conductor", "class", "..", "--", "shop\x1b[31m"])
def test_a_name_that_cannot_be_imported_is_refused(cli: Any, place: Path, name: str) -> None:
    before = sorted(place.iterdir())
    ran = cli("init", name)
    assert ran.status == 2
    assert "\x1b" not in ran.err
    assert sorted(place.iterdir()) == before


@pytest.mark.slow
def test_a_new_project_runs_under_dev_and_under_run(cli: Any, place: Path) -> None:
    assert cli("init", "shop").status == 0
    with Terminal([*CONSOLE_SCRIPT, "dev", "shop", "--port", "0"], place / "shop") as terminal:
        terminal.wait_for("Workflows that can be started: shop_order")
        terminal.wait_for("""workflow start shop_order --input '{"order": ...}' --wait""")
        terminal.wait_for("Ready in ")
        terminal.interrupt()
        assert terminal.wait() == 0
    with ConductorStub() as server:
        server.add_task("shop_pay", {"amount": 5})
        with Program([*CLI, "run", "shop", "--url", server.url], place / "shop") as program:
            assert server.wait_results(1, timeout=DEADLINE_S)[0]["outputData"] == {"result": "R-500"}
            program.send(signal.SIGTERM)
            assert program.wait() == 0
