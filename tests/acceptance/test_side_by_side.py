"""Workflow definitions of a folder run to the same end on a Conductor server and on the coordinator.

    CONDUCTOR_DEFINITIONS=folder make test-conductor TARGETS=conductor-sqlite ARGS="-k side_by_side"

Every `*.json` of the folder is one definition. It is registered on both servers under its own name, worked off there by
the same workers, and both runs are compared task by task. Definitions with AI, Kafka or task types that only relatives
of Conductor have are left out. Definitions that a Conductor server cannot start are only registered on the coordinator.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.acceptance.servers.targets import EmbeddedCoordinator, Target
from tests.acceptance.side_by_side.definitions import (
    Definition,
    harmless,
    left_out,
    read,
    retries,
    sub_workflows,
    tasks_of,
    worker_tasks,
)
from tests.acceptance.side_by_side.run import Server
from tests.acceptance.side_by_side.shape import mended, shape, waits_for_ever
from tests.acceptance.side_by_side.stub import stub
from tests.acceptance.side_by_side.values import MADE_TASK, MADE_WORKFLOW, WAYS, Way, made_up

VARIABLE = "CONDUCTOR_DEFINITIONS"
FOLDER = os.environ.get(VARIABLE, "")
FILES = sorted(Path(FOLDER).glob("*.json")) if FOLDER else []

pytestmark = pytest.mark.skipif(not FILES, reason=f"{VARIABLE} names no folder with workflow definitions (*.json)")


def ways(definition: Definition) -> Iterator[Way]:
    """The ways through a definition that differ."""
    has_cases = any(task.get("decisionCases") for task in tasks_of(definition))
    for way in WAYS:
        if (way.case == 0 or has_cases) and (not way.fails or worker_tasks(definition)):
            yield way


def runs() -> Iterator[object]:
    """Every definition, in each way that makes a difference."""
    for file in FILES:
        definition = read(file)
        if left_out(definition) is None:
            for way in ways(definition):
                yield pytest.param(file, way, id=f"{file.stem}-{way.name.replace(' ', '-')}")


@pytest.fixture(scope="module")
def stub_url() -> Iterator[str]:
    with stub() as url:
        yield url


@pytest.fixture(scope="module")
def servers(target: Target, coordinator: EmbeddedCoordinator, stub_url: str) -> Iterator[tuple[Server, Server]]:
    """The real server and the coordinator, with every workflow and task that a definition may name."""
    found = Server(target.url), Server(coordinator.url)
    known = [harmless(read(file), stub_url) for file in FILES]
    known = [one for one in known if left_out(one) is None]
    names = {one["name"] for one in known}
    step = {"name": MADE_TASK, "taskReferenceName": "made", "type": "SIMPLE"}
    asked = {name for one in known for name in sub_workflows(one)} - names | {MADE_WORKFLOW}
    helpers = [{"name": name, "version": 1, "ownerEmail": "a@b.c", "tasks": [step]} for name in sorted(asked)]
    for server in found:
        server.define_tasks(sorted({MADE_TASK}.union(*map(worker_tasks, known))), retries=0)
        for definition in (*helpers, *known):
            server.register(definition)
    yield found
    for server in found:
        server.close()


@pytest.mark.targets("conductor-sqlite")
@pytest.mark.parametrize(("file", "way"), list(runs()))
def test_a_definition_runs_to_the_same_end(servers: tuple[Server, Server], stub_url: str, file: Path, way: Way) -> None:
    definition = harmless(read(file), stub_url)
    values = made_up(definition, way, stub_url)
    for server in servers:
        server.define_tasks(sorted({MADE_TASK} | worker_tasks(definition)), retries(definition))
    refused = [server.register(definition) for server in servers]
    assert refused[1] is None, f"the coordinator refuses it: {refused[1]} (the real server: {refused[0]})"
    if refused[0] is not None:
        pytest.skip(f"the real server refuses it: {refused[0]}")
    started = [server.start(definition, values.input) for server in servers]
    if not started[0].is_success:
        pytest.skip(f"the real server does not start it: {started[0].text}")
    assert started[1].is_success, started[1].text
    with ThreadPoolExecutor(2) as both:
        ended = list(both.map(lambda pair: pair[0].run(pair[1].text, values, way), zip(servers, started, strict=True)))
    if waits_for_ever(ended[0]):
        assert not waits_for_ever(ended[1]), "here too a JOIN waits for ever"
        return
    there, here = shape(mended(ended[0])), shape(ended[1])
    reasons = [one.get("reasonForIncompletion") for one in ended]
    differences = "\n".join(difflib.unified_diff(there, here, "the real server", "the coordinator", lineterm="", n=50))
    assert there == here, f"{differences}\nreasons: {reasons}"
