from conductor.client.http.models.model import Model


class CronSchedule(Model, kw_only=True):
    """A cron expression with seconds, and its time zone (UTC by default)."""

    cron_expression: str | None = None
    zone_id: str | None = None
