"""How long a WAIT waits: `1h 30m`, `30 seconds`, or until a point in time."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

_DURATION = re.compile(
    r"\s*(?:(\d{1,9})\s*(?:days?|d))?"
    r"\s*(?:(\d{1,9})\s*(?:hours?|hrs?|h))?"
    r"\s*(?:(\d{1,9})\s*(?:minutes?|mins?|m))?"
    r"\s*(?:(\d{1,9})\s*(?:seconds?|secs?|s))?\s*",
    re.IGNORECASE | re.ASCII,
)
_OFFSET = re.compile(r"(?:GMT|UTC)?([+-])(\d{1,2}):?(\d{2})?", re.IGNORECASE | re.ASCII)
_UNTIL = re.compile(r"(\d{4}-\d{2}-\d{2})(?:[ T](\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?))?\s*(\S.*)?", re.ASCII)


def parse_duration_ms(text: str) -> int:
    """`2 days 3h 10 mins 5s` in milliseconds; any of the four may be missing, but not all. Raises ValueError."""
    found = _DURATION.fullmatch(text)
    if found is None or not any(found.groups()):
        raise ValueError(f"'{text}' is not a duration; write for example '1h 30m' or '30 seconds'")
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000


def parse_until_ms(text: str) -> int:
    """`2025-12-31 23:59 GMT+1`, `2025-12-31`, ISO 8601: epoch milliseconds, UTC if no zone is named. Or ValueError."""
    found = _UNTIL.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"'{text}' is not a time; write for example '2025-12-31 23:59 UTC'")
    day, clock, zone = found.groups()
    at = datetime.fromisoformat(f"{day}T{clock or '00:00'}").replace(tzinfo=_zone(zone) if zone else UTC)
    return int(at.timestamp() * 1000)


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
