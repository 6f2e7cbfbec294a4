"""The next step of a workflow: decided, and carried out in the store. In reading order:

- `executions`: starts workflows, takes their steps, and acts on them.
- `bulk_start`: starts many workflows in few transactions.
- `workflow_rate_limits`: the order in which workflows that share a limit start.
- `deadlines`: applies passed deadlines of tasks and workflows.
- `stored_tasks`: the tasks of a stored workflow as the decider reads them.
- `state`: a workflow and its tasks as plain data.
- `decider`: computes the next step, without clock and store.
- `decision`: a decision in the making, and the complete decision.
- `scope`: looks up the names in `${...}`.
- `operators`: starts a task that the flow has reached, with one function per task type.
- `loop_retention`: removes the tasks of iterations that a loop does not keep.
- `dynamic_tasks`: tasks that are created at run time: branches of a dynamic fork, and DYNAMIC tasks.
- `retries`: how often and when a failed task is retried.
- `effects`: carries out decisions: rows of tasks, sub-workflows, ends.
- `start_chains`: limits workflows that start each other without waiting.
- `workflow_actions`: actions on a whole workflow: terminate, pause, resume, retry, restart, rerun, skip.
- `workflow_signals`: the task that a signal completes, and the response.
"""
