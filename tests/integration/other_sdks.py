"""Other Conductor SDKs, each in its own environment under .cache/, installed once."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: Packages that do not come in this time are not to be had today.
INSTALL_TIMEOUT_S = 240
CACHE = ROOT / ".cache"
CONDUCTOR_PYTHON = "conductor-python==2.0.0"
CONDUCTOR_JAVASCRIPT = "@io-orkes/conductor-javascript@4.0.0"
CONDUCTOR_JAVA = ("org.conductoross", "conductor-client", "6.0.0")
_COPY_DEPENDENCIES = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
_POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>scenarios</groupId>
  <artifactId>scenarios</artifactId>
  <version>1</version>
  <dependencies>
    <dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>
  </dependencies>
</project>
"""


class Unavailable(Exception):
    """The SDK cannot be had on this machine, and why."""


def conductor_python() -> Path:
    """The interpreter of an environment that has conductor-python and not this package."""
    return environment("conductor-python", CONDUCTOR_PYTHON)


def environment(name: str, *packages: str) -> Path:
    """The interpreter of an environment that has these packages of the registry and not this package."""
    place = CACHE / f"{name}-venv"
    with _made_once(place, " ".join(packages)) as missing:
        if missing:
            _run(sys.executable, "-m", "venv", "--clear", place)
            _run(place / "bin" / "python", "-m", "pip", "install", "-q", *packages)
    return place / "bin" / "python"


def conductor_javascript() -> Path:
    """A directory whose node_modules has the JavaScript SDK."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        raise Unavailable("node and npm are not installed")
    place = CACHE / "conductor-javascript"
    with _made_once(place, CONDUCTOR_JAVASCRIPT) as missing:
        if missing:
            _run("npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", place, CONDUCTOR_JAVASCRIPT)
    return place


def conductor_java() -> Path:
    """The directory of the jars of the Java SDK."""
    if shutil.which("mvn") is None:
        raise Unavailable("Maven fetches the Java SDK and is not on PATH")
    place = CACHE / "conductor-java"
    with _made_once(place, ":".join(CONDUCTOR_JAVA)) as missing:
        if missing:
            shutil.rmtree(place / "lib", ignore_errors=True)
            (place / "pom.xml").write_text(_POM.format(*CONDUCTOR_JAVA))
            to = f"-DoutputDirectory={place / 'lib'}"
            _run("mvn", "-B", "-q", "-f", place / "pom.xml", _COPY_DEPENDENCIES, to)
    return place / "lib"


def late_reports_failure(url: str) -> str | None:
    """Return what is wrong with the reports that the server got for tasks of the type `late`.

    The scenario `late_result` has a worker report on a task of a terminated workflow, and then do another one. An SDK
    that takes the answer for a failure reports several times and waits in between.
    """
    with urllib.request.urlopen(f"{url}/view/queues") as answer:
        queues = json.load(answer)["queues"]
    verdicts = next((queue.get("verdicts", {}) for queue in queues if queue["name"] == "late"), None)
    return None if verdicts == {"NONE": 1, "CANCELLED": 1} else f"the verdicts on reports are {verdicts}"


@contextmanager
def _made_once(place: Path, what: str) -> Iterator[bool]:
    """True inside: it must be made now. Two processes never make it at once."""
    place.mkdir(parents=True, exist_ok=True)
    done = CACHE / f"{place.name}.installed"
    with (CACHE / f"{place.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if done.exists() and done.read_text() == what:
            yield False
            return
        yield True
        done.write_text(what)


def _run(*command: object) -> None:
    words = [str(part) for part in command]
    try:
        result = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=_environment(),
            timeout=INSTALL_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{' '.join(words)}: not done after {INSTALL_TIMEOUT_S} s") from None
    if result.returncode:
        raise Unavailable(f"{' '.join(words)}: {(result.stdout + result.stderr)[-1000:]}")


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
