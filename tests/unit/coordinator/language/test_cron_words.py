"""Cron expressions in words."""

from __future__ import annotations

import pytest

from conductor.coordinator.language.cron import read_cron
from conductor.coordinator.language.cron_words import describe_cron

WORDS = {
    "0 0 2 * * *": "every day at 02:00",
    "0 0 2 ? * *": "every day at 02:00",
    "30 5 14 * * *": "every day at 14:05:30",
    "0 30 9,12,17 * * *": "every day at 09:30, 12:30 and 17:30",
    "0 30 9 * * MON-FRI": "Monday to Friday at 09:30",
    "0 30 9 * * 1,4": "every Monday and Thursday at 09:30",
    "0 0 8 * * 7": "every Sunday at 08:00",
    "0 0 8 * * MON#2": "on the second Monday of the month at 08:00",
    "0 0 8 * * FRIL": "on the last Friday of the month at 08:00",
    "0 0 0 1 * *": "on day 1 of the month at 00:00",
    "0 0 0 1,15 * *": "on days 1 and 15 of the month at 00:00",
    "0 0 0 L * *": "on the last day of the month at 00:00",
    "0 0 0 LW 6 *": "on the last working day of the month in June at 00:00",
    "0 0 0 L-3 * *": "3 days before the last day of the month at 00:00",
    "0 0 0 15W * *": "on the working day nearest to day 15 of the month at 00:00",
    "0 0 0 13 * FRI": "every Friday if it is on day 13 of the month at 00:00",
    "0 0 0 1 JAN,JUL *": "on day 1 of the month in January and July at 00:00",
    "@daily": "every day at 00:00",
    "@hourly": "every hour, on the hour",
    "0 5 * * * *": "every hour at minute 5",
    "0 0 */6 * * *": "every 6 hours, on the hour",
    "* * * * * *": "every second",
    "*/20 * * * * *": "every 20 seconds",
    "0 * * * * *": "every minute",
    "0 */10 * * * *": "every 10 minutes",
    "0 */7 * * * *": "every 7 minutes, counted from the start of each hour",
    "0 */15 9-17 * * MON-FRI": "every 15 minutes from 09:00 to 17:59, Monday to Friday",
    "15 */10 * * * *": "every 10 minutes at second 15",
    "0 0-30/5 4 * * *": "at second 0, minute 0-30/5 and hour 4",
}


@pytest.mark.parametrize("expression", WORDS)
def test_an_expression_is_said_in_words_u5_12(expression: str) -> None:
    read_cron(expression)  # it is valid
    assert describe_cron(expression) == WORDS[expression]
