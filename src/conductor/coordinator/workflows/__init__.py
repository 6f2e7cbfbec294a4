"""What a workflow does next. In reading order:

- `executions`: start one, take its next step, do something to it.
- `bulk_start`: start many workflows in as few transactions as bounded work allows.
- `workflow_rate_limits`: whose turn it is, of those that share a limit.
- `deadlines`: act on tasks and workflows whose time is over.
- `stored_tasks`: its tasks as the decider sees them, made from the rows as they are asked for.
- `state`: a workflow and its tasks as plain data.
- `decider`: from a definition and what is done to what comes next; it knows no clock and no store.
- `decision`: the decision while it is being made, and when it is complete.
- `scope`: what the names in `${...}` stand for.
- `operators`: what happens when the flow reaches a task, one function for each type.
- `loop_retention`: remove the tasks of rounds that a loop no longer keeps.
- `dynamic_tasks`: tasks that no definition has: branches of a dynamic fork, and what a DYNAMIC task turns out to be.
- `retries`: when a failed task is tried again.
- `effects`: the decision made true: rows of tasks, sub-workflows, ends.
- `start_chains`: workflows that start each other, and how many may do so without waiting for anything.
- `workflow_actions`: what people do to a whole workflow: terminate, pause, resume, retry, restart, rerun, skip.
- `workflow_signals`: the task that a signal goes to, and what those who wait for such a workflow are told.
"""
