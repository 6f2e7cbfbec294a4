"""The numbers of many processes, added up."""

from __future__ import annotations

from collections.abc import Iterable

from conductor.client.telemetry.metric_file import Key, Payload, Record
from conductor.client.telemetry.sketch import Spread, merge

#: Spreads by minute.
Minutes = dict[int, Spread]


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
        """Drop the spreads of older minutes."""
        for minutes in self.sketches.values():
            for old in [m for m in minutes if m < minute]:
                del minutes[old]

    def recent(self, key: Key, since_minute: int) -> Spread:
        """The spread of a sketch's values since that minute."""
        return merge(spread for minute, spread in self.sketches.get(key, {}).items() if minute >= since_minute)

    def _add_sketch(self, record: Record) -> None:
        minutes = self.sketches.setdefault(record.key, {})
        for minute, spread in record.windows():
            # Never in place: a copy of these totals may share it.
            minutes[minute] = merge((minutes[minute], spread)) if minute in minutes else spread
