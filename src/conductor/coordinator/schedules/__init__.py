"""Workflows on a schedule.

In reading order:

- `cron_schedule`: one schedule: its fields, its next due time, and its JSON.
- `schedule_store`: all schedules in the store: save, read, pause, resume, remove.
- `schedule_warnings`: warnings about schedules that are probably mistakes.
- `schedule_views`: schedules as the web UI shows them: in words, with their next due times and warnings.
- `schedule_runner`: starts the workflows that are due, each exactly once, and records the runs.

When a schedule is due, the start of the workflow, the record of the run and the next due time are one transaction: a
process that dies leaves all three or none. The timer of the core wakes up at the nearest due time.
"""
