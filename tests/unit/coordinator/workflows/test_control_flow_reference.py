"""docs/reference/workflows.md: each control-flow example and each whole definition runs to its end."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest

from conductor.coordinator.definitions.workflow_plan import walk_tasks
from tests.unit.coordinator.core_harness import Harness, simple

PAGE = (Path(__file__).parents[4] / "docs" / "reference" / "workflows.md").read_text("utf-8")
CONTROL = PAGE.partition("\n## Control flow\n")[2].partition("\n## ")[0]
EXAMPLES = [json.loads(text) for text in re.findall(r"```json\n(.*?)```", CONTROL, re.DOTALL)]
#: The examples that are whole workflows.
WHOLE = [
    found
    for found in (json.loads(text) for text in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL))
    if isinstance(found, dict) and "tasks" in found
]
GIVEN = {
    "size": "small",
    "what": "pack",
    "order": 7,
    "images": ["a", "b"],
    "orders": [1, 2, 3],
    "tasks": [{"name": "pack", "taskReferenceName": "one"}, {"name": "bill", "taskReferenceName": "two"}],
    "inputs": {"one": {"n": 1}},
}


@pytest.mark.parametrize("tasks", EXAMPLES, ids=lambda tasks: tasks[0]["taskReferenceName"])
def test_an_example_runs(harness: Harness, tasks: list[dict[str, Any]]) -> None:
    harness.workflow_def("delivery", simple("ship"))
    harness.workflow_def("flow", *tasks)
    workflow = harness.start("flow", input=GIVEN)
    names = {task["name"] for task in walk_tasks(tasks)} | {"pack", "bill", "ship"}
    for _ in itertools.takewhile(lambda _: harness.workflow(workflow)["status"] == "RUNNING", range(20)):
        for found in (task for name in names for task in harness.poll(name, count=10)):
            harness.report(found, outputData={"done": True})
        harness.advance(30)
    assert harness.workflow(workflow)["status"] == "COMPLETED"


@pytest.mark.parametrize("definition", WHOLE, ids=lambda definition: definition["name"])
def test_a_whole_definition_runs(harness: Harness, definition: dict[str, Any]) -> None:
    fields = {name: value for name, value in definition.items() if name not in ("name", "tasks")}
    harness.workflow_def(definition["name"], *definition["tasks"], **fields)
    first, *_ = started = [harness.start(definition["name"], input={**GIVEN, "customer": "Ada"}) for _ in range(3)]
    limited = [harness.workflow(one).get("rateLimited", False) for one in started]
    assert limited == [False, False, "rateLimitConfig" in definition]
    task = harness.poll_one(definition["tasks"][0]["name"])
    assert task["inputData"].get("note", "none") == "none"
    harness.report(task, outputData={"done": True})
    assert harness.workflow(first)["status"] == "COMPLETED"
    assert not any(harness.workflow(one).get("rateLimited") for one in started)


def test_there_is_an_example_of_every_type_of_control() -> None:
    shown = {task.get("type") for tasks in EXAMPLES for task in walk_tasks(tasks)}
    assert shown >= {
        *("SWITCH", "FORK_JOIN", "JOIN", "FORK_JOIN_DYNAMIC", "DYNAMIC", "EXCLUSIVE_JOIN", "DO_WHILE"),
        *("SUB_WORKFLOW", "SET_VARIABLE", "WAIT", "TERMINATE"),
    }
