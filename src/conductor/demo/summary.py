"""Prints the result of the demo: a table from the server's records and the workers' metrics."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from rich.console import Console
from rich.table import Table

from conductor.client.http.models.task import Task
from conductor.client.http.models.workflow import Workflow
from conductor.client.telemetry import worker_metrics
from conductor.demo.customers import Day
from conductor.demo.shop import WORKFLOW, Order
from conductor.demo.worker_page import Counted
from conductor.protocol.wire import Verdict

#: Width of the table when the output is not a terminal.
PLAIN_WIDTH = 160


def show(day: Day, counted: Counted) -> None:
    """Print the table, and every order that did not end as expected."""
    tasks = [task for outcome in day.outcomes for task in outcome.workflow.tasks]
    _console().print(_table(tasks, counted))
    for line in _summary(day, tasks, counted):
        print(line)
    for outcome in day.outcomes:
        if not outcome.as_expected:
            workflow = outcome.workflow
            why = f": {workflow.reason_for_incompletion}" if workflow.reason_for_incompletion else ""
            print(f"WRONG: order {outcome.order.number} is {workflow.status}, not {outcome.expected}{why}")


def _console() -> Console:
    console = Console(highlight=False)
    return console if console.is_terminal else Console(width=PLAIN_WIDTH, highlight=False)


def _table(tasks: Sequence[Task], counted: Counted) -> Table:
    table = Table("task", box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    for heading in ("tasks", "failed", "retries", "waited ms", "took ms", *map(str, Verdict)):
        table.add_column(heading, justify="right")
    table.add_row("", "", "", "", "p50/p95", "p50/p95", style="dim")
    for name in dict.fromkeys(task.task_def_name for task in tasks):
        table.add_row(*_row(name, [task for task in tasks if task.task_def_name == name], counted))
    return table


def _row(name: str, tasks: Sequence[Task], counted: Counted) -> list[str]:
    return [
        name.removeprefix(f"{WORKFLOW}_"),
        str(len(tasks)),
        str(sum(task.status not in ("COMPLETED", "CANCELED") for task in tasks)),
        str(sum((task.retry_count or 0) > 0 for task in tasks)),
        _p50_p95([task.start_time - task.scheduled_time for task in tasks if task.start_time]),
        _p50_p95([task.end_time - task.start_time for task in tasks if task.start_time and task.end_time]),
        *(str(counted.of(worker_metrics.VERDICT_TOTAL, name, verdict)) for verdict in Verdict),
    ]


def _summary(day: Day, tasks: Sequence[Task], counted: Counted) -> Iterator[str]:
    ended = Counter(outcome.workflow.status for outcome in day.outcomes)
    ends = ", ".join(f"{number} {status}" for status, number in ended.most_common())
    # Leave out the long deliveries, which exist to show heartbeats and would distort the times.
    quick = [outcome.workflow for outcome in day.outcomes if outcome.order.trip_s < 1]
    took = _p50_p95([workflow.end_time - workflow.start_time for workflow in quick])
    yield f"{len(day.outcomes)} orders: {ends}; each took {took} ms (p50/p95)"
    yield f"{len(tasks)} tasks, {_tasks_per_second(quick):.0f} per second during the quick orders"
    beats, lost = counted.sum(worker_metrics.LEASE_EXTENDED_TOTAL), counted.sum(worker_metrics.LEASE_LOST_TOTAL)
    yield f"{beats} heartbeats during long deliveries; leases lost: {lost} (one order was cancelled)"


def _tasks_per_second(workflows: Sequence[Workflow]) -> float:
    if not workflows:
        return 0.0
    began_ms, over_ms = min(w.start_time for w in workflows), max(w.end_time for w in workflows)
    return sum(len(w.tasks) for w in workflows) / max(0.001, (over_ms - began_ms) / 1000)


def _p50_p95(values: Sequence[int]) -> str:
    ordered = sorted(values)
    if not ordered:
        return "-"
    return f"{ordered[len(ordered) // 2]}/{ordered[min(len(ordered) - 1, len(ordered) * 95 // 100)]}"


def show_next_steps() -> None:
    """Print what to do after the demo."""
    print("To see the orders in the web UI: conductor-worker demo --keep")
    print("To write workers: conductor-worker init my-project && cd my-project && conductor-worker dev my_project")


def show_where_to_look(day: Day, url: str, workers_url: str) -> None:
    """Print commands that inspect the server and the workers while they run."""
    order = json.dumps({"order": asdict(Order(0, "chair", 2))})
    known = day.outcomes[-1].workflow.workflow_id if day.outcomes else "WORKFLOW_ID"
    print(
        f"""
Server and workers are still running. Inspect them:
  curl -s {url}/workflow/{known}
  curl -s {url}/metadata/workflow/{WORKFLOW}
  curl -s {url}/tasks/queue/all
  curl -s {workers_url}/metrics
  curl -s {workers_url}/health
Place an order (the answer is the id of its workflow):
  curl -s -X POST {url}/workflow/{WORKFLOW} -H 'Content-Type: application/json' -d '{order}'
Press Ctrl-C to stop.""",
        flush=True,
    )
