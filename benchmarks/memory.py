"""Memory of a coordinator with many running workflows. (`growth`: with finished workflows; `idle`: of workers.)"""

from __future__ import annotations

from benchmarks._rivals import WORKFLOW
from benchmarks._run import Run
from benchmarks._server import server, simple
from benchmarks.growth import work_on

PART = "memory of the server"
MEMORY = "private memory and its share of the rest"
NONE = "no workflow"
RUNNING = 100_000
QUICK_RUNNING = 5_000
#: The number of tasks that are executed while the other tasks wait.
DONE = 2000


def running_name(count: int) -> str:
    """Return the name of the row in the table."""
    return f"{count:,} running workflows"


def measure(run: Run) -> None:
    """Start workflows over HTTP and execute some tasks, so that the caches are filled. Measure in one round."""
    count = QUICK_RUNNING if run.quick else RUNNING
    with server() as found:
        found.define(WORKFLOW, simple())
        run.figures.add(PART, MEMORY, NONE, found.family.memory_mb(), "MB", base=NONE)
        print(f"  starting {count:,} workflows", flush=True)
        found.start(WORKFLOW, count)
        work_on(found, DONE, batch=50)
        run.figures.add(PART, MEMORY, running_name(count), found.family.memory_mb(), "MB", base=NONE)
