"""The due times of cron expressions.

`cron_of_conductor.json` has what a Conductor 3.32.3 answered: the next five moments from a start time in UTC, the
expressions that it refused, and the first moment from a start time in a zone, mostly where its clocks are set.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conductor.coordinator.language.cron import Cron, CronError, read_zone

REAL: dict[str, Any] = json.loads(Path(__file__).with_name("cron_of_conductor.json").read_text())
BERLIN = ZoneInfo("Europe/Berlin")

#: Where the real server is at fault: it answered the same moment again and again, or a date that is never there.
FAULTS = {"0 0 0 L-30 * *", "0 0 0 L-31 * *", "0 0 0 * * MON#6"}
#: At the end of summer time in Havana 00:45 is twice; the real server finds only the second.
MISSED = ["0 45 0 * * *", "America/Havana", 1856926860000, 1857015900000]


def following(expression: str, after_ms: int, zone: Any = UTC, count: int = 5) -> list[int]:
    cron = Cron(expression)
    found: list[int] = []
    while len(found) < count and (due_ms := cron.next(after_ms, zone)) is not None:
        found.append(due_ms)
        after_ms = due_ms
    return found


def at(text: str, zone: Any = UTC) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=zone).timestamp() * 1000)


class TestAsConductor:
    def test_the_next_moments_are_those_of_conductor(self) -> None:
        different = {
            expression: (starts_ms, found, real)
            for expression, starts_ms, real in REAL["next"]
            if expression not in FAULTS and (found := following(expression, starts_ms - 1)) != real
        }
        assert different == {}

    @pytest.mark.parametrize("expression", REAL["refused"])
    def test_an_expression_that_conductor_refuses_is_refused_with_a_reason(self, expression: str) -> None:
        with pytest.raises(CronError, match="cron expression"):
            Cron(expression)

    def test_the_moments_in_zones_are_those_of_conductor(self) -> None:
        different = [
            [expression, zone, starts_ms, real]
            for expression, zone, starts_ms, real in REAL["zoned"]
            if Cron(expression).next(starts_ms - 1, ZoneInfo(zone)) != real
        ]
        assert different == [MISSED]


class TestClocksThatAreSet:
    def test_a_time_that_the_clock_skips_is_not_due_that_day(self) -> None:
        found = following("0 30 2 * * *", at("2027-03-27T12:00", BERLIN), BERLIN, 1)
        assert found == [at("2027-03-29T02:30", BERLIN)]

    def test_a_time_that_the_clock_shows_twice_is_due_twice(self) -> None:
        first, second = following("0 30 2 * * *", at("2027-10-30T12:00", BERLIN), BERLIN, 2)
        assert second - first == 3_600_000

    def test_the_search_for_a_time_that_the_clock_always_skips_ends(self) -> None:
        """A request that asks for its due times must not stop the coordinator."""

        class CountingCron(Cron):
            searches = 0

            def _next_local(self, local: datetime) -> datetime | None:
                self.searches += 1
                return super()._next_local(local)

        cron = CountingCron("0 30 2 ? 3 SUN#2")
        assert cron.next(at("2026-11-19T00:00"), ZoneInfo("America/New_York")) is None
        assert cron.searches < 500
        assert cron.next(at("2026-11-19T00:00"), UTC) == at("2027-03-14T02:30")

    def test_every_twenty_minutes_goes_on_across_both_changes(self) -> None:
        for day in ("2027-03-28T00:00", "2027-10-31T00:00"):
            found = following("0 */20 * * * *", at(day, BERLIN), BERLIN, 20)
            assert {later - earlier for earlier, later in zip(found, found[1:], strict=False)} == {1_200_000}


class TestDates:
    @pytest.mark.parametrize("expression", ["0 0 0 30 2 *", "0 0 0 31 4,6,9,11 *", "0 0 0 L-30 2 *", "0 0 0 1 * MON#2"])
    def test_a_date_that_never_comes_is_refused(self, expression: str) -> None:
        with pytest.raises(CronError, match="is never due"):
            Cron(expression)

    def test_29_february_on_a_monday_comes_after_28_years(self) -> None:
        assert following("0 0 0 29 2 MON", at("2024-03-01T00:00"), count=2) == [
            at("2044-02-29T00:00"),
            at("2072-02-29T00:00"),
        ]

    def test_nothing_is_due_after_the_end_of_the_calendar(self) -> None:
        assert Cron("0 0 0 1 1 *").next(253_402_300_799_000, UTC) is None

    def test_a_long_expression_is_refused_unread(self) -> None:
        with pytest.raises(CronError, match="at most 500 characters"):
            Cron("0," * 100_000 + " * * * * *")


class TestZones:
    @pytest.mark.parametrize(
        "name", ["Mars/One", "../../etc/passwd", "", "UTC+99", "a" * 100_000, "\0", "/etc/localtime"]
    )
    def test_an_unknown_one_is_refused(self, name: str) -> None:
        with pytest.raises(CronError, match="unknown time zone"):
            read_zone(name)

    @pytest.mark.parametrize("name", ["+02:00", "GMT+2", "UTC+02:00", "Etc/GMT-2"])
    def test_a_fixed_one_may_be_written_as_a_distance(self, name: str) -> None:
        assert (
            datetime(2027, 1, 1, tzinfo=read_zone(name)).utcoffset()
            == datetime(2027, 1, 1, tzinfo=ZoneInfo("Etc/GMT-2")).utcoffset()
        )


def numbers(least: int, most: int) -> st.SearchStrategy[str]:
    one = st.integers(least, most).map(str)
    span = st.tuples(st.integers(least, most), st.integers(least, most)).map(lambda two: f"{min(two)}-{max(two)}")
    step = st.integers(1, 20).map(lambda by: f"*/{by}")
    return st.one_of(st.just("*"), st.lists(st.one_of(one, span), min_size=1, max_size=3).map(",".join), step)


def picked(text: str, least: int, most: int) -> set[int]:
    """Return the values of a field, in the simplest way."""
    found: set[int] = set()
    for part in text.split(","):
        if part.startswith("*"):
            found |= set(range(least, most + 1, int(part[2:] or 1)))
        else:
            first, _, last = part.partition("-")
            found |= set(range(int(first), int(last or first) + 1))
    return found


class TestEveryMomentOfAnHour:
    @settings(max_examples=150, deadline=None)
    @given(
        second=numbers(0, 59),
        minute=numbers(0, 59),
        hour=numbers(0, 23),
        weekday=numbers(1, 7).map(lambda text: text.replace("7-7", "7")),  # a range from 7 is one from 0, as there
        zone=st.sampled_from(["UTC", "Europe/Berlin", "Australia/Lord_Howe", "America/Havana", "Asia/Kolkata"]),
        starts=st.sampled_from(["2027-03-28T00:30", "2027-10-31T00:30", "2027-04-03T14:30", "2027-10-02T15:00"]),
    )
    def test_a_cron_expression_is_due_when_the_wall_clock_matches_and_only_then(
        self, second: str, minute: str, hour: str, weekday: str, zone: str, starts: str
    ) -> None:
        """Every second of an hour and a half is looked at, most often where some clock is set."""
        starts_ms, place = at(starts), ZoneInfo(zone)
        fields = picked(second, 0, 59), picked(minute, 0, 59), picked(hour, 0, 23), picked(weekday, 1, 7)
        wanted = []
        for at_ms in range(starts_ms, starts_ms + 5_400_000, 1000):
            wall = datetime.fromtimestamp(at_ms / 1000, place)
            shown = wall.second, wall.minute, wall.hour, wall.isoweekday()
            if all(number in field for number, field in zip(shown, fields, strict=True)):
                wanted.append(at_ms)
        found = following(f"{second} {minute} {hour} * * {weekday}", starts_ms - 1, place, len(wanted[:200]) + 1)
        assert found[: len(wanted[:200])] == wanted[:200]
        if len(wanted) <= 200:
            assert all(due_ms >= starts_ms + 5_400_000 for due_ms in found[len(wanted) :])
