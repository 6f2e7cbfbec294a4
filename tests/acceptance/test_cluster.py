"""Two nodes behind a load balancer: the death of one loses nothing."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from conductor.client.event.task_runner_events import TaskUpdateCompleted
from conductor.client.http.async_rest import ConductorError
from conductor.client.worker.worker import Worker
from tests.acceptance.server_session import Session
from tests.acceptance.servers.targets import Cluster

WORKFLOWS = 150
#: The node dies when this many tasks are done.
DIES_AFTER = 40
#: Tasks that the dead node took out of a queue come back by response timeout or by the other node's sweep: minutes.
PATIENCE_S = 780.0


@pytest.mark.targets("conductor-cluster")
async def test_a_node_killed_under_load_costs_no_workflow(session: Session) -> None:
    assert isinstance(session.target, Cluster)
    session.patience_s = PATIENCE_S
    first, second, ran = session.named("first"), session.named("second"), Counter[str]()
    for name in (first, second):
        await session.define(name, response_timeout_seconds=10, retry_count=10, retry_delay_seconds=0)

    async def work(number: int) -> dict[str, int]:
        ran[f"{number}"] += 1
        return {"number": number}

    async with session.handler(
        Worker(first, work, thread_count=10), Worker(second, work, thread_count=10), shutdown_grace_seconds=25
    ):
        starting = asyncio.create_task(start_all(session, first, second))
        await session.events.until(TaskUpdateCompleted, DIES_AFTER)
        await asyncio.to_thread(session.target.nodes[0].kill)
        ids = await starting
        workflows = await session.all_ended(ids)
        await asyncio.to_thread(session.target.nodes[0].revive)
        workflows += await session.all_ended(await session.start_many(10, first, second, input={"number": WORKFLOWS}))
    assert Counter(workflow.status for workflow in workflows) == {"COMPLETED": len(ids) + 10}
    assert len(ids) >= WORKFLOWS - 20  # hardly a start was in the dying node's hands
    assert all(ran[str(workflow.input["number"])] >= 2 for workflow in workflows)


async def start_all(session: Session, *steps: str) -> list[str]:
    """The ids of those whose start was answered; a start that was cut off may or may not have happened."""
    ids = []
    for number in range(WORKFLOWS):
        try:
            ids.append(await session.start(*steps, input={"number": number}))
        except ConductorError:
            await asyncio.sleep(0.1)
    return ids
