"""A release: equal bytes for equal sources, only the files that belong there, and a bill of materials."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
METADATA = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))["project"]
#: The wheel and the sdist, as `python -m build --no-isolation` asks the backend for them.
BUILD = "import sys; from hatchling import build; build.build_sdist(sys.argv[1]); build.build_wheel(sys.argv[1])"


def archives(checkout: Path, umask: int, files_changed_s: int) -> dict[str, bytes]:
    """Build a copy of the project whose files have another age and other rights; name to bytes of what comes out."""
    shutil.copytree(
        PROJECT,
        checkout,
        ignore=shutil.ignore_patterns(".git", ".venv", ".*_cache", ".cache", "__pycache__", "build", "dist", "*.db*"),
    )
    for file in checkout.rglob("*"):
        os.utime(file, (files_changed_s, files_changed_s))
    out = checkout / "dist"
    out.mkdir()
    env = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
    command = [sys.executable, "-c", BUILD, str(out)]
    subprocess.run(command, cwd=checkout, env=env, umask=umask, check=True, timeout=280, capture_output=True)
    return {file.name: file.read_bytes() for file in sorted(out.iterdir())}


@pytest.mark.slow
def test_two_builds_are_byte_identical_and_hold_what_they_should(tmp_path: Path) -> None:
    first = archives(tmp_path / "here", 0o022, 1_600_000_000)
    second = archives(tmp_path / "elsewhere", 0o077, 1_650_000_000)
    assert [Path(name).suffix for name in first] == [".whl", ".gz"]
    assert list(first) == list(second)
    assert [name for name in first if first[name] != second[name]] == []
    wheel, sdist = (tmp_path / "here" / "dist" / name for name in first)
    with zipfile.ZipFile(wheel) as packed:
        assert {name.split("/")[0].split("-")[0] for name in packed.namelist()} == {"conductor", "conductor_worker"}
        assert "conductor/py.typed" in packed.namelist()
        assert any(name.startswith("conductor/coordinator/web_ui/") for name in packed.namelist())
    with tarfile.open(sdist) as source:
        inside = {name.partition("/")[2] for name in source.getnames()}
    assert {"README.md", "LICENSE", "CHANGELOG.md", "SECURITY.md", "pyproject.toml", "src/conductor/py.typed"} <= inside


def bill(**env: str) -> bytes:
    command = [sys.executable, str(PROJECT / "tools" / "sbom.py")]
    return subprocess.run(command, env={**os.environ, **env}, check=True, timeout=200, capture_output=True).stdout


def test_the_bill_of_materials_names_what_is_installed_and_nothing_of_the_developers() -> None:
    told = bill(SOURCE_DATE_EPOCH="1700000000")
    assert told == bill(SOURCE_DATE_EPOCH="1700000000", PYTHONHASHSEED="7")
    document = json.loads(told)
    assert (document["bomFormat"], document["metadata"]["component"]["name"]) == ("CycloneDX", "conductor-worker")
    assert document["metadata"]["timestamp"] == "2023-11-14T22:13:20Z"
    named = {component["name"] for component in document["components"]}
    assert {"msgspec", "pyreqwest", "typer", "httptools", "prometheus-client"} <= named
    assert named & {"pytest", "mypy", "ruff", "hatchling"} == set()
    references = {component["bom-ref"] for component in document["components"]}
    asked_for = {other for entry in document["dependencies"] for other in entry["dependsOn"]}
    assert asked_for == references


def test_the_classifiers_begin_where_the_package_does() -> None:
    versions = [line.rpartition(" :: ")[2] for line in METADATA["classifiers"] if "Python :: 3." in line]
    assert METADATA["requires-python"] == f">={versions[0]}"
    assert versions == sorted(versions, key=lambda version: int(version.split(".")[1]))
