"""A run: its contestants, rounds, work per round, and the place of its samples."""

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
        """Rounds of a part that has to be short in a quick run."""
        return 1 if self.quick else self.rounds

    def turns(self, rounds: int) -> Iterator[Contestant]:
        """Every contestant once a round, and each round begins with another: what the machine does, it does to all."""
        everybody = list(self.contestants.values())
        for number in range(rounds):
            first = number % len(everybody)
            for contestant in everybody[first:] + everybody[:first]:
                print(f"  round {number + 1} of {rounds}: {contestant.name}", flush=True)
                yield contestant

    def share(self, contestant: Contestant, count: int) -> int:
        """How much of the work: the slowest gets a tenth, or all would wait for it."""
        return count // 10 if contestant.name == CONDUCTOR_PYTHON else count
