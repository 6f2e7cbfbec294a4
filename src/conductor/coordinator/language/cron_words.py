"""Describes a valid cron expression in words, such as "every day at 02:00"."""

from __future__ import annotations

import re

from conductor.coordinator.language.cron import split_fields

_WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_ORDINALS = ("first", "second", "third", "fourth", "fifth")
_ANY = ("*", "?")
_STEP = re.compile(r"(?:\*|0)/([0-9]+)")
#: Up to this many hours, an expression is described as a list of times of the day.
MAX_TIMES = 6


def describe_cron(expression: str) -> str:
    """Return a valid cron expression in words."""
    second, minute, hour, day, month, weekday = split_fields(expression)
    days = " ".join(part for part in (_describe_days(day, weekday), _describe_months(month)) if part)
    times = _list_times(second, minute, hour)
    if times:
        return f"{days or 'every day'} at {_join(times)}"
    return _describe_frequency(second, minute, hour) + (f", {days}" if days else "")


def _list_times(second: str, minute: str, hour: str) -> list[str]:
    """Return the times of the day if second and minute are numbers and `hour` is a short list; otherwise []."""
    hours = hour.split(",")
    if not (second.isdecimal() and minute.isdecimal() and all(one.isdecimal() for one in hours)):
        return []
    if len(hours) > MAX_TIMES:
        return []
    seconds = f":{int(second):02}" if int(second) else ""
    return [f"{int(one):02}:{int(minute):02}{seconds}" for one in hours]


def _describe_frequency(second: str, minute: str, hour: str) -> str:
    if minute in _ANY and hour in _ANY and (every := _describe_step(second, "second")):
        return every
    at_second = "" if second.isdecimal() and not int(second) else f" at second {second}"
    if hour in _ANY and (every := _describe_step(minute, "minute")):
        return every + at_second
    if (every := _describe_step(minute, "minute")) and (hours := re.fullmatch(r"([0-9]+)(?:-([0-9]+))?", hour)):
        return f"{every} from {int(hours[1]):02}:00 to {int(hours[2] or hours[1]):02}:59{at_second}"
    if minute.isdecimal() and (every := _describe_step(hour, "hour")):
        return every + (f" at minute {int(minute)}" if int(minute) else ", on the hour") + at_second
    return f"at second {second}, minute {minute} and hour {hour}"


def _describe_step(field: str, unit: str) -> str:
    """Return "every 10 minutes" for "*/10"; an empty string if the field is not a step."""
    step = _STEP.fullmatch(field)
    if field in _ANY or (step is not None and int(step[1]) == 1):
        return f"every {unit}"
    if step is None:
        return ""
    range_size, above = (24, "day") if unit == "hour" else (60, "minute" if unit == "second" else "hour")
    uneven = f", counted from the start of each {above}" if range_size % int(step[1]) else ""
    return f"every {step[1]} {unit}s{uneven}"


def _describe_days(day: str, weekday: str) -> str:
    parts = []
    if weekday not in _ANY:
        parts.append(_describe_weekdays(weekday))
    if day not in _ANY:
        parts.append(_describe_days_of_month(day))
    return " if it is ".join(parts)


def _describe_weekdays(field: str) -> str:
    found, is_special = [], False
    for part in field.upper().split(","):
        is_special = is_special or "#" in part or (part.endswith("L") and part != "L")
        if match := re.fullmatch(r"(\w+)#([1-5])", part):
            found.append(f"the {_ORDINALS[int(match[2]) - 1]} {_name_weekday(match[1])} of the month")
        elif (match := re.fullmatch(r"(\w+)L", part)) and part != "L":
            found.append(f"the last {_name_weekday(match[1])} of the month")
        elif match := re.fullmatch(r"(\w+)-(\w+)", part):
            found.append(f"{_name_weekday(match[1])} to {_name_weekday(match[2])}")
        else:
            found.append(_name_weekday(part))
    if is_special:
        return f"on {_join(found)}"
    return found[0] if " to " in found[0] and len(found) == 1 else f"every {_join(found)}"


def _name_weekday(word: str) -> str:
    if word.isdecimal() and int(word) < len(_WEEKDAYS):
        return _WEEKDAYS[int(word)]
    return next((name for name in _WEEKDAYS if name[:3].upper() == word), f"weekday {word}")


def _describe_days_of_month(field: str) -> str:
    special = {"L": "on the last day of the month", "LW": "on the last working day of the month"}
    if field.upper() in special:
        return special[field.upper()]
    if match := re.fullmatch(r"L-([0-9]+)", field.upper()):
        return f"{match[1]} days before the last day of the month"
    if match := re.fullmatch(r"([0-9]+)W", field.upper()):
        return f"on the working day nearest to day {match[1]} of the month"
    if step := _STEP.fullmatch(field):
        return f"on every {step[1]}. day of the month, from day 1"
    days = field.split(",")
    plural = "s" if len(days) > 1 or "-" in field else ""
    return f"on day{plural} {_join([one.replace('-', ' to ') for one in days])} of the month"


def _describe_months(field: str) -> str:
    if field in _ANY:
        return ""
    names = [
        " to ".join(_name_month(end) for end in part.split("-")) if "/" not in part else f"months {part}"
        for part in field.upper().split(",")
    ]
    return f"in {_join(names)}"


def _name_month(word: str) -> str:
    if word.isdecimal() and 1 <= int(word) <= len(_MONTHS):
        return _MONTHS[int(word) - 1]
    return next((name for name in _MONTHS if name[:3].upper() == word), f"month {word}")


def _join(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
