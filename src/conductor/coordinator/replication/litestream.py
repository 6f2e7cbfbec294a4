"""Litestream, the program that copies a database continuously: find it, configure it, run its commands."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from conductor.coordinator.replication.replica_url import ReplicaUrl
from conductor.coordinator.store.database_file import StoreRefused

PROGRAM = "litestream"
#: Environment variable with the path of the program.
PROGRAM_VARIABLE = "CONDUCTOR_LITESTREAM"
OLDEST_VERSION = (0, 5)
HOW_TO_INSTALL = (
    "install Litestream 0.5 or newer (https://litestream.io/install/: packages for Linux, `brew install litestream`), "
    f"or set {PROGRAM_VARIABLE} to its path"
)
#: Timeout of commands that return quickly: those that list the files of a replica or print the version.
LIST_TIMEOUT_S = 10.0
#: How far back a replica can be restored to. Older snapshots are removed.
RETENTION = "72h"
SNAPSHOT_INTERVAL = "24h"


#: The message of Litestream if a replica has no files, or none from before the requested time.
_NOTHING_TO_RESTORE = "no matching backup files"


class LitestreamFailed(Exception):
    """A command of Litestream failed. The message is its last line, without secrets."""


class NothingToRestore(LitestreamFailed):
    """The replica has no files, or none from before the requested time."""


def find_program() -> str:
    """Return the path of the program.

    Raises:
        StoreRefused: The program is not installed. The message says how to install it.
    """
    named = os.environ.get(PROGRAM_VARIABLE)
    # pip installs programs into the directory of the interpreter, which is not always in PATH.
    found = shutil.which(named or PROGRAM) or (shutil.which(PROGRAM, path=str(Path(sys.executable).parent)))
    if found is None or (named and shutil.which(named) is None):
        what = f"{PROGRAM_VARIABLE}={named} is not a program" if named else f"{PROGRAM} is not installed"
        raise StoreRefused(f"{what}, and replication needs it: {HOW_TO_INSTALL}")
    _check_version(found)
    return found


@cache
def _check_version(program: str) -> None:
    """Reject releases before 0.5, which have another format and other commands."""
    try:
        done = subprocess.run([program, "version"], capture_output=True, text=True, timeout=LIST_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise StoreRefused(f"{program} cannot be run ({error}): {HOW_TO_INSTALL}") from error
    version = re.search(r"(\d+)\.(\d+)", done.stdout)
    if version and (int(version[1]), int(version[2])) < OLDEST_VERSION:
        raise StoreRefused(f"{program} is version {version[0]}, which is too old: {HOW_TO_INSTALL}")


def write_configuration(file: Path, content: dict[str, Any]) -> None:
    """Write a configuration that only this user can read, because the URL may contain a password."""
    unfinished = file.with_name(f"{file.name}.unfinished")
    unfinished.unlink(missing_ok=True)
    handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "w") as target:
        json.dump(content, target)  # every JSON document is also YAML
    unfinished.rename(file)


def has_files(program: str, replica: ReplicaUrl) -> bool:
    """Return whether a replica exists at this URL.

    Raises:
        LitestreamFailed: The storage cannot be read.
    """
    directory = replica.directory
    if directory is not None:
        return directory.exists()
    with _temporary_configuration(replica) as (configuration, database):
        listed = _run(program, replica, ["ltx", "-json", "-level", "all", *configuration, database], LIST_TIMEOUT_S)
    try:
        return bool(json.loads(listed or "[]"))
    except ValueError:
        raise LitestreamFailed(f"the list of files that Litestream printed is not JSON: {listed[:200]}") from None


def download(program: str, replica: ReplicaUrl, target: Path, timestamp: str | None) -> None:
    """Restore a replica to a new file.

    Raises:
        NothingToRestore: The replica has no files, or none from before `timestamp`.
        LitestreamFailed: The replica cannot be read.
    """
    when = ["-timestamp", timestamp] if timestamp else []
    try:
        with _temporary_configuration(replica) as (configuration, database):
            _run(program, replica, ["restore", "-o", str(target), *when, *configuration, database], None)
    except LitestreamFailed as error:
        if _NOTHING_TO_RESTORE in str(error):
            raise NothingToRestore(str(error)) from None
        raise


@contextmanager
def _temporary_configuration(replica: ReplicaUrl) -> Iterator[tuple[list[str], str]]:
    """Yield the options for a command on one replica. The URL is in a file, so that `ps` does not show its password."""
    with tempfile.TemporaryDirectory(prefix="conductor-litestream-") as directory:
        file, database = Path(directory) / "litestream.yml", str(Path(directory) / "database")
        write_configuration(file, {"dbs": [{"path": database, "replica": replica.configuration}]})
        yield ["-config", str(file), "-no-expand-env"], database


def _run(program: str, replica: ReplicaUrl, arguments: Sequence[str], timeout_s: float | None) -> str:
    try:
        done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired:
        raise LitestreamFailed(f"no answer from {replica.shown} within {timeout_s:.0f} s") from None
    except OSError as error:
        raise LitestreamFailed(f"{program} cannot be run: {error.strerror}") from None
    if done.returncode:
        lines = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        raise LitestreamFailed(replica.hide_secrets(lines[-1] if lines else f"exit status {done.returncode}"))
    return done.stdout
