"""Attacks on the processes and disks of a run while they work: one after the other, in a thread."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from .disks import Disk
from .processes import CoordinatorProcess, WorkerProgram
from .server import RESPONSE_TIMEOUT_S, Server

#: Time for a process to notice a full disk: it notices at its next write.
NOTICE_S = 10.0
#: After each attack, terminate one workflow out of this number, and at most a few.
TERMINATED_SHARE, TERMINATED_MOST = 500, 5
#: A process is stopped for up to this long: longer than leases are.
LONGEST_STOP_S = 1.6 * RESPONSE_TIMEOUT_S


@dataclass
class Targets:
    """The targets of the attacks."""

    server: Server
    coordinator: CoordinatorProcess
    programs: Sequence[WorkerProgram]
    #: None: cannot be filled here.
    coordinator_disk: Disk | None = None
    journal_disk: Disk | None = None


class Attacks:
    """Attacks for the block. `calm_s` is the time between two attacks, `most` how many there are."""

    def __init__(self, targets: Targets, rng: random.Random, calm_s: tuple[float, float], most: int) -> None:
        self._targets = targets
        self._seeds = self._rng = rng
        self._calm_s = calm_s
        self._most = most
        #: Number of attacks by kind, and number of failed writes to a full disk.
        self.counts: Counter[str] = Counter()
        self.full_disks_noticed = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work)
        self._failure: BaseException | None = None
        #: The attacks and their probabilities.
        self._kinds: dict[str, tuple[Callable[[], None], int]] = {
            "coordinator killed": (self._kill_coordinator, 3),
            "worker process killed": (self._kill_worker, 4),
            "worker process stopped": (self._stop_worker, 2),
            "coordinator stopped": (self._stop_coordinator, 1),
            "worker program drained": (self._drain_worker, 2),
        }
        if targets.coordinator_disk is not None:
            self._kinds["disk of the coordinator full"] = self._fill_coordinator, 1
        if targets.journal_disk is not None:
            self._kinds["disk of the journals full"] = self._fill_journals, 1

    def __enter__(self) -> Attacks:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self.check()

    def check(self) -> None:
        """Raise what ended the attacks too early, if something did."""
        if self._failure is not None:
            raise self._failure

    def _work(self) -> None:
        try:
            for number in range(self._most):
                name = self.choose(number)
                if self._over.wait(self._rng.uniform(*self._calm_s)):
                    return
                self._kinds[name][0]()
                self.counts[name] += 1
                self._terminate_some()
        except BaseException as error:
            self._failure = error

    def choose(self, number: int) -> str:
        """The next attack. Each kind once, and from then on as chance has it: a short run meets them all, too."""
        # Chance of its own: how often an attack draws depends on what it meets, and must not change the next one.
        self._rng = random.Random(self._seeds.random())
        names = list(self._kinds)
        weights = [weight for _, weight in self._kinds.values()]
        return names[number] if number < len(names) else self._rng.choices(names, weights)[0]

    def _draw(self, count: int) -> int:
        return int(self._rng.random() * count)

    def _kill_coordinator(self) -> None:
        self._targets.coordinator.kill()
        time.sleep(self._rng.uniform(0, 1))
        self._targets.coordinator.start()

    def _stop_coordinator(self) -> None:
        pid = self._targets.coordinator.pid
        os.kill(pid, signal.SIGSTOP)
        time.sleep(self._rng.uniform(0, LONGEST_STOP_S))
        os.kill(pid, signal.SIGCONT)

    def _fill_coordinator(self) -> None:
        disk, coordinator = self._targets.coordinator_disk, self._targets.coordinator
        assert disk is not None
        killed_meanwhile, seconds = self._rng.random() < 0.3, self._rng.uniform(0, 1)
        disk.fill()
        try:
            self._wait_for("could not be written", coordinator.log)
            time.sleep(seconds)
            if killed_meanwhile:
                coordinator.kill()
                self.counts["coordinator killed"] += 1
        finally:
            disk.free()
        if killed_meanwhile:
            coordinator.start()

    def _fill_journals(self) -> None:
        assert self._targets.journal_disk is not None
        seconds = self._rng.uniform(0, 1)
        self._targets.journal_disk.fill()
        try:
            self._wait_for("cannot be written", *(program.log for program in self._targets.programs))
            time.sleep(seconds)
        finally:
            self._targets.journal_disk.free()

    def _wait_for(self, text: str, *logs: Path) -> None:
        """Wait until one of these logs reports another failed write, or no process had anything to write."""
        read, ends = {log: log.stat().st_size for log in logs}, time.monotonic() + NOTICE_S
        while not any(text in _since(at, log) for log, at in read.items()):
            if time.monotonic() > ends:
                return
            time.sleep(0.05)
        self.full_disks_noticed += 1

    def _kill_worker(self) -> None:
        self._program().kill_one(self._rng)

    def _stop_worker(self) -> None:
        self._program().stop_one(self._rng, self._rng.uniform(0, LONGEST_STOP_S))

    def _drain_worker(self) -> None:
        program = self._program()
        program.drain()
        program.start()

    def _program(self) -> WorkerProgram:
        return self._targets.programs[self._draw(len(self._targets.programs))]

    def _terminate_some(self) -> None:
        started = list(self._targets.server.jobs.values())
        count = min(len(started), max(1, len(started) // TERMINATED_SHARE), TERMINATED_MOST)
        for id_ in self._rng.sample(started, count):
            self._targets.server.terminate(id_)


def _since(at: int, log: Path) -> str:
    with log.open("rb") as file:
        file.seek(at)
        return file.read().decode(errors="replace")
