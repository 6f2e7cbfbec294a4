"""Cron expressions with seconds, as Conductor's scheduler reads them (it uses Spring's):

    second minute hour day-of-month month day-of-week        0 30 9 * * MON-FRI

A moment is due when the clock on the wall of the zone shows a time that all six fields match, so a time that the clock
skips in spring is not due that day, and one that it shows twice in autumn is due twice. Days must match both of their
fields. Beyond lists, ranges and steps there are `L` (last day), `L-3`, `LW`, `15W` (working day nearest to the 15th),
`FRIL` (last Friday), `MON#2` (second Monday), `?` for any day, and @yearly, @monthly, @weekly, @daily and @hourly.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable, Iterable, Iterator
from datetime import MAXYEAR, UTC, date, datetime, time, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

#: More characters are refused unread.
MAX_CRON_CHARS = 500
#: The months that are looked through for a day: 29 February on a given weekday comes at least this often.
MONTHS_AHEAD = 12 * 41
_DAY_S = 86_400
_SUNDAY = 6

_MACROS = {
    "@yearly": "0 0 0 1 1 *",
    "@annually": "0 0 0 1 1 *",
    "@monthly": "0 0 0 1 * *",
    "@weekly": "0 0 0 * * 0",
    "@daily": "0 0 0 * * *",
    "@midnight": "0 0 0 * * *",
    "@hourly": "0 0 * * * *",
}
_MONTHS = {"JAN": 1, "FEB": 2, "MAR": 3, "APR": 4, "MAY": 5, "JUN": 6}
_MONTHS |= {"JUL": 7, "AUG": 8, "SEP": 9, "OCT": 10, "NOV": 11, "DEC": 12}
#: A fixed distance from UTC: +02:00, GMT-5.
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])([0-9]{1,2})(?::?([0-9]{2}))?")
_WEEKDAYS = {"SUN": 0, "MON": 1, "TUE": 2, "WED": 3, "THU": 4, "FRI": 5, "SAT": 6}


class _Field(NamedTuple):
    name: str
    least: int
    most: int
    words: dict[str, int]


_SECOND = _Field("second", 0, 59, {})
_MINUTE = _Field("minute", 0, 59, {})
_HOUR = _Field("hour", 0, 23, {})
_DAY = _Field("day of month", 1, 31, {})
_MONTH = _Field("month", 1, 12, _MONTHS)
#: 0 and 7 are Sunday.
_WEEKDAY = _Field("day of week", 0, 7, _WEEKDAYS)

#: (year, month) → days of that month.
_Days = Callable[[int, int], Iterable[int]]


class CronError(ValueError):
    """An expression that cannot be read, or that no date will ever match; the message says why."""


class Cron:
    """One expression."""

    def __init__(self, expression: str) -> None:
        if len(expression) > MAX_CRON_CHARS:
            raise CronError(f"a cron expression has at most {MAX_CRON_CHARS} characters, not {len(expression)}")
        self.expression = expression
        fields = _MACROS.get(expression.strip().lower(), expression).split()
        if len(fields) != 6:
            wanted = "second minute hour day-of-month month day-of-week"
            raise CronError(f"cron expression {expression!r} has {len(fields)} fields, not 6: {wanted}")
        second, minute, hour, day, month, weekday = fields
        try:
            self._seconds = sorted(_numbers(second, _SECOND))
            self._minutes = sorted(_numbers(minute, _MINUTE))
            self._hours = sorted(_numbers(hour, _HOUR))
            self._months = _numbers(month, _MONTH)
            self._days_of_month = _days_of_month(day)
            self._days_of_week = _days_of_week(weekday)
        except CronError as error:
            raise CronError(f"cron expression {expression!r}: {error}") from None
        self._first_time = time(self._hours[0], self._minutes[0], self._seconds[0])
        if self._next_local(datetime(2000, 1, 1)) is None:  # noqa: DTZ001 - a time on the wall
            raise CronError(f"cron expression {expression!r} is never due: no date matches it")

    def next(self, after_ms: int, zone: tzinfo) -> int | None:
        """The first moment later than `after_ms` that is due, in epoch milliseconds. None: there is none."""
        at_s = after_ms // 1000 + 1
        while True:
            try:
                offset_s, local = _wall(at_s, zone)
                ends_s = _same_offset_until(at_s, offset_s, zone)
                found = self._next_local(local)
                if found is None:
                    return None
                found_s = at_s + int((found - local).total_seconds())
            except (OverflowError, ValueError, OSError):  # beyond the calendar
                return None
            if found_s < ends_s:
                return found_s * 1000
            # Nothing matches before `found`. The clock may be set in between, but by less than a day.
            at_s = max(ends_s, found_s - 2 * _DAY_S) if ends_s - at_s == _DAY_S else ends_s

    def _next_local(self, local: datetime) -> datetime | None:
        """The first time on the wall that matches, this one or a later one."""
        today = local.date()
        for day in self._dates_from(today):
            if day > today:
                return datetime.combine(day, self._first_time)
            if (found := self._next_time(local)) is not None:
                return found
        return None

    def _dates_from(self, day: date) -> Iterator[date]:
        year, month = day.year, day.month
        for _ in range(MONTHS_AHEAD):
            if month in self._months:
                matching = set(self._days_of_month(year, month)) & set(self._days_of_week(year, month))
                yield from (found for number in sorted(matching) if (found := date(year, month, number)) >= day)
            year, month = (year, month + 1) if month < 12 else (year + 1, 1)
            if year > MAXYEAR - 1:
                return

    def _next_time(self, local: datetime) -> datetime | None:
        """The first time that matches in what is left of this day."""
        for hour in self._hours:
            if hour < local.hour:
                continue
            for minute in self._minutes:
                if (hour, minute) < (local.hour, local.minute):
                    continue
                for second in self._seconds:
                    if (hour, minute, second) >= (local.hour, local.minute, local.second):
                        return local.replace(hour=hour, minute=minute, second=second)
        return None


@lru_cache(1000)
def read_cron(expression: str) -> Cron:
    """An expression, read once. CronError says what is wrong with it."""
    return Cron(expression)


@lru_cache(1000)
def read_zone(name: str) -> tzinfo:
    """A zone such as Europe/Berlin, UTC or +02:00. CronError if there is none of that name."""
    if match := _OFFSET.fullmatch(name):
        hours, minutes = int(match[2]), int(match[3] or 0)
        if hours <= 18 and minutes < 60:
            offset = timedelta(hours=hours, minutes=minutes)
            return timezone(-offset if match[1] == "-" else offset)
    try:
        return UTC if name in ("UTC", "Z") else ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise CronError(f"unknown time zone {name[:100]!r}; use a name such as Europe/Berlin, or UTC") from None


# -- the clock on the wall


def _wall(at_s: int, zone: tzinfo) -> tuple[int, datetime]:
    """How far the zone is from UTC at this moment, and what its clocks show."""
    shown = datetime.fromtimestamp(at_s, UTC).astimezone(zone)
    offset = shown.utcoffset() or timedelta()
    return int(offset.total_seconds()), shown.replace(tzinfo=None, fold=0)


def _same_offset_until(at_s: int, offset_s: int, zone: tzinfo) -> int:
    """When the clocks are set next, within a day; a day from now if they are not."""
    same_s, other_s = at_s, at_s + _DAY_S
    if _wall(other_s, zone)[0] == offset_s:
        return other_s
    while other_s - same_s > 1:
        middle_s = (same_s + other_s) // 2
        if _wall(middle_s, zone)[0] == offset_s:
            same_s = middle_s
        else:
            other_s = middle_s
    return other_s


# -- fields


def _numbers(text: str, field: _Field) -> set[int]:
    """What a field with lists, ranges and steps stands for."""
    found: set[int] = set()
    for part in text.split(","):
        span, slash, step = part.partition("/")
        first, last = _span(span, field, stepped=bool(slash))
        width = _number(step, field) if slash else 1
        if width < 1:
            raise CronError(f"the step in {part!r} ({field.name}) must be 1 or more")
        found.update(range(first, last + 1, width))
    return found


def _span(text: str, field: _Field, *, stepped: bool) -> tuple[int, int]:
    if text == "*":
        return (1, 7) if field is _WEEKDAY else (field.least, field.most)  # its steps count from Monday
    first_text, dash, last_text = text.partition("-")
    first = _checked(first_text, field)
    last = _checked(last_text, field) if dash else field.most if stepped else first
    if field is _WEEKDAY and first == 7 and dash:
        first = 0
    if first > last:
        raise CronError(f"{text!r} ({field.name}) ends before it begins")
    return first, last


def _checked(text: str, field: _Field) -> int:
    number = _number(text, field)
    if not field.least <= number <= field.most:
        raise CronError(f"{field.name} is from {field.least} to {field.most}, not {text!r}")
    return number


def _number(text: str, field: _Field) -> int:
    if text.upper() in field.words:
        return field.words[text.upper()]
    if not re.fullmatch(r"\+?[0-9]{1,4}", text):
        raise CronError(f"{text!r} is no {field.name}")
    return int(text)


def _days_of_month(text: str) -> _Days:
    if text == "?":
        text = "*"
    parts = [_day_part(part) for part in text.split(",")]
    return lambda year, month: {day for part in parts for day in part(year, month)}


def _day_part(text: str) -> _Days:
    upper = text.upper()
    if upper == "LW":
        return lambda year, month: [_working_day(year, month, _length(year, month))]
    if match := re.fullmatch(r"L(?:-([0-9]{1,2}))?", upper):
        back = int(match[1] or 0)
        if match[1] is not None and not 1 <= back <= 30:
            raise CronError(f"{text!r} (day of month) goes back 1 to 30 days")
        return lambda year, month: [_length(year, month) - back] if _length(year, month) > back else []
    if upper.endswith("W"):
        near = _checked(upper[:-1], _DAY)
        return lambda year, month: [_working_day(year, month, near)] if near <= _length(year, month) else []
    numbers = _numbers(text, _DAY)
    return lambda year, month: [day for day in numbers if day <= _length(year, month)]


def _days_of_week(text: str) -> _Days:
    if text == "?":
        text = "*"
    parts = [_weekday_part(part) for part in text.split(",")]
    return lambda year, month: {day for part in parts for day in part(year, month)}


def _weekday_part(text: str) -> _Days:
    name, hash_, which = text.partition("#")
    if hash_:
        weekday = _of_calendar(_checked(name, _WEEKDAY))
        if which not in ("1", "2", "3", "4", "5"):
            raise CronError(f"{text!r} (day of week) counts from #1 to #5")
        return lambda year, month: _each(year, month, weekday)[int(which) - 1 : int(which)]
    if len(text) > 1 and text[-1] in "lL":
        last = _of_calendar(_checked(text[:-1], _WEEKDAY))
        return lambda year, month: _each(year, month, last)[-1:]
    weekdays = {_of_calendar(number) for number in _numbers(text, _WEEKDAY)}
    return lambda year, month: [day for weekday in weekdays for day in _each(year, month, weekday)]


# -- the calendar


def _of_calendar(weekday: int) -> int:
    """Cron's day of the week, Sunday first, as the calendar counts, Monday first."""
    return (weekday - 1) % 7


def _each(year: int, month: int, weekday: int) -> list[int]:
    """The days of a month that are this day of the week."""
    first_weekday, length = calendar.monthrange(year, month)
    return list(range(1 + (weekday - first_weekday) % 7, length + 1, 7))


def _length(year: int, month: int) -> int:
    return calendar.monthrange(year, month)[1]


def _working_day(year: int, month: int, day: int) -> int:
    """The day from Monday to Friday that is nearest, in the same month."""
    weekday = calendar.weekday(year, month, day)
    if weekday == _SUNDAY:
        return day + 1 if day < _length(year, month) else day - 2
    if weekday == _SUNDAY - 1:
        return day - 1 if day > 1 else day + 2
    return day
