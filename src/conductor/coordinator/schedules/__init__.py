"""Workflows started by the clock. In reading order:

- `cron_schedule`: one schedule: what may be asked for, when it is due next, and how it is shown.
- `schedule_store`: all of them in the store: save, read, pause, resume, remove.
- `schedule_runner`: starting what is due, exactly once, and what is remembered of it.

When a moment has come, the start of the workflow, the record of the run and the next due moment are one transaction: a
process that dies leaves all three or none. The alarm of the core wakes up for the nearest due moment.
"""
