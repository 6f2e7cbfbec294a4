"""What is wrong on this machine: the installation, the settings, the places where workers keep something."""

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

from conductor.cli.finding import Finding, well, worth_a_look
from conductor.cli.server_kind import PROBE
from conductor.cli.support import conflict
from conductor.client.automator.journal import MAX_FILE_SHARE, AdoptedJournal
from conductor.client.automator.process_deaths import read_records
from conductor.client.telemetry.metrics_directory import MetricsDirectory, MetricsDirectoryError
from conductor.client.worker.worker_config import ResolvedConfig, find_unknown_variables
from conductor.common.clock import SYSTEM_CLOCK
from conductor.common.machine import state_directory
from conductor.protocol.why_waiting import format_duration
from conductor.version import __version__

#: A package of each extra.
EXTRAS = {"metrics": "prometheus_client", "server": "httptools", "cli": "typer", "watch": "watchfiles"}
#: Less room than this on a disk is a fault.
MIN_FREE_BYTES = 200 << 20
#: At most this many tasks that have ended their process are listed.
MAX_LISTED_DEATHS = 10
#: A journal that has taken this share of what it may take is nearly full.
FULL_SHARE = 0.9
_ONE_WORKERS_OWN = re.compile(r"\S+ \S+ conductor[._]worker", re.IGNORECASE)


def check_here(options: ResolvedConfig) -> Iterator[Finding]:
    """All that can be said without a server."""
    yield from installation()
    yield from other_package()
    yield from variables()
    yield from home(options)
    yield from journal(options)
    yield from metrics_directory()


def installation() -> Iterator[Finding]:
    """What is installed."""
    extras = ", ".join(name for name, package in EXTRAS.items() if find_spec(package)) or "none"
    yield well(f"conductor-worker {__version__} on Python {platform.python_version()}, extras: {extras}")


def other_package() -> Iterator[Finding]:
    """conductor-python beside us: both write into one directory."""
    if warning := conflict():
        what, _, remedy = warning.partition(": ")
        yield worth_a_look("other-package", what, remedy)


def variables() -> Iterator[Finding]:
    """Variables that were meant to set something, and do not."""
    for line in find_unknown_variables(os.environ, []):
        # Without the workers' modules, a variable of a single worker cannot be told from a mistake.
        may_be_right = " (right if it is a worker's own: `conductor-worker workers MODULE` knows)"
        yield worth_a_look(
            "variable-sets-nothing",
            line + may_be_right * bool(_ONE_WORKERS_OWN.match(line)),
            "Correct its name, or unset it.",
        )


def home(options: ResolvedConfig) -> Iterator[Finding]:
    """Without a home the place of the journal is a guess."""
    if not options.journal_enabled or options.journal_dir or os.environ.get("XDG_STATE_HOME"):
        return
    if not os.environ.get("HOME"):
        yield worth_a_look(
            "home-not-set",
            "HOME is not set, so nothing says where results are kept that the server has not taken",
            "Set CONDUCTOR_WORKER_JOURNAL_DIR to a directory that stays.",
        )


def journal(options: ResolvedConfig) -> Iterator[Finding]:
    """Where results are kept until the server has answered."""
    if not options.journal_enabled:
        yield worth_a_look(
            "journal-off",
            "the result journal is off: a result that cannot be delivered is lost with its process",
            "Unset CONDUCTOR_WORKER_JOURNAL, unless that is meant.",
        )
        return
    directory = Path(options.journal_dir or "the user's state directory")
    try:
        directory = Path(options.journal_dir) if options.journal_dir else state_directory() / "journal"
        _try_out(directory)
    except OSError as error:
        yield worth_a_look(
            "journal-not-writable",
            f"the result journal cannot be written to {directory}: {error.strerror or error}",
            "Name another place with CONDUCTOR_WORKER_JOURNAL_DIR, or make this one writable.",
        )
        return
    yield well(f"the result journal can be written to {directory}")
    yield from journal_room(directory, options.journal_max_bytes)
    yield from results_waiting(directory, options.journal_max_bytes)
    yield from deadly_tasks(directory)


def journal_room(directory: Path, max_bytes: int) -> Iterator[Finding]:
    """Whether another result still fits in: on the disk, and into what a journal may take."""
    there = next(path for path in (directory, *directory.parents) if path.exists())
    free = shutil.disk_usage(there).free
    if free < MIN_FREE_BYTES:
        yield worth_a_look(
            "journal-disk-full",
            f"the disk of the result journal has {free >> 20} MB left ({there})",
            "Make room there, or name another place with CONDUCTOR_WORKER_JOURNAL_DIR.",
        )
    for file in sorted(directory.glob("*.journal")):
        size = file.stat().st_size
        if size >= max_bytes * FULL_SHARE:
            yield worth_a_look(
                "journal-full",
                f"{file} has {size} of the {max_bytes} bytes that a journal may take",
                "See why the server takes no results; CONDUCTOR_WORKER_JOURNAL_MAX_BYTES allows more.",
            )


def results_waiting(directory: Path, max_bytes: int) -> Iterator[Finding]:
    """Results and tasks of processes that are no more: the next worker for the same server takes care of them."""
    for path in sorted(directory.glob("*.journal.too-large")):
        yield worth_a_look(
            "journal-set-aside",
            f"{path} has {path.stat().st_size} bytes and was set aside: results in it are not sent",
            "Allow more with CONDUCTOR_WORKER_JOURNAL_MAX_BYTES and give it its name back, or remove it.",
        )
    for path in sorted(directory.glob("*.journal")):
        if path.stat().st_size > MAX_FILE_SHARE * max_bytes:
            continue  # the next worker sets it aside
        found = AdoptedJournal.lock(path, MAX_FILE_SHARE * max_bytes)
        if found is None:
            continue  # somebody is at work with it, which is as it should be
        results, tasks = len(found.reports), len(found.tasks)
        found.close_file()
        if results or tasks:
            yield worth_a_look(
                "results-waiting",
                f"{results} results and {tasks} unfinished tasks of a worker that has died wait in {path}",
                "Start a worker here for the server they are meant for: it delivers them and gives the tasks back.",
            )


def deadly_tasks(directory: Path) -> Iterator[Finding]:
    """Tasks during whose execution a worker process here has died."""
    now_ms = SYSTEM_CLOCK.wall_ms()
    found = sorted(read_records(directory), key=lambda record: -record.at_ms)
    culprits = [record for record in found if record.deaths]
    for record in culprits[:MAX_LISTED_DEATHS]:
        times = "once" if record.deaths == 1 else f"{record.deaths} times"
        yield worth_a_look(
            "task-kills-process",
            f"task {record.task_id} of {record.task_type} has ended its worker process {times}, last "
            f"{format_duration(now_ms - record.at_ms)} ago: {record.cause}",
            "See the worker's log for what its function did, and the kernel's log if memory ran out. "
            "poison_limit says after how many deaths a task is not retried.",
        )
    suspects = [record for record in found if not record.deaths]
    if suspects:
        yield worth_a_look(
            "worker-process-died",
            f"{len(suspects)} tasks were running when a worker process died, last "
            f"{format_duration(now_ms - suspects[0].at_ms)} ago: {suspects[0].cause}. "
            "Each runs alone until its function returns",
            "If the process dies again, the task that ended it is named here.",
        )


def metrics_directory() -> Iterator[Finding]:
    """Where worker processes count, for the metrics of all of them."""
    if not find_spec("prometheus_client"):
        return
    left = _left_metrics()
    try:
        MetricsDirectory().close()
    except (MetricsDirectoryError, OSError) as error:
        where = Path(tempfile.gettempdir())
        yield worth_a_look(
            "metrics-not-writable",
            f"metrics of worker processes cannot be kept: {error}",
            f"Make {where} writable, or set TMPDIR to another place.",
        )
        return
    if left:
        yield worth_a_look(
            "metrics-left-behind",
            f"{left} files of metrics were left behind by handlers that were killed",
            "They have been removed just now; see why those were killed (out of memory?).",
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
    """Write a file there, read it and remove it. Permission bits do not tell: not to root, not on a full disk.

    Directories that this made go again, for the worker may run as another user.
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
                raise OSError(errno.EIO, "what was written is not what is read")
    finally:
        for path in reversed(made):
            path.rmdir()
