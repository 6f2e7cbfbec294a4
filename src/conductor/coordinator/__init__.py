"""An embedded, durable server that speaks Conductor's REST API and decides truth: who holds a task, and what counts.

What happens to a request, room by room; each room's own docstring goes on file by file:

- `server` binds, serves, drains and closes; this is the `Coordinator`.
- `http` makes a request of bytes, finds its route, and writes the answer.
- `system` has workers of the coordinator's own, for HTTP calls, scripts, events and starts.
- `dry_run` runs a workflow with made-up outputs, in memory.
- `core` is the coordinator without HTTP: poll, report, wait. It wakes whoever waits for what was committed.
- `schedules` starts workflows by the clock, `events` does what event handlers say.
- `workflows` starts workflows and takes their next steps: decides what comes next, and makes it true.
- `tasks` has the rules of authority: leases, heartbeats, reports, deadlines.
- `views` shows tasks, workflows and queues as Conductor's clients read them.
- `settings` has what definitions may use beside their data: secrets and the environment.
- `definitions` holds what was registered, and what a running workflow keeps of it.
- `language` reads the small languages inside definitions: expressions, conditions, durations.
- `store` is the one truth: a SQLite file, one writer, and what the writer has at hand.
- `server_metrics` names what the coordinator counts of itself.
- `limits` says what data from outside may cost, and `request_errors` what a client is told of its mistakes.

Imports point downwards in this list. A start goes from HTTP through the workflows to the store; a poll through the core
and the rules of tasks; a report the same way, and then through the workflows. An answer goes out after its commit.
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
