"""Parses and formats times for the command line."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from conductor.cli.support import UserError
from conductor.protocol.why_waiting import format_duration

_UNITS_S = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400, "w": 604_800}
_LENGTH = re.compile(r"(\d{1,9})\s*([a-z]+)", re.IGNORECASE)
#: Help text of an option that takes a time.
TIME_FORMATS = "30s, 15m, 2h, 7d, 4w (ago), or a date or time such as 2026-11-17 or 2026-11-17T03:00 (UTC by default)"


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def parse_time(text: str, option: str) -> int:
    """Parse an age, a date or a time, and return epoch milliseconds. Raise UserError naming the option."""
    length = _LENGTH.fullmatch(text.strip())
    if length and length[2].lower() in _UNITS_S:
        return now_ms() - int(length[1]) * _UNITS_S[length[2].lower()] * 1000
    try:
        at = datetime.fromisoformat(text.strip())
        return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise UserError(f"{option}: {text!r} is not a time; use {TIME_FORMATS}") from None


def parse_duration(text: str, option: str) -> float:
    """Parse a duration such as 30s or 1h, and return seconds. Raise UserError naming the option."""
    length = _LENGTH.fullmatch(text.strip())
    if length is None or length[2].lower() not in _UNITS_S or int(length[1]) == 0:
        raise UserError(f"{option}: {text!r} is not a duration; use for example 30s, 15m, 1h or 1d")
    return float(int(length[1]) * _UNITS_S[length[2].lower()])


def format_time(at_ms: int | None, zone: str | None = None) -> str:
    """Format a time to the second, in a time zone or in UTC; return an empty string for None or 0."""
    if not at_ms:
        return ""
    try:
        at = datetime.fromtimestamp(at_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(at_ms)
    if zone and zone != "UTC":
        try:
            return f"{at.astimezone(ZoneInfo(zone)):%Y-%m-%d %H:%M:%S} {zone}"
        except (ValueError, OverflowError, OSError):  # this machine does not know the zone
            pass
    return at.isoformat(sep=" ", timespec="seconds").replace("+00:00", "Z")


def format_age(at_ms: int | None, now: int) -> str:
    """Format how long ago a time was; return an empty string for None or 0."""
    return f"{format_duration(now - at_ms)} ago" if at_ms else ""
