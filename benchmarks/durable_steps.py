"""Compare the cost of 20 consecutive durable steps of a task with heartbeats, and with DBOS on SQLite.

DBOS runs in an environment of its own. If it cannot be installed, the benchmark says so and leaves its row out.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks._server import coordinator
from conductor import durable
from conductor.client.automator.task_handler_asyncio import TaskHandlerAsyncIO
from conductor.client.configuration.configuration import Configuration
from conductor.client.http.models.start_workflow_request import StartWorkflowRequest
from conductor.client.http.models.task_def import TaskDef
from conductor.client.http.models.task_result import TaskResult
from conductor.client.http.models.task_result_status import TaskResultStatus
from conductor.client.metadata_client import AsyncMetadataClient
from conductor.client.task_client import AsyncTaskClient
from conductor.client.worker.worker import Worker
from conductor.client.workflow import ConductorWorkflow
from conductor.client.workflow.task.simple_task import SimpleTask
from conductor.client.workflow_client import AsyncWorkflowClient
from tests.integration.other_sdks import Unavailable, environment

STEPS = 20
ROUNDS = 10
PROGRAM = Path(__file__).parent / "programs" / "dbos_steps.py"
DBOS_PACKAGES = ("dbos==3.4.0",)


def noop(number: int) -> int:
    """Do nothing."""
    return number


async def _measure(url: str, dbos_python: Path | None) -> dict[str, list[float]]:
    """Return the milliseconds per step or heartbeat, one value per round."""
    found: dict[str, list[float]] = {"step": [], "heartbeat": []}
    done = asyncio.Event()

    async def program() -> dict[str, int]:
        began = time.perf_counter()
        for number in range(STEPS):
            await durable.step(noop, number)
        found["step"].append((time.perf_counter() - began) / STEPS * 1000)
        done.set()
        return {}

    configuration = Configuration(url)
    flow = (ConductorWorkflow(None, "steps") >> SimpleTask("steps", "t")).to_workflow_def()
    beats = (ConductorWorkflow(None, "beats") >> SimpleTask("beats", "t")).to_workflow_def()
    handler = TaskHandlerAsyncIO([Worker("steps", program)], configuration, scan_for_annotated_workers=False)
    async with (
        AsyncMetadataClient(configuration) as metadata,
        AsyncWorkflowClient(configuration) as workflows,
        AsyncTaskClient(configuration) as tasks,
        handler,
    ):
        await metadata.register_task_defs([TaskDef(name="steps"), TaskDef(name="beats")])
        for _ in range(ROUNDS):
            done.clear()
            await workflows.start_workflow(StartWorkflowRequest(name="steps", workflow_def=flow))
            await done.wait()
            await workflows.start_workflow(StartWorkflowRequest(name="beats", workflow_def=beats))
            (task,) = await tasks.batch_poll_tasks("beats", count=1, timeout_in_millisecond=5000)
            beat = TaskResult(
                task_id=task.task_id,
                workflow_instance_id=task.workflow_instance_id,
                status=TaskResultStatus.IN_PROGRESS,
                extend_lease=True,
                lease_id=task.lease_id,
            )
            began = time.perf_counter()
            for _ in range(STEPS):
                await tasks.update_task(beat)
            found["heartbeat"].append((time.perf_counter() - began) / STEPS * 1000)
            if dbos_python is not None:
                found.setdefault("DBOS step", []).append(_measure_dbos(dbos_python))
    return found


def _find_dbos() -> Path | None:
    try:
        return environment("dbos", *DBOS_PACKAGES)
    except Unavailable as error:
        print(f"DBOS is left out: {error}")
        return None


def _measure_dbos(python: Path) -> float:
    """Run the program of DBOS once. Return its milliseconds per step."""
    with tempfile.TemporaryDirectory() as directory:
        ran = subprocess.run(
            [python, str(PROGRAM), str(STEPS)], cwd=directory, capture_output=True, text=True, timeout=120, check=False
        )
    if ran.returncode:
        sys.exit(f"the program of DBOS failed:\n{ran.stderr[-2000:]}")
    return float(ran.stdout.split()[-1])


def main() -> None:
    """Print the table."""
    with coordinator() as url:
        found = asyncio.run(_measure(url, _find_dbos()))
    beat = statistics.median(found["heartbeat"])
    print(f"{STEPS} in a row, median of {ROUNDS} rounds in turns{'ms each':>12}{'× heartbeat':>14}")
    for name, values in found.items():
        value = statistics.median(values)
        print(f"{name:<44}{value:>12.2f}{value / beat:>14.1f}")


if __name__ == "__main__":
    main()
