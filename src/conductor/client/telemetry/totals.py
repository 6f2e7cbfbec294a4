"""The numbers of many processes, added up."""

from __future__ import annotations

import operator
from collections.abc import Iterable

from conductor.client.telemetry.metric_file import Key, Payload, Record

#: Bucket counts by minute.
Minutes = dict[int, list[int]]


class Totals:
    """Sums by key. Counters and sketches of ended processes stay in them; gauges and texts do not."""

    def __init__(self) -> None:
        self.counters: dict[Key, float] = {}
        self.gauges: dict[Key, float] = {}
        self.sketches: dict[Key, Minutes] = {}

    def add(self, records: Iterable[Record]) -> None:
        """Add the numbers of a live process."""
        for record in records:
            if record.kind is Payload.COUNTER:
                self.counters[record.key] = self.counters.get(record.key, 0.0) + record.number()
            elif record.kind is Payload.GAUGE:
                self.gauges[record.key] = self.gauges.get(record.key, 0.0) + record.number()
            elif record.kind is Payload.SKETCH:
                self._add_sketch(record)

    def add_ended(self, records: Iterable[Record]) -> None:
        """Add what remains of an ended process."""
        self.add(record for record in records if record.kind is not Payload.GAUGE)

    def copy(self) -> Totals:
        """One to add to while this one stays as it is."""
        twin = Totals()
        twin.counters, twin.gauges = dict(self.counters), dict(self.gauges)
        twin.sketches = {key: dict(minutes) for key, minutes in self.sketches.items()}
        return twin

    def forget_before(self, minute: int) -> None:
        """Drop the buckets of older minutes."""
        for minutes in self.sketches.values():
            for old in [m for m in minutes if m < minute]:
                del minutes[old]

    def recent(self, key: Key, since_minute: int) -> list[int]:
        """The bucket counts of a sketch since that minute."""
        counts: list[int] = []
        for minute, window in self.sketches.get(key, {}).items():
            if minute >= since_minute:
                counts = _sum(counts, window)
        return counts

    def _add_sketch(self, record: Record) -> None:
        minutes = self.sketches.setdefault(record.key, {})
        for minute, window in record.windows():
            # Never in place: a copy of these totals may share the list.
            minutes[minute] = _sum(minutes.get(minute, []), window)


def _sum(left: list[int], right: list[int]) -> list[int]:
    return list(map(operator.add, left, right)) if left else right
