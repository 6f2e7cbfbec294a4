"""One of several cron expressions of a schedule."""

from __future__ import annotations

from conductor.client.http.models.model import Model


class CronSchedule(Model, kw_only=True):
    """A cron expression with seconds, and the time zone of its clock (UTC without one)."""

    cron_expression: str | None = None
    zone_id: str | None = None
