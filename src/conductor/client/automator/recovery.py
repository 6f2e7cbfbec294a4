"""What the dead worker processes of a program left: delivered and given back by a small process of its own.

Not by the program itself: one that has used the HTTP library cannot fork worker processes any more.
"""

from __future__ import annotations

import asyncio
import logging
import pickle
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, NamedTuple

from conductor.client.automator.delivery import Delivery
from conductor.client.automator.process_deaths import DeathRecords, judge
from conductor.client.automator.redelivery import Redelivery
from conductor.client.automator.session import journal_of
from conductor.client.event.sync_event_dispatcher import SyncEventDispatcher
from conductor.client.http.api.async_task_resource_api import AsyncTaskResourceApi
from conductor.client.http.async_api_client import AsyncApiClient
from conductor.common.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from collections.abc import Callable

    from conductor.client.automator.journal import AdoptedFile, Journal
    from conductor.client.configuration.configuration import Configuration
    from conductor.client.event.task_runner_events import TaskProcessDied
    from conductor.client.worker.worker_config import ResolvedConfig

logger = logging.getLogger(__name__)


class ProcessEnd(NamedTuple):
    """How a worker process ended."""

    pid: int | None
    #: As `multiprocessing` gives it: negative for a signal.
    exit_status: int | None
    #: When it was started, in epoch milliseconds: process ids come again.
    started_ms: int
    #: Whether the program has killed it itself: then no task is blamed.
    was_ordered: bool = False


class Recovery:
    """Has the journals of dead processes taken over, and waits for nothing: the server may be away.

    Without a journal nobody knows what a process had in hand, and nothing happens here.
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
        """A process has died: judge its tasks, and have what it left taken over. Returns at once."""
        try:
            if self._judge(end):
                self._start()
        except (OSError, pickle.PicklingError, TypeError, AttributeError) as error:
            logger.warning("What a dead worker process left is not given back before the next start: %s", error)

    def end(self, timeout_s: float) -> None:
        """Give it this long to finish; what is left then is the next program's."""
        if self._process is None:
            return
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _start(self) -> None:
        self.end(0)  # one that waits for a server that is away: the next one takes all
        spec = pickle.dumps((self._configuration, self._options))
        command = [sys.executable, "-P", "-c", f"from {__name__} import main; main()"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE)
        assert self._process.stdin is not None  # noqa: S101
        with self._process.stdin as pipe:
            pipe.write(spec)

    def _judge(self, end: ProcessEnd) -> bool:
        """Find the tasks that the process died of: only here its exit status is known. Return whether it left any."""
        journal = journal_of(self._configuration, self._options)
        found = [] if journal is None else list(journal.adopt())
        for file in found:
            # Another process of this program may have died, too: its own end judges it.
            if file.process_id == end.pid and file.written_ms >= end.started_ms:
                if end.was_ordered:
                    file.judge([])
                elif journal is not None:
                    events = judge(file, DeathRecords.of(journal), SYSTEM_CLOCK.wall_ms(), end.exit_status)
                    for event in events:
                        self._on_death(event)
            file.let_go()
        return any(file.entries or file.in_hand for file in found)


def main() -> None:
    """The process that takes over. What to do comes from its standard input."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the program decides
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    configuration, options = pickle.load(sys.stdin.buffer)  # noqa: S301 (from the program that started us)
    configuration.apply_logging_config()
    journal = journal_of(configuration, options)
    if journal is not None:
        asyncio.run(_take_over(journal, configuration, options))


def judged_files(journal: Journal) -> list[AdoptedFile]:
    """Adopt the journals of dead processes, except those whose death the program has yet to judge.

    A process may die while this one starts. Only the program knows its exit status.
    """
    judged = []
    for file in journal.adopt():
        if file.marks is None:
            judged.append(file)
        else:
            file.let_go()
    return judged


async def _take_over(journal: Journal, configuration: Configuration, options: ResolvedConfig) -> None:
    client = AsyncApiClient(configuration)
    api = AsyncTaskResourceApi(client)
    max_age_s = options.journal_max_age_seconds
    delivery, events = Delivery(api, SYSTEM_CLOCK), SyncEventDispatcher()
    work = Redelivery(journal, delivery, api, events, max_age_s=max_age_s, clock=SYSTEM_CLOCK)
    try:
        await work.take_over(judged_files(journal))
    finally:
        await client.close()
