"""Starts a small process that sends the reports of dead worker processes and requeues their tasks.

The program itself must not do that, because it can no longer fork worker processes after it has used the HTTP library.
"""

from __future__ import annotations

import asyncio
import logging
import pickle
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, NamedTuple

from conductor.client.automator.adopted_journal import adopt_files
from conductor.client.automator.delivery import Delivery
from conductor.client.automator.process_deaths import DeathRecords, judge
from conductor.client.automator.redelivery import Redelivery
from conductor.client.automator.session import make_journal
from conductor.client.event.sync_event_dispatcher import SyncEventDispatcher
from conductor.client.http.api.async_task_resource_api import AsyncTaskResourceApi
from conductor.client.http.async_api_client import AsyncApiClient
from conductor.common.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from collections.abc import Callable

    from conductor.client.automator.adopted_journal import AdoptedJournal
    from conductor.client.automator.journal import Journal
    from conductor.client.configuration.configuration import Configuration
    from conductor.client.event.task_runner_events import TaskProcessDied
    from conductor.client.worker.worker_config import ResolvedConfig

logger = logging.getLogger(__name__)


class ProcessEnd(NamedTuple):
    """How a worker process ended."""

    pid: int | None
    #: The exit code as `multiprocessing` returns it: the negative signal number if a signal killed the process.
    exit_status: int | None
    #: When the process started, in epoch milliseconds. Needed because process ids are reused.
    started_ms: int
    #: Whether the program killed the process. If so, no task is blamed for the death of the process.
    was_ordered: bool = False


class Recovery:
    """Takes over the journals of dead processes in the background, because the server may be unreachable.

    Without a journal the tasks of a dead process are unknown, and this class does nothing.
    """

    def __init__(
        self,
        configuration: Configuration,
        options: ResolvedConfig,
        on_death: Callable[[TaskProcessDied], None] | None = None,
    ) -> None:
        self._configuration = configuration
        self._options = options
        self._on_death = on_death or (lambda _event: None)
        self._process: subprocess.Popen[bytes] | None = None

    def begin(self, end: ProcessEnd) -> None:
        """Decide which tasks are blamed for the death of a process, and start to take over its journal."""
        try:
            if self._judge(end):
                self._start()
        except (OSError, pickle.PicklingError, TypeError, AttributeError) as error:
            logger.warning(
                "Tasks of a dead worker process are requeued only at the next start of the program: %s", error
            )

    def end(self, timeout_s: float) -> None:
        """Wait up to `timeout_s` for the recovery process, then kill it.

        The next recovery process, or the next start of the program, sends the reports that remain.
        """
        if self._process is None:
            return
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _start(self) -> None:
        self.end(0)  # the new process also takes over the files that an earlier one has left
        spec = pickle.dumps((self._configuration, self._options))
        command = [sys.executable, "-P", "-c", f"from {__name__} import main; main()"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE)
        assert self._process.stdin is not None  # noqa: S101
        with self._process.stdin as pipe:
            pipe.write(spec)

    def _judge(self, end: ProcessEnd) -> bool:
        """Find the tasks that killed the process. Only this process, its parent, knows its exit status.

        Returns:
            Whether there are reports to send or tasks to requeue.
        """
        journal = make_journal(self._configuration, self._options)
        found = [] if journal is None else list(adopt_files(journal))
        for file in found:
            # The file of any other dead process is judged when the supervisor notices the end of that process.
            if file.process_id == end.pid and file.written_ms >= end.started_ms:
                if end.was_ordered:
                    file.replace_tasks([])
                elif journal is not None:
                    events = judge(file, DeathRecords.of(journal), SYSTEM_CLOCK.wall_ms(), end.exit_status)
                    for event in events:
                        self._on_death(event)
            file.close_file()
        return any(file.reports or file.tasks for file in found)


def main() -> None:
    """Run the process that takes over journals. Read the configuration from standard input."""
    # Ctrl-C reaches the whole process group; the program decides when to stop.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    configuration, options = pickle.load(sys.stdin.buffer)  # noqa: S301 (from the program that started this process)
    configuration.apply_logging_config()
    journal = make_journal(configuration, options)
    if journal is not None:
        asyncio.run(_take_over(journal, configuration, options))


def list_judged_files(journal: Journal) -> list[AdoptedJournal]:
    """Adopt and return the journals of dead processes, except those whose death the program has not judged yet.

    A process may die while this one starts. Only the program, which started that process, knows the exit status.
    """
    judged = []
    for file in adopt_files(journal):
        if file.marks is None:
            judged.append(file)
        else:
            file.close_file()
    return judged


async def _take_over(journal: Journal, configuration: Configuration, options: ResolvedConfig) -> None:
    client = AsyncApiClient(configuration)
    api = AsyncTaskResourceApi(client)
    max_age_s = options.journal_max_age_seconds
    delivery, events = Delivery(api, SYSTEM_CLOCK), SyncEventDispatcher()
    work = Redelivery(journal, delivery, api, events, max_age_s=max_age_s, clock=SYSTEM_CLOCK)
    try:
        await work.take_over(list_judged_files(journal))
    finally:
        await client.close()
