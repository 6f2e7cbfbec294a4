"""The order in which a replay returns recorded steps, and the detection that a program has settled.

A replay returns recorded steps in the order in which they had ended, and new steps begin afterwards. So the branches
of a program meet in the same order as before: for example, the recorded failure of one branch cancels another branch
at the same step.

A program has settled when no branch has begun or ended an operation for `SETTLE_ROUNDS` rounds of the event loop. The
replay then assumes that all branches wait.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import threading
from collections.abc import Callable

from conductor.durable.values import is_cancelled
from conductor.protocol.steps import CANCELLED_PREFIX, Step, StepKey, StepState

#: The program has settled if the event loop has run this many rounds without a change, so that a branch that was just
#: resumed can begin its next step. Each nested `gather` takes two rounds to return to its caller.
SETTLE_ROUNDS = 50


class Activity:
    """Counts the operations in progress that are not waits.

    The lock protects all state of a run, because the thread of a `def` and the event loop use it.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.lock = threading.RLock()
        self.loop = loop
        self.operations = 0
        self._changes = 0

    def begin(self) -> None:
        """Count an operation that begins, or continues after a wait."""
        with self.lock:
            self.operations += 1
            self._changes += 1

    def end(self) -> None:
        """Count an operation that ends, or waits."""
        with self.lock:
            self.operations -= 1
            self._changes += 1

    def call_when_settled(self, callback: Callable[[], None]) -> None:
        """Call a function, holding the lock, after `SETTLE_ROUNDS` rounds of the event loop without a change."""
        self.loop.call_soon(self._count_rounds, callback, SETTLE_ROUNDS, self._changes)

    def _count_rounds(self, callback: Callable[[], None], rounds: int, changes: int) -> None:
        with self.lock:
            if changes != self._changes:
                rounds, changes = SETTLE_ROUNDS, self._changes
            if rounds == 0:
                callback()
                return
        self.loop.call_soon(self._count_rounds, callback, rounds - 1, changes)


class ReplayOrder:
    """Lets the operations of a replay continue in the order in which the recorded steps had ended."""

    def __init__(self, activity: Activity) -> None:
        self._activity = activity
        #: Whether recorded steps are left whose turn has not come.
        self.is_replaying = False
        #: The place of each recorded step in the order.
        self._places: dict[StepKey, int] = {}
        #: The places of new steps, after those of the recorded steps.
        self._new_places = itertools.count()
        #: The place whose turn it is.
        self._place = 0
        #: The branches that wait for their turns, by place.
        self._turns: dict[int, asyncio.Future[None]] = {}
        self._failed: set[StepKey] = set()
        #: Whether `_give_next_turn` is scheduled.
        self._is_watching = False
        #: Done when the branches have reacted to the latest failure of a new step; None before the first failure.
        self._reaction: asyncio.Future[None] | None = None

    def begin(self, steps: list[Step]) -> None:
        """Begin the replay of the recorded steps."""
        keys = {(step.name, step.number) for step in steps}
        # A wait that is not over, and a step that the program had cancelled, have no place in the order.
        order = sorted(
            (
                step
                for step in steps
                if step.state is not StepState.WAITING
                and not is_cancelled(step)
                and (CANCELLED_PREFIX + step.name, step.number) not in keys
            ),
            key=_get_end,
        )
        self._places = {(step.name, step.number): place for place, step in enumerate(order)}
        self._new_places = itertools.count(len(order))
        self._failed = {(step.name, step.number) for step in order if step.state is StepState.FAILED}
        self.is_replaying = bool(steps)

    def take_free_turn(self, key: StepKey) -> bool:
        """Take the turn of a recorded step at once. Return False if another step comes first, or if a branch waits."""
        with self._activity.lock:
            if self._turns or self._places.get(key) != self._place or key in self._failed:
                return False
            self._place += 1
            return True

    async def take_turn(self, key: StepKey) -> None:
        """Wait until the steps that had ended before this one have been replayed. A new step waits for all of them."""
        known = self._places.get(key)
        place = next(self._new_places) if known is None else known
        if known is None or place > self._place:
            turn = self._turns[place] = self._activity.loop.create_future()
            if not self._is_watching:
                self._is_watching = True
                self._activity.call_when_settled(self._give_next_turn)
            with self._activity.lock:
                self._activity.operations += 1
            try:
                await turn
            finally:
                del self._turns[place]
                with self._activity.lock:
                    self._activity.operations -= 1
        # After a failure, `_give_next_turn` gives the next turn when the other branches have reacted to the failure.
        if known is not None and key not in self._failed:
            with self._activity.lock:
                self._place = max(self._place, place + 1)
            if (next_turn := self._turns.get(self._place)) is not None:
                set_done(next_turn)

    async def take_failure_turn(self) -> None:
        """Wait until the other branches have reacted to the failure before this one, as they do on a replay."""
        while self._reaction is not None and not self._reaction.done():
            await asyncio.wait([self._reaction])
        self._reaction = self._activity.loop.create_future()
        self._activity.call_when_settled(functools.partial(set_done, self._reaction))

    def _give_next_turn(self) -> None:
        """Give the turn to the next branch that waits, because the program has settled."""
        waiting = [place for place, turn in self._turns.items() if not turn.done()]
        self._place = min(waiting, default=len(self._places))
        self._is_watching = self.is_replaying = self._place < len(self._places)
        if self.is_replaying:
            set_done(self._turns[self._place])
            self._activity.call_when_settled(self._give_next_turn)
        else:
            for turn in self._turns.values():
                set_done(turn)


def set_done(future: asyncio.Future[None]) -> None:
    """End a wait, unless it has ended."""
    if not future.done():
        future.set_result(None)


def _get_end(step: Step) -> int:
    """Return when a step had ended. For a sleep, return its due time, because its end may be recorded later."""
    return min((at for at in (step.ended_at, step.due_at) if at is not None), default=0)
