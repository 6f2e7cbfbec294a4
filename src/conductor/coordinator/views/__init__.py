"""Views for clients, built from the rows of one transaction.

JSON as Conductor's clients expect it:

- `task_views`: one task, or all tasks of a workflow.
- `workflow_views`: one workflow.
- `queue_sizes`: the number of tasks in each queue.
- `search_query`: searches in Conductor's query language.

The data of `/api/view` (`conductor.protocol.views`), for the web UI and the command line:

- `overview`: the numbers at the top of the web UI.
- `recent_workflows`: the list of workflows, newest first.
- `details`: one workflow with every attempt at its tasks.
- `queue_load`: queues, their workers and their throughput.
- `leases`: open leases.
- `waiting_facts`: why a task or a workflow waits.
"""
