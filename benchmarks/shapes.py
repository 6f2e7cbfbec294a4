"""The cost of a task in workflows of several shapes, as multiples of the workflow with one task.

The measured time is from the first start to the end of the last workflow. A step for a worker counts as a task, and so
does a SUB_WORKFLOW step together with the workflow that it starts. Forks, joins and loops do not count as tasks.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from benchmarks._rivals import OURS_ASYNC_AHEAD
from benchmarks._run import Run
from benchmarks._server import TASK, simple

PART = "shapes"
SERVER_CPU, WALL = "CPU of the server", "wall time"
SINGLE = "one task"
TASKS = 5000
QUICK_TASKS = 1000


@dataclass(frozen=True)
class Shape:
    """A workflow, its number of tasks, and whether a task should cost about as much as in a workflow of one task."""

    name: str
    steps: list[dict[str, Any]]
    tasks: int
    like_a_single_one: bool = True


def _row(length: int) -> list[dict[str, Any]]:
    return [simple(f"step_{number}") for number in range(length)]


def _fork(width: int) -> list[dict[str, Any]]:
    refs = [f"branch_{number}" for number in range(width)]
    fork = {"name": "fork", "taskReferenceName": "fork", "type": "FORK_JOIN", "forkTasks": [[simple(r)] for r in refs]}
    return [fork, {"name": "join", "taskReferenceName": "join", "type": "JOIN", "joinOn": refs}]


def _dynamic_fork(width: int) -> list[dict[str, Any]]:
    """Return a dynamic fork. With one branch, it is a fork and a join for a single task: an expensive shape."""
    inputs = {"forkTaskName": TASK, "forkTaskInputs": [{"n": number} for number in range(width)]}
    fork = {"name": "fork", "taskReferenceName": "fork", "type": "FORK_JOIN_DYNAMIC", "inputParameters": inputs}
    return [fork, {"name": "join", "taskReferenceName": "join", "type": "JOIN"}]


def _loops(*rounds: int) -> list[dict[str, Any]]:
    """Return loops in loops around one task, with the given iterations, the outermost first."""
    body = _row(1)
    for depth, count in reversed(list(enumerate(rounds))):
        loop = {"name": f"loop_{depth}", "taskReferenceName": f"loop_{depth}", "type": "DO_WHILE"}
        body = [{**loop, "loopCondition": f"$.loop_{depth}['iteration'] < {count}", "loopOver": body}]
    return body


def _parent() -> list[dict[str, Any]]:
    child = {"name": "child", "taskReferenceName": "child", "type": "SUB_WORKFLOW"}
    return [{**child, "subWorkflowParam": {"name": "child", "version": 1}, "inputParameters": {"n": 1}}]


def shapes(*, quick: bool) -> list[Shape]:
    """Return the shapes in the order of the table. A quick run leaves out shapes of many thousand tasks."""
    found = [
        Shape(SINGLE, _row(1), 1),
        Shape("5 in a row", _row(5), 5),
        Shape("50 in a row", _row(50), 50),
        Shape("fork of 100", _fork(100), 100),
        Shape("dynamic fork of 1", _dynamic_fork(1), 1, like_a_single_one=False),
        Shape("dynamic fork of 100", _dynamic_fork(100), 100),
        Shape("sub-workflow of one task", _parent(), 2),
    ]
    if quick:
        return found
    return [
        *found,
        Shape("fork of 5,000", _fork(5000), 5000),
        Shape("dynamic fork of 5,000", _dynamic_fork(5000), 5000),
        Shape("loops of 100 × 100", _loops(100, 100), 10_000, like_a_single_one=False),
    ]


def measure(run: Run) -> None:
    """Measure every shape once per round, each on a new database file."""
    for number in range(run.few):
        for shape in shapes(quick=run.quick):
            print(f"  round {number + 1} of {run.few}: {shape.name}", flush=True)
            _work_off(run, shape, QUICK_TASKS if run.quick else TASKS)


def _work_off(run: Run, shape: Shape, tasks: int) -> None:
    with run.contestants[OURS_ASYNC_AHEAD].stage() as stage, stage.worker():
        found = stage.coordinator
        assert found is not None
        found.until_polled()
        found.define("child", *_row(1))
        found.define("shape", *shape.steps)
        cpu_s, began = found.family.cpu_s(), time.perf_counter()
        count = max(1, tasks // shape.tasks)
        found.start("shape", count)
        found.until_all_ended()
        wall_us = (time.perf_counter() - began) / (count * shape.tasks) * 1e6
        cpu_us = (found.family.cpu_s() - cpu_s) / (count * shape.tasks) * 1e6
    run.figures.add(PART, SERVER_CPU, shape.name, cpu_us, "µs a task", base=SINGLE)
    run.figures.add(PART, WALL, shape.name, wall_us, "µs a task", base=SINGLE)
