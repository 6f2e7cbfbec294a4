"""The checks of `doctor` on this machine: the installation, the settings, the journal and the metrics directory."""

from __future__ import annotations

import errno
import os
import platform
import re
import shutil
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from conductor.cli.finding import Finding, ok, warning
from conductor.cli.server_kind import PROBE
from conductor.cli.support import find_conflict
from conductor.client.automator.adopted_journal import MAX_FILE_SHARE, AdoptedJournal
from conductor.client.automator.process_deaths import read_records
from conductor.client.telemetry.metrics_directory import MetricsDirectory, MetricsDirectoryError
from conductor.client.worker.worker_config import ResolvedConfig, find_unknown_variables
from conductor.common.clock import SYSTEM_CLOCK
from conductor.common.machine import state_directory
from conductor.protocol.why_waiting import format_duration
from conductor.version import __version__

#: For each extra, a package that belongs to it. The extra counts as installed if this package is installed.
EXTRAS = {
    "metrics": "prometheus_client",
    "server": "httptools",
    "cli": "typer",
    "watch": "watchfiles",
    "otel": "opentelemetry.sdk",
}
#: Less free space than this on a disk is a fault.
MIN_FREE_BYTES = 200 << 20
#: `doctor` lists at most this many tasks that killed their worker process.
MAX_LISTED_DEATHS = 10
#: A journal with this share of its maximum size is nearly full.
FULL_SHARE = 0.9
#: Matches a warning about a variable that may be for a single worker.
ABOUT_WORKER_VARIABLE = re.compile(r"\S+ \S+ conductor[._]worker", re.IGNORECASE)


def check_here(options: ResolvedConfig, *, checks_workers: bool) -> Iterator[Finding]:
    """Run all checks that need no server.

    Args:
        options: The options of all workers.
        checks_workers: Whether `check_workers` reports the variables of workers, because it knows their names.
    """
    yield from installation()
    yield from other_package()
    yield from variables(checks_workers)
    yield from home(options)
    yield from journal(options)
    yield from metrics_directory()


def installation() -> Iterator[Finding]:
    """Report the version and the installed extras."""
    extras = ", ".join(name for name, package in EXTRAS.items() if _is_installed(package)) or "none"
    yield ok(f"conductor-worker {__version__} on Python {platform.python_version()}, extras: {extras}")


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # the package that contains it is missing
        return False


def other_package() -> Iterator[Finding]:
    """Check that conductor-python is not installed as well, because both packages write into one directory."""
    if problem := find_conflict():
        what, _, remedy = problem.partition(": ")
        yield warning("other-package", what, remedy)


def variables(checks_workers: bool) -> Iterator[Finding]:
    """Check for misspelt environment variables."""
    for line in find_unknown_variables(os.environ, []):
        is_about_worker = bool(ABOUT_WORKER_VARIABLE.match(line))
        if is_about_worker and checks_workers:
            continue
        # The workers' modules are not loaded, so a variable of a single worker looks like a misspelt one.
        may_be_right = " (correct if it is for a single worker: check with `conductor-worker workers MODULE`)"
        yield warning(
            "variable-sets-nothing",
            line + may_be_right * is_about_worker,
            "Correct its name, or unset it.",
        )


def home(options: ResolvedConfig) -> Iterator[Finding]:
    """Check that HOME is set, because the default journal directory depends on it."""
    if not options.journal_enabled or options.journal_dir or os.environ.get("XDG_STATE_HOME"):
        return
    if not os.environ.get("HOME"):
        yield warning(
            "home-not-set",
            "HOME is not set, so the directory of the result journal is a guess",
            "Set CONDUCTOR_WORKER_JOURNAL_DIR to a directory that survives a restart.",
        )


def journal(options: ResolvedConfig) -> Iterator[Finding]:
    """Check that the result journal is on and writable, and contains no results of dead processes."""
    if not options.journal_enabled:
        yield warning(
            "journal-off",
            "the result journal is off: a result that cannot be delivered is lost with its process",
            "Unset CONDUCTOR_WORKER_JOURNAL, unless this is intended.",
        )
        return
    directory = Path(options.journal_dir or "the user's state directory")
    try:
        directory = Path(options.journal_dir) if options.journal_dir else state_directory() / "journal"
        _try_out(directory)
    except OSError as error:
        yield warning(
            "journal-not-writable",
            f"the result journal cannot be written to {directory}: {error.strerror or error}",
            "Set CONDUCTOR_WORKER_JOURNAL_DIR to another directory, or make this one writable.",
        )
        return
    yield ok(f"the result journal can be written to {directory}")
    yield from journal_room(directory, options.journal_max_bytes)
    yield from results_waiting(directory, options.journal_max_bytes)
    yield from deadly_tasks(directory)


def journal_room(directory: Path, max_bytes: int) -> Iterator[Finding]:
    """Check the free space on the disk, and the size of each journal against its maximum."""
    there = next(path for path in (directory, *directory.parents) if path.exists())
    free = shutil.disk_usage(there).free
    if free < MIN_FREE_BYTES:
        yield warning(
            "journal-disk-full",
            f"the disk of the result journal has {free >> 20} MB left ({there})",
            "Free some space, or set CONDUCTOR_WORKER_JOURNAL_DIR to a directory on another disk.",
        )
    for file in sorted(directory.glob("*.journal")):
        size = file.stat().st_size
        if size >= max_bytes * FULL_SHARE:
            yield warning(
                "journal-full",
                f"{file} has {size} of the {max_bytes} bytes that a journal may take",
                "Find out why the server accepts no results, or raise CONDUCTOR_WORKER_JOURNAL_MAX_BYTES.",
            )


def results_waiting(directory: Path, max_bytes: int) -> Iterator[Finding]:
    """Check for results and tasks of dead processes, which the next worker for the same server adopts."""
    for path in sorted(directory.glob("*.journal.too-large")):
        yield warning(
            "journal-set-aside",
            f"{path} is too large ({path.stat().st_size} bytes) and was set aside: the results in it are not sent",
            "Raise CONDUCTOR_WORKER_JOURNAL_MAX_BYTES and rename the file back to *.journal, or remove it.",
        )
    for path in sorted(directory.glob("*.journal")):
        if path.stat().st_size > MAX_FILE_SHARE * max_bytes:
            continue  # too large: the next worker renames the file and does not read it
        found = AdoptedJournal.lock(path, MAX_FILE_SHARE * max_bytes)
        if found is None:
            continue  # a running worker holds the lock of the file
        results, tasks = len(found.reports), len(found.tasks)
        found.close_file()
        if results or tasks:
            yield warning(
                "results-waiting",
                f"{results} results and {tasks} unfinished tasks of a worker that has died wait in {path}",
                "Start a worker for the same server on this machine: it delivers the results and requeues the tasks.",
            )


def deadly_tasks(directory: Path) -> Iterator[Finding]:
    """Check for tasks that were running when their worker process died."""
    now_ms = SYSTEM_CLOCK.wall_ms()
    found = sorted(read_records(directory), key=lambda record: -record.at_ms)
    culprits = [record for record in found if record.deaths]
    for record in culprits[:MAX_LISTED_DEATHS]:
        times = "once" if record.deaths == 1 else f"{record.deaths} times"
        yield warning(
            "task-kills-process",
            f"task {record.task_id} of {record.task_type} has ended its worker process {times}, last "
            f"{format_duration(now_ms - record.at_ms)} ago: {record.cause}",
            "See the worker's log, and the kernel's log if memory ran out. "
            "After poison_limit deaths, a task is not retried.",
        )
    suspects = [record for record in found if not record.deaths]
    if suspects:
        yield warning(
            "worker-process-died",
            f"{len(suspects)} tasks were running when a worker process died, last "
            f"{format_duration(now_ms - suspects[0].at_ms)} ago: {suspects[0].cause}. "
            "Each runs alone until its function returns",
            "If the process dies again, `doctor` names the task that ended it.",
        )


def metrics_directory() -> Iterator[Finding]:
    """Check that the directory of the metrics is writable, and report files that killed handlers have left in it."""
    if not find_spec("prometheus_client"):
        return
    left = _left_metrics()
    try:
        MetricsDirectory().close()
    except (MetricsDirectoryError, OSError) as error:
        where = Path(tempfile.gettempdir())
        yield warning(
            "metrics-not-writable",
            f"metrics of worker processes cannot be kept: {error}",
            f"Make {where} writable, or set TMPDIR to another directory.",
        )
        return
    if left:
        yield warning(
            "metrics-left-behind",
            f"{left} files of metrics were left behind by handlers that were killed",
            "The files have been removed now. Find out why the handlers were killed (out of memory?).",
        )


def _left_metrics() -> int:
    place = Path(tempfile.gettempdir()) / f"conductor-metrics-{os.getuid()}"
    before = set(place.glob("conductor-*")) if place.is_dir() else set()
    if not before:
        return 0
    try:
        MetricsDirectory().close()
    except (MetricsDirectoryError, OSError):
        return 0
    return sum(not path.exists() for path in before)


def _try_out(directory: Path) -> None:
    """Write, read and remove a file. Permission bits alone do not show a full disk, and do not apply to root.

    New directories are removed again, because the worker may run as another user.
    """
    missing = [path for path in (directory, *directory.parents) if not path.exists()]
    made: list[Path] = []
    try:
        for path in reversed(missing):
            path.mkdir(mode=0o700)
            made.append(path)
        with tempfile.NamedTemporaryFile(prefix="doctor-", dir=directory) as file:
            file.write(PROBE.encode())
            file.flush()
            os.fsync(file.fileno())
            if Path(file.name).read_bytes() != PROBE.encode():
                raise OSError(errno.EIO, "the file does not contain the written bytes")
    finally:
        for path in reversed(made):
            path.rmdir()
