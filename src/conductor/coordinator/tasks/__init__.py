"""Who holds a task, until when, and whether what is said about it counts. In reading order:

- `task_queue`: the rules: a poll grants a lease, a heartbeat extends it, a report consumes it, time ends it.
- `task_report`: what a worker says about a task, and what it is told.
- `parked_polls`: parked long polls, woken by the commit that brings work.
- `deadline_timer`: rings at the nearest deadline.
- `poll_data`: who polled last.
"""
