"""Two nodes behind a load balancer: the death of one is nobody's loss."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from conductor.client.event.task_runner_events import TaskUpdateCompleted
from conductor.client.http.async_rest import ConductorError
from conductor.client.worker.worker import Worker
from tests.acceptance.server_session import Bench
from tests.acceptance.servers.targets import Cluster

WORKFLOWS = 150
#: The node dies when this many tasks are done.
DIES_AFTER = 40
#: What the dead node had taken out of a queue comes back by response timeout or by the other node's sweep: minutes.
PATIENCE_S = 780.0


@pytest.mark.targets("conductor-cluster")
async def test_a_node_killed_under_load_costs_no_workflow(bench: Bench) -> None:
    assert isinstance(bench.target, Cluster)
    bench.patience_s = PATIENCE_S
    first, second, ran = bench.named("first"), bench.named("second"), Counter[str]()
    for name in (first, second):
        await bench.define(name, response_timeout_seconds=10, retry_count=10, retry_delay_seconds=0)

    async def work(number: int) -> dict[str, int]:
        ran[f"{number}"] += 1
        return {"number": number}

    async with bench.handler(
        Worker(first, work, thread_count=10), Worker(second, work, thread_count=10), shutdown_grace_seconds=25
    ):
        starting = asyncio.create_task(start_all(bench, first, second))
        await bench.events.until(TaskUpdateCompleted, DIES_AFTER)
        await asyncio.to_thread(bench.target.nodes[0].kill)
        ids = await starting
        workflows = await bench.all_ended(ids)
        await asyncio.to_thread(bench.target.nodes[0].revive)
        workflows += await bench.all_ended(await bench.start_many(10, first, second, input={"number": WORKFLOWS}))
    assert Counter(workflow.status for workflow in workflows) == {"COMPLETED": len(ids) + 10}
    assert len(ids) >= WORKFLOWS - 20  # hardly a start was in the dying node's hands
    assert all(ran[str(workflow.input["number"])] >= 2 for workflow in workflows)


async def start_all(bench: Bench, *steps: str) -> list[str]:
    """The ids of those whose start was answered; a start that was cut off may or may not have happened."""
    ids = []
    for number in range(WORKFLOWS):
        try:
            ids.append(await bench.start(*steps, input={"number": number}))
        except ConductorError:
            await asyncio.sleep(0.1)
    return ids
