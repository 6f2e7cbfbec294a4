"""`.ci/run` with a scripted `make`: where it runs the fast suite, and which suites it tries a second time."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / ".ci" / "run"
#: Write down each call, and fail as often as FAILURES says for the target.
MAKE = """import json, os, pathlib, stat, sys
target, place = sys.argv[1], pathlib.Path.cwd()
control = pathlib.Path(__file__).with_name("control.json")
state = json.loads(control.read_text())
state["calls"].append({
    "words": sys.argv[1:], "place": str(place), "mode": stat.S_IMODE(place.stat().st_mode), "names": sorted(os.environ),
    "files": sorted(os.listdir(place)),
})
failed = state["failures"].get(target, 0) > 0
state["failures"][target] = state["failures"].get(target, 0) - 1
control.write_text(json.dumps(state))
cache = place / ".pytest_cache" / "v" / "cache"
cache.mkdir(parents=True, exist_ok=True)
if failed and state["reported"]:
    (cache / "lastfailed").write_text(json.dumps(dict.fromkeys(state["reported"], True)))
sys.exit(2 if failed else 0)
"""
NOTHING = "#!/bin/sh\nexit 0\n"


class Checkout:
    """A small checkout with the script in it, and a PATH on which `make` and `apt-get` are ours."""

    def __init__(self, directory: Path) -> None:
        self.root, self.bin = directory / "checkout", directory / "bin"
        shutil.copytree(SCRIPT.parent, self.root / ".ci")
        (self.root / "Makefile").write_text("")
        (self.root / ".venv" / "bin").mkdir(parents=True)
        self._program(
            self.root / ".venv" / "bin" / "python", f'#!/bin/sh\n[ "$1" = - ] || exit 0\nexec "{sys.executable}" -\n'
        )
        self.bin.mkdir()
        # A shell starts it: the path of a private checkout may have a space, and `#!` allows none.
        (self.bin / "make.py").write_text(MAKE)
        self._program(self.bin / "make", f'#!/bin/sh\nexec "{sys.executable}" "{self.bin}/make.py" "$@"\n')
        self._program(self.bin / "apt-get", NOTHING)

    def _program(self, path: Path, text: str) -> None:
        path.write_text(text)
        path.chmod(0o755)

    def run(self, failures: dict[str, int], *reported: str) -> tuple[int, str, list[dict[str, Any]]]:
        """Run the script; return its status, its output and the calls of make."""
        control = self.bin / "control.json"
        control.write_text(json.dumps({"failures": failures, "reported": reported, "calls": []}))
        ran = subprocess.run(
            [self.root / ".ci" / "run"],
            env={**os.environ, "PATH": f"{self.bin}:{os.defpath}", "TMPDIR": str(self.bin), "SECRET_OF_CI": "1"},
            capture_output=True,
            text=True,
            timeout=280,
        )
        return ran.returncode, ran.stdout + ran.stderr, json.loads(control.read_text())["calls"]


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_the_fast_suite_and_the_demo_run_in_a_private_directory_with_an_empty_environment_c12(
    checkout: Checkout,
) -> None:
    status, output, calls = checkout.run({})
    assert status == 0, output
    for target in ("test", "demo"):
        (call,) = [call for call in calls if call["words"] == [target]]
        assert call["mode"] == 0o700
        assert " " in call["place"]
        assert call["place"] != str(checkout.root)
        assert {"Makefile", ".ci"} <= set(call["files"])
        assert ".venv" not in call["files"], "nothing that was installed elsewhere"
        assert {"PATH", "HOME", "CI"} <= set(call["names"])
        assert "SECRET_OF_CI" not in call["names"]
        assert not Path(call["place"]).exists(), "the copy is removed"


def test_the_fast_suite_has_no_second_try_c12(checkout: Checkout) -> None:
    status, output, calls = checkout.run({"test": 1}, "tests/unit/test_a.py::test_b")
    assert status != 0
    assert [call["words"][0] for call in calls] == ["setup", "test"]
    assert "everything passed" not in output


def test_a_slow_test_that_is_tried_again_is_named_c12(checkout: Checkout) -> None:
    failed = ("tests/a.py::test_one[x y]", "tests/a.py::test_two")
    status, output, calls = checkout.run({"test-slow": 1}, *failed)
    assert status == 0, output
    assert "second try of 2 tests: make test-slow\ntests/a.py::test_one[x y]\ntests/a.py::test_two\n" in output
    words = [call["words"] for call in calls if call["words"][0] == "test-slow"]
    assert words == [
        ["test-slow", "ARGS=--cache-clear"],
        ["test-slow", "ARGS=--last-failed --last-failed-no-failures none"],
    ]


def test_a_slow_test_that_fails_twice_fails_the_run_c12(checkout: Checkout) -> None:
    assert checkout.run({"test-slow": 2}, "tests/a.py::test_one")[0] != 0


def test_a_slow_suite_that_names_no_failed_test_fails_the_run_c12(checkout: Checkout) -> None:
    status, output, calls = checkout.run({"test-slow": 1})
    assert status != 0
    assert "no second try" in output
    assert len([call for call in calls if call["words"][0] == "test-slow"]) == 1
