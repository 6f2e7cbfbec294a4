"""Cron expressions with seconds, in the dialect of Conductor's scheduler (Spring).

The fields of an expression, and an example:

    second minute hour day-of-month month day-of-week        0 30 9 * * MON-FRI

A time is due when the local time of the zone matches all six fields. So a local time that is skipped in spring is not
due that day, and a local time that occurs twice in autumn is due twice. A day must match both day fields. Besides
lists, ranges and steps there are `L` (last day), `L-3`, `LW`, `15W` (working day nearest to the 15th),
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

#: Longer expressions are rejected before they are parsed.
MAX_CRON_CHARS = 500
#: How many months are searched for a matching day. This is long enough for 29 February to fall on each weekday.
MONTHS_AHEAD = 12 * 41
_DAY_S = 86_400
#: How far the search for a due time goes. The search needs a limit, because clock changes can skip all local times of
#: an expression: `0 30 2 ? 3 SUN#2` names the hour that New York skips each year.
_SEARCHED_S = MONTHS_AHEAD * 31 * _DAY_S
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
#: A fixed offset from UTC: +02:00, GMT-5.
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

#: Takes a year and a month. Returns the days of that month that match a field.
_Days = Callable[[int, int], Iterable[int]]


class CronError(ValueError):
    """An invalid expression, or an expression that no date matches; the message says why."""


def split_fields(expression: str) -> list[str]:
    """Return the fields of an expression. A short form such as @daily has six fields, too."""
    return _MACROS.get(expression.strip().lower(), expression).split()


class Cron:
    """A parsed cron expression."""

    def __init__(self, expression: str) -> None:
        if len(expression) > MAX_CRON_CHARS:
            raise CronError(f"a cron expression has at most {MAX_CRON_CHARS} characters, not {len(expression)}")
        self.expression = expression
        fields = split_fields(expression)
        if len(fields) != 6:
            wanted = "second minute hour day-of-month month day-of-week"
            raise CronError(f"cron expression {expression!r} has {len(fields)} fields, not 6: {wanted}")
        second, minute, hour, day, month, weekday = fields
        try:
            self._seconds = sorted(_parse_numbers(second, _SECOND))
            self._minutes = sorted(_parse_numbers(minute, _MINUTE))
            self._hours = sorted(_parse_numbers(hour, _HOUR))
            self._months = _parse_numbers(month, _MONTH)
            self._days_of_month = _parse_days_of_month(day)
            self._days_of_week = _parse_days_of_week(weekday)
        except CronError as error:
            raise CronError(f"cron expression {expression!r}: {error}") from None
        self._first_time = time(self._hours[0], self._minutes[0], self._seconds[0])
        if self._next_local(datetime(2000, 1, 1)) is None:  # noqa: DTZ001 - a local time
            raise CronError(f"cron expression {expression!r} is never due: no date matches it")

    def next(self, after_ms: int, zone: tzinfo) -> int | None:
        """Return the first due time after `after_ms` in epoch milliseconds, or None."""
        at_s = after_ms // 1000 + 1
        gives_up_s = at_s + _SEARCHED_S
        while at_s < gives_up_s:
            try:
                offset_s, local = _local_time(at_s, zone)
                ends_s = _end_of_offset(at_s, offset_s, zone)
                found = self._next_local(local)
                if found is None:
                    return None
                found_s = at_s + int((found - local).total_seconds())
            except (OverflowError, ValueError, OSError):  # the next due time is beyond the range of dates
                return None
            if found_s < ends_s:
                return found_s * 1000
            # The UTC offset may change before `found_s`, so search again. No local time before `found` matches and
            # offsets change by less than a day, so the days before can be skipped.
            at_s = max(ends_s, found_s - 2 * _DAY_S) if ends_s - at_s == _DAY_S else ends_s
        return None

    def _next_local(self, local: datetime) -> datetime | None:
        """Return the first matching local time at or after `local`; None if no date matches."""
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
        """Return the first time that matches in the rest of this day."""
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
    """Parse an expression; results are cached. Raises CronError."""
    return Cron(expression)


@lru_cache(1000)
def read_zone(name: str) -> tzinfo:
    """Return a time zone such as Europe/Berlin, UTC or +02:00. Raises CronError if the name is unknown."""
    if match := _OFFSET.fullmatch(name):
        hours, minutes = int(match[2]), int(match[3] or 0)
        if hours <= 18 and minutes < 60:
            offset = timedelta(hours=hours, minutes=minutes)
            return timezone(-offset if match[1] == "-" else offset)
    try:
        return UTC if name in ("UTC", "Z") else ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise CronError(f"unknown time zone {name[:100]!r}; use a name such as Europe/Berlin, or UTC") from None


# -- local time


def _local_time(at_s: int, zone: tzinfo) -> tuple[int, datetime]:
    """Return the UTC offset of a zone in seconds, and its local time."""
    local = datetime.fromtimestamp(at_s, UTC).astimezone(zone)
    offset = local.utcoffset() or timedelta()
    return int(offset.total_seconds()), local.replace(tzinfo=None, fold=0)


def _end_of_offset(at_s: int, offset_s: int, zone: tzinfo) -> int:
    """Return when the UTC offset of a zone changes after `at_s`, or one day after `at_s` if it is the same then."""
    same_s, changed_s = at_s, at_s + _DAY_S
    if _local_time(changed_s, zone)[0] == offset_s:
        return changed_s
    while changed_s - same_s > 1:
        middle_s = (same_s + changed_s) // 2
        if _local_time(middle_s, zone)[0] == offset_s:
            same_s = middle_s
        else:
            changed_s = middle_s
    return changed_s


# -- fields


def _parse_numbers(text: str, field: _Field) -> set[int]:
    """Return the numbers of a field with lists, ranges and steps."""
    found: set[int] = set()
    for part in text.split(","):
        span, slash, step = part.partition("/")
        first, last = _parse_range(span, field, has_step=bool(slash))
        width = _parse_number(step, field) if slash else 1
        if width < 1:
            raise CronError(f"the step in {part!r} ({field.name}) must be 1 or more")
        found.update(range(first, last + 1, width))
    return found


def _parse_range(text: str, field: _Field, *, has_step: bool) -> tuple[int, int]:
    if text == "*":
        return (1, 7) if field is _WEEKDAY else (field.least, field.most)  # `*/2` counts from Monday
    first_text, dash, last_text = text.partition("-")
    first = _parse_in_range(first_text, field)
    last = _parse_in_range(last_text, field) if dash else field.most if has_step else first
    if field is _WEEKDAY and first == 7 and dash:
        first = 0
    if first > last:
        raise CronError(f"{text!r} ({field.name}) ends before it begins")
    return first, last


def _parse_in_range(text: str, field: _Field) -> int:
    number = _parse_number(text, field)
    if not field.least <= number <= field.most:
        raise CronError(f"{field.name} must be from {field.least} to {field.most}, not {text!r}")
    return number


def _parse_number(text: str, field: _Field) -> int:
    if text.upper() in field.words:
        return field.words[text.upper()]
    if not re.fullmatch(r"\+?[0-9]{1,4}", text):
        raise CronError(f"{text!r} is not a {field.name}")
    return int(text)


def _parse_days_of_month(text: str) -> _Days:
    if text == "?":
        text = "*"
    parts = [_parse_day_part(part) for part in text.split(",")]
    return lambda year, month: {day for part in parts for day in part(year, month)}


def _parse_day_part(text: str) -> _Days:
    upper = text.upper()
    if upper == "LW":
        return lambda year, month: [_find_working_day(year, month, _count_days(year, month))]
    if match := re.fullmatch(r"L(?:-([0-9]{1,2}))?", upper):
        back = int(match[1] or 0)
        if match[1] is not None and not 1 <= back <= 30:
            raise CronError(f"{text!r} (day of month) must be from L-1 to L-30")
        return lambda year, month: [_count_days(year, month) - back] if _count_days(year, month) > back else []
    if upper.endswith("W"):
        near = _parse_in_range(upper[:-1], _DAY)
        return lambda year, month: [_find_working_day(year, month, near)] if near <= _count_days(year, month) else []
    numbers = _parse_numbers(text, _DAY)
    return lambda year, month: [day for day in numbers if day <= _count_days(year, month)]


def _parse_days_of_week(text: str) -> _Days:
    if text == "?":
        text = "*"
    parts = [_parse_weekday_part(part) for part in text.split(",")]
    return lambda year, month: {day for part in parts for day in part(year, month)}


def _parse_weekday_part(text: str) -> _Days:
    name, hash_, which = text.partition("#")
    if hash_:
        weekday = _to_calendar_weekday(_parse_in_range(name, _WEEKDAY))
        if which not in ("1", "2", "3", "4", "5"):
            raise CronError(f"{text!r} (day of week) must count from #1 to #5")
        return lambda year, month: _days_with_weekday(year, month, weekday)[int(which) - 1 : int(which)]
    if len(text) > 1 and text[-1] in "lL":
        last = _to_calendar_weekday(_parse_in_range(text[:-1], _WEEKDAY))
        return lambda year, month: _days_with_weekday(year, month, last)[-1:]
    weekdays = {_to_calendar_weekday(number) for number in _parse_numbers(text, _WEEKDAY)}
    return lambda year, month: [day for weekday in weekdays for day in _days_with_weekday(year, month, weekday)]


# -- the calendar


def _to_calendar_weekday(weekday: int) -> int:
    """Convert cron's day of the week (0 is Sunday) to that of `calendar` (0 is Monday)."""
    return (weekday - 1) % 7


def _days_with_weekday(year: int, month: int, weekday: int) -> list[int]:
    """Return the days of a month that are this day of the week."""
    first_weekday, length = calendar.monthrange(year, month)
    return list(range(1 + (weekday - first_weekday) % 7, length + 1, 7))


def _count_days(year: int, month: int) -> int:
    return calendar.monthrange(year, month)[1]


def _find_working_day(year: int, month: int, day: int) -> int:
    """Return the nearest day from Monday to Friday in the same month."""
    weekday = calendar.weekday(year, month, day)
    if weekday == _SUNDAY:
        return day + 1 if day < _count_days(year, month) else day - 2
    if weekday == _SUNDAY - 1:
        return day - 1 if day > 1 else day + 2
    return day
