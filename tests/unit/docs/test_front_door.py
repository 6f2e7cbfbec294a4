"""`make demo` and `make test` on a fresh machine: each installs what it needs, and no more."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def steps(checkout: Path, *targets: str) -> str:
    """Return the commands that make would run."""
    command = ["make", "--no-print-directory", "-n", *targets, f"PYTHON={sys.executable}"]
    # The suite may itself run under make, whose variables would make this one a part of it.
    own = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS", "ARGS"))}
    return subprocess.run(
        command, cwd=checkout, env=own, capture_output=True, text=True, timeout=240, check=True
    ).stdout


def test_the_demo_installs_what_users_get_and_no_tools_of_developers(checkout: Path) -> None:
    asked = steps(checkout, "demo")
    assert "pip install" in asked
    assert "'.[all]'" in asked
    assert "--group" not in asked
    assert "dev" not in asked.replace("/dev/null", "")


def test_the_tests_install_the_tools_also_after_a_demo(checkout: Path) -> None:
    asked = steps(checkout, "demo", "test")
    assert asked.index("-e '.[all]'\n") < asked.index("--group dev") < asked.index("-m pytest")


def test_the_tools_are_no_extra_that_users_see(checkout: Path) -> None:
    project = tomllib.loads((checkout / "pyproject.toml").read_text())
    extras = {"metrics", "server", "cli", "watch", "otel", "pydantic-ai", "openai-agents", "all"}
    assert set(project["project"]["optional-dependencies"]) == extras
    assert any(str(tool).startswith("pytest") for tool in project["dependency-groups"]["dev"])


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "docs/quickstart.md"])
def test_how_to_install_from_a_checkout_is_said(page: str) -> None:
    assert "pip install '.[all]'" in (ROOT / page).read_text()


def test_the_readme_is_short_enough_to_read_at_once() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 120
