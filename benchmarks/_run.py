"""The parameters of a run: its contestants, its rounds, the work per round, and the object that collects samples."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks._figures import Figures
from benchmarks._rivals import CONDUCTOR_PYTHON, Contestant


@dataclass(frozen=True)
class Run:
    """The parameters of every part of the suite."""

    figures: Figures
    contestants: dict[str, Contestant]
    rounds: int
    quick: bool

    @property
    def few(self) -> int:
        """The number of rounds of a slow part, which has only one round in a quick run."""
        return 1 if self.quick else self.rounds

    def turns(self, rounds: int) -> Iterator[Contestant]:
        """Yield each contestant once per round. Each round begins with another one, so that the order favours none."""
        everybody = list(self.contestants.values())
        for number in range(rounds):
            first = number % len(everybody)
            for contestant in everybody[first:] + everybody[:first]:
                print(f"  round {number + 1} of {rounds}: {contestant.name}", flush=True)
                yield contestant

    def share(self, contestant: Contestant, count: int) -> int:
        """Return the number of tasks for a contestant: a tenth for conductor-python, because it is the slowest."""
        return count // 10 if contestant.name == CONDUCTOR_PYTHON else count
