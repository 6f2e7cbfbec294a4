"""Workflows in Python run to the same end on the coordinator and on a Conductor server."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from conductor.client.http.models.task import Task
from conductor.client.worker import registry
from conductor.client.worker.worker import Worker
from tests.acceptance.server_session import Session

pytestmark = pytest.mark.targets("coordinator", "conductor-sqlite")

PROGRAMS = Path(__file__).parents[1] / "integration" / "sdk_scripts" / "workflow_programs.py"


@pytest.fixture
def programs() -> Iterator[ModuleType]:
    before = registry.list_workers()
    spec = importlib.util.spec_from_file_location("workflow_programs", PROGRAMS)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    registry.clear()
    for worker in before:
        registry.register(worker)


def echo(task: Task) -> dict[str, Any]:
    return dict(task.input_data)


async def test_all_that_can_be_run_run_to_the_end(programs: ModuleType, session: Session) -> None:
    for name in ("echo", "greet", "shout"):
        await session.define(name)
    started = {}
    async with session.handler(Worker("echo", echo, thread_count=4), programs.greet, programs.shout):
        for name, given in programs.RUNNABLE.items():
            definition = programs.PROGRAMS[name]().to_workflow_def()
            definition.name = session.named(name)
            request = programs.StartWorkflowRequest(name=definition.name, input=given, workflow_def=definition)
            started[name] = await session.workflows.start_workflow(request)
        ended = {name: (await session.ended(workflow_id)).status for name, workflow_id in started.items()}
    assert len(ended) >= 25
    assert set(ended.values()) == {"COMPLETED"}, ended
