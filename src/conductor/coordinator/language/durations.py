"""How long a WAIT waits: `1h 30m`, `30 seconds`, or until a point in time."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

#: No duration or time that means anything is longer. What is, meets no pattern.
MAX_LENGTH = 200
_PART = re.compile(r"\s*(\d{1,9})\s*([a-z]+)", re.IGNORECASE | re.ASCII)
#: The units in the order in which they are written, with their lengths in seconds.
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
    """`2 days 3h 10 mins 5s` in milliseconds; any of the four may be missing, but not all. Raises ValueError."""
    wrong = ValueError(f"'{_shown(text)}' is not a duration; write for example '1h 30m' or '30 seconds'")
    if len(text) > MAX_LENGTH:
        raise wrong
    seconds, at, units = 0, 0, iter(_UNITS)
    while found := _PART.match(text, at):
        unit = found[2].lower()
        # Each unit is looked for behind the one before: they come in this order, and each once.
        length_s = next((length_s for length_s, names in units if unit in names), None)
        if length_s is None:
            raise wrong
        seconds += int(found[1]) * length_s
        at = found.end()
    if at == 0 or text[at:].strip(_SPACE):
        raise wrong
    return seconds * 1000


def parse_until_ms(text: str) -> int:
    """`2025-12-31 23:59 GMT+1`, `2025-12-31`, ISO 8601: epoch milliseconds, UTC if no zone is named. Or ValueError."""
    found = _UNTIL.fullmatch(text.strip()) if len(text) <= MAX_LENGTH else None
    if found is None:
        raise ValueError(f"'{_shown(text)}' is not a time; write for example '2025-12-31 23:59 UTC'")
    day, clock, zone = found.groups()
    at = datetime.fromisoformat(f"{day}T{clock or '00:00'}").replace(tzinfo=_zone(zone) if zone else UTC)
    return int(at.timestamp() * 1000)


def _shown(text: str) -> str:
    return text if len(text) <= MAX_LENGTH else f"{text[:MAX_LENGTH]}..."


def _zone(name: str) -> tzinfo:
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
