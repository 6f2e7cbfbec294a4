"""Finds a JDK that is new enough and downloads the Conductor server from Maven."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.acceptance.servers.missing import Missing

#: The pinned server. Its class files need Java 21.
VERSION = "3.32.3"
COORDINATES = f"org.conductoross:conductor-server:{VERSION}:jar:boot"
JAVA_NEEDED = 21
_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
#: 460 MB on a slow line.
DOWNLOAD_TIMEOUT_S = 1800
#: From this version on a JVM can write down what it loaded and compiled, and start from that in half the time.
JAVA_WITH_AOT = 25
#: For a start with little processor time: these servers live for minutes.
FLAGS: tuple[str, ...] = ("-Xmx1g", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


@functools.cache
def find_java() -> Path:
    """The first JDK of at least Java 21: JAVA_HOME, PATH, then the usual places."""
    seen = []
    for candidate in _candidates():
        major = _major(candidate)
        if major >= JAVA_NEEDED:
            return candidate
        seen.append(f"{candidate} is Java {major}" if major else f"{candidate} does not run")
    found = "; ".join(seen) or "none was found"
    raise Missing(
        f"the real Conductor needs a JDK of Java {JAVA_NEEDED} or newer ({found}): install one, set JAVA_HOME"
    )


def _candidates() -> Iterator[Path]:
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home) / "bin" / "java"
    if on_path := shutil.which("java"):
        yield Path(on_path)
    for pattern in (
        "/usr/lib/jvm/*/bin/java",
        "/opt/*/bin/java",
        "/Library/Java/JavaVirtualMachines/*/Contents/Home/bin/java",
    ):
        yield from sorted(Path("/").glob(pattern.lstrip("/")), reverse=True)


def _major(java: Path) -> int:
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except OSError:
        return 0
    match = re.search(r'version "(\d+)', said.stderr + said.stdout)
    return int(match.group(1)) if match else 0


def cache_directory() -> Path:
    """Where downloads are kept between runs."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    directory = Path(base) / "conductor-worker"
    directory.mkdir(parents=True, exist_ok=True)
    return directory


@functools.cache
def server_jar() -> Path:
    """The server's jar with its libraries beside it, which starts in half the time of the one big file."""
    home = cache_directory() / f"conductor-server-{VERSION}"
    jar = home / f"conductor-server-{VERSION}-boot.jar"
    if not jar.exists():
        java = find_java()
        with tempfile.TemporaryDirectory(dir=home.parent) as scratch:
            big = _download(Path(scratch))
            unpacked = Path(scratch) / "unpacked"
            unpack = [str(java), "-Djarmode=tools", "-jar", str(big), "extract", "--destination", str(unpacked)]
            subprocess.run(unpack, check=True, capture_output=True, timeout=300)
            unpacked.rename(home)
    return jar


def launcher(*more: str) -> list[str]:
    """The command that starts the server, without its properties."""
    return [str(find_java()), *FLAGS, *more, "-jar", str(server_jar())]


def aot_cache() -> Path | None:
    """Where this JDK's notes on the server are, or are to be; None if it cannot take any."""
    major = _major(find_java())
    return server_jar().parent / f"java-{major}.aot" if major >= JAVA_WITH_AOT else None


def _download(directory: Path) -> Path:
    maven = shutil.which("mvn")
    if maven is None:
        raise Missing(f"Maven fetches {COORDINATES} and is not on PATH: install it (Debian: apt-get install maven)")
    command = [maven, "-B", "-q", _COPY, f"-Dartifact={COORDINATES}", f"-DoutputDirectory={directory}"]
    done = subprocess.run(
        command, cwd=directory, capture_output=True, text=True, timeout=DOWNLOAD_TIMEOUT_S, check=False
    )
    if done.returncode:
        raise Missing(f"Maven could not fetch {COORDINATES}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return directory / f"conductor-server-{VERSION}-boot.jar"
