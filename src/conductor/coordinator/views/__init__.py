"""What clients read: JSON as Conductor writes it. In reading order:

- `task_views`: one task, or all of a workflow.
- `workflow_views`: one workflow.
- `queue_sizes`: how much waits in each queue.
- `search_query`: workflows and tasks by Conductor's query language.

What people look at, on the page and in the terminal:

- `waiting_facts`: the facts of why a task or a workflow waits.
- `queue_load`: queues and workers, how they keep up.
- `leases`: who holds what, until when.
- `overview`: the few numbers that stand above everything.
- `recent_workflows`: the list of workflows, newest first.
- `execution`: one workflow with every attempt at its tasks.
"""
