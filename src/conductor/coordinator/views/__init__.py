"""Views for clients, built from the rows of one transaction.

JSON as Conductor's clients expect it:

- `task_views`: one task, or all tasks of a workflow.
- `workflow_views`: one workflow.
- `queue_sizes`: the number of tasks in each queue.
- `search_query`: searches in Conductor's query language.

The data of `/api/view` (`conductor.protocol.views`), for the web UI and the command line:

- `overview`: the numbers at the top of the web UI.
- `change_feed`: which workflows have changed, as a stream of events.
- `activity`: what happened in the last hours, for charts.
- `load_history`: the length of the queues over time.
- `failures`: failed workflows grouped by cause.
- `recent_workflows`: the list of workflows, newest first.
- `details`: one workflow with every attempt at its tasks.
- `queue_load`: queues, their workers and their throughput.
- `leases`: open leases.
- `inbox`: tasks that wait for a person or a signal.
- `workers`: worker processes, their slots and their tasks.
- `waiting_facts`: why a task or a workflow waits.
"""
