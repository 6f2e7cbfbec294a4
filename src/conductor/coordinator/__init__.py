"""An embedded, durable server that speaks Conductor's REST API and decides which worker holds a task.

The packages and modules, from the request down to the disk. Imports point downwards in this list:

- `server`: binds, serves, drains and closes. This is the `Coordinator`.
- `http`: parses requests, finds their routes, and writes the answers.
- `system`: the coordinator's own workers for HTTP calls, scripts, events and starts.
- `dry_run`: runs a workflow with mocked outputs, in memory.
- `core`: builds the parts, runs the timer, and passes on the changes of each commit. Its three interfaces are
  `task_authority` (poll, report, heartbeat), `workflow_service` (start, act, wait) and `reader`.
- `schedules`: starts workflows on a schedule. `events`: runs event handlers.
- `workflows`: decides the next step of a workflow and carries it out.
- `tasks`: decides which worker holds a task, until when, and whether a report counts.
- `views`: tasks, workflows and queues as clients read them.
- `definitions`: registered definitions, and the snapshots that workflows run with.
- `audit`: which client did what.
- `keys`: keys for the API, and the roles that limit them.
- `settings`: secrets and environment values that definitions may use.
- `language`: the small languages inside definitions: expressions, conditions, durations, cron.
- `replication`: runs Litestream, which copies the file, and restores it.
- `store`: the SQLite file, its writer thread and its cache.
- `server_metrics`: the metrics of the coordinator.
- `limits`: limits on the time and memory that one workflow, definition or request can take.
- `request_errors`: the errors that clients see.

A start goes from HTTP through the workflows to the store. A poll and a report go through the task authority and the
rules of tasks; a report then continues with the decision about its workflow. An answer is sent after its commit.
"""

try:
    from conductor.coordinator.server import Coordinator
except ModuleNotFoundError as missing:
    if (missing.name or "").partition(".")[0] == "conductor":
        raise
    raise ModuleNotFoundError(
        f"the coordinator needs {missing.name}: pip install 'conductor-worker[server]'", name=missing.name
    ) from None

__all__ = ["Coordinator"]
