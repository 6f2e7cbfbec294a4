"""Decides the next step of a workflow, and carries it out in the store. In reading order:

- `executions`: starts workflows, takes their steps, and acts on them.
- `bulk_start`: starts many workflows in few transactions.
- `workflow_rate_limits`: the order in which workflows that share a limit start.
- `deadlines`: applies passed deadlines of tasks and workflows.
- `stored_tasks`: the tasks of a stored workflow as the decider reads them.
- `state`: a workflow and its tasks as plain data.
- `decider`: computes the next step, without clock and store.
- `decision`: collects the changes of a decision, and defines the complete decision.
- `scope`: looks up the names in `${...}`.
- `operators`: starts a task that the flow has reached, with one function per task type.
- `loop_retention`: removes the tasks of iterations that a loop does not keep.
- `fast_loops`: finds loops that run without a pause.
- `dynamic_tasks`: tasks that are created at run time: branches of a dynamic fork, and DYNAMIC tasks.
- `retries`: decides how often and when a failed task is retried.
- `effects`: carries out decisions: writes tasks, starts sub-workflows, ends workflows.
- `start_chains`: limits workflows that start each other without waiting.
- `workflow_actions`: actions on a whole workflow: terminate, pause, resume, retry, restart, rerun, skip.
- `messages`: messages to running workflows, and which task takes them.
- `workflow_signals`: finds the task that a signal completes, and makes the response.
"""
