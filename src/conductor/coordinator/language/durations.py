"""The duration or the end of a WAIT: `1h 30m`, `30 seconds`, or a point in time."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

#: Longer texts are rejected before any pattern is matched.
MAX_LENGTH = 200
_PART = re.compile(r"\s*(\d{1,9})\s*([a-z]+)", re.IGNORECASE | re.ASCII)
#: The units in their required order, each with its length in seconds and its names.
_UNITS = (
    (24 * 60 * 60, ("day", "days", "d")),
    (60 * 60, ("hour", "hours", "hr", "hrs", "h")),
    (60, ("minute", "minutes", "min", "mins", "m")),
    (1, ("second", "seconds", "sec", "secs", "s")),
)
_SPACE = " \t\n\r\f\v"
_OFFSET = re.compile(r"(?:GMT|UTC)?([+-])(\d{1,2}):?(\d{2})?", re.IGNORECASE | re.ASCII)
_UNTIL = re.compile(r"(\d{4}-\d{2}-\d{2})(?:[ T](\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?))?\s*(\S.*)?", re.ASCII)


def parse_duration_ms(text: str) -> int:
    """Return a duration such as `2 days 3h 10 mins 5s` in milliseconds; one unit is enough. Raises ValueError."""
    invalid = ValueError(f"'{_shorten(text)}' is not a duration; write for example '1h 30m' or '30 seconds'")
    if len(text) > MAX_LENGTH:
        raise invalid
    seconds, at, units = 0, 0, iter(_UNITS)
    while found := _PART.match(text, at):
        unit = found[2].lower()
        # The search continues after the previous unit: each unit occurs once, in the order of `_UNITS`.
        length_s = next((length_s for length_s, names in units if unit in names), None)
        if length_s is None:
            raise invalid
        seconds += int(found[1]) * length_s
        at = found.end()
    if at == 0 or text[at:].strip(_SPACE):
        raise invalid
    return seconds * 1000


def parse_until_ms(text: str) -> int:
    """Return a time in epoch milliseconds. Raises ValueError.

    The text is `2025-12-31 23:59 GMT+1`, `2025-12-31` or ISO 8601. The default time zone is UTC.
    """
    found = _UNTIL.fullmatch(text.strip()) if len(text) <= MAX_LENGTH else None
    if found is None:
        raise ValueError(f"'{_shorten(text)}' is not a time; write for example '2025-12-31 23:59 UTC'")
    day, clock, zone = found.groups()
    at = datetime.fromisoformat(f"{day}T{clock or '00:00'}").replace(tzinfo=_parse_zone(zone) if zone else UTC)
    return int(at.timestamp() * 1000)


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_LENGTH else f"{text[:MAX_LENGTH]}..."


def _parse_zone(name: str) -> tzinfo:
    if name.upper() in ("Z", "UTC", "GMT"):
        return UTC
    try:
        if found := _OFFSET.fullmatch(name):
            sign = -1 if found[1] == "-" else 1
            return timezone(sign * timedelta(hours=int(found[2]), minutes=int(found[3] or 0)))
        return ZoneInfo(name)
    except (OSError, LookupError, ValueError) as error:
        raise ValueError(
            f"'{name}' is not a time zone; write for example 'UTC', '+02:00' or 'Europe/Berlin'"
        ) from error
