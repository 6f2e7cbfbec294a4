"""What the worker, the coordinator, the command line and the test kit agree on. Imports nothing but `conductor.common`.

- `statuses`: the statuses of tasks and workflows.
- `json_types`: names for decoded JSON in annotations.
- `wire`: headers, fields and limits that travel between a worker and a server.
- `views`: the JSON of `/api/view`, which the web UI and the command line read.
- `why_waiting`: the sentence that says why a task or a workflow waits, made from facts of either kind of server.
"""
