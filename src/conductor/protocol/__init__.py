"""The protocol between the worker, the coordinator, the command line and the test kit. Imports only `conductor.common`.

- `statuses`: the statuses of tasks and workflows.
- `json_types`: names for decoded JSON in annotations.
- `wire`: headers, fields and limits of the protocol between a worker and a server.
- `epoch_token`: compares the epochs of coordinators.
- `steps`: durable steps, and the limits on their size.
- `views`: the JSON of `/api/view`, which the web UI and the command line read.
- `why_waiting`: explains in one sentence why a task or a workflow waits, on a coordinator or a Conductor server.
"""
