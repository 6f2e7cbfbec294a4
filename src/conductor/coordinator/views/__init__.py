"""What clients read: JSON as Conductor writes it. In reading order:

- `tasks`: one task, or all of a workflow.
- `workflows`: one workflow.
- `queues`: how much waits in each queue.
- `search`: workflows and tasks by Conductor's query language.

What people look at, on the page and in the terminal:

- `waiting`: the facts of why a task or a workflow waits.
- `load`: queues and workers, how they keep up.
- `leases`: who holds what, until when.
- `overview`: the few numbers that stand above everything.
- `recent`: the list of workflows, newest first.
- `execution`: one workflow with every attempt at its tasks.
"""
