"""Decides which worker holds a task, until when, and whether a report counts. In reading order:

- `task_queue`: the rules. A poll grants a lease, a heartbeat extends it, a report consumes it, time ends it.
- `task_report`: reports of workers, and their outcomes.
- `task_steps`: the durable steps of tasks.
- `parked_polls`: long polls that wait for tasks, woken by commits.
- `clock_correction`: shifts leases and delays after a jump of the wall clock.
- `deadline_timer`: a timer on the nearest deadline.
- `poll_data`: the last poll of each queue.
"""
