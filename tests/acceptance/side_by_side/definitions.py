"""Workflow definitions out of a folder, made harmless: addresses lead to a stub, waits and retry delays are short."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from conductor.coordinator.definitions.validation import AI_TYPES, FOREIGN_TYPES

Definition = dict[str, Any]

_ADDRESS = re.compile(r"https?://[^/\s\"'}]*")
#: Long enough to be seen waiting, short enough to wait for.
SHORT_WAIT = "1 seconds"
OWNER = "a@b.c"


def read(file: Path) -> Definition:
    """A definition as the file has it."""
    found: Definition = json.loads(file.read_text("utf-8"))
    return found


def tasks_of(definition: Any) -> Iterator[dict[str, Any]]:
    """Every task of a definition, also inside other tasks, inline sub-workflows and values."""
    if isinstance(definition, dict):
        if "taskReferenceName" in definition:
            yield definition
        for value in definition.values():
            yield from tasks_of(value)
    elif isinstance(definition, list):
        for value in definition:
            yield from tasks_of(value)


def left_out(definition: Definition) -> str | None:
    """The first type of a definition that is about AI, Kafka or something only relatives of Conductor have."""
    types = (str(task.get("type", "SIMPLE")) for task in tasks_of(definition))
    return next((kind for kind in types if kind in FOREIGN_TYPES or kind.startswith(AI_TYPES)), None)


def harmless(definition: Definition, stub: str) -> Definition:
    """Return the definition with local addresses, short waits and an owner, which a Conductor server requires."""
    text = _ADDRESS.sub(stub, json.dumps(definition))
    found: Definition = json.loads(text)
    found.setdefault("ownerEmail", OWNER)
    found.setdefault("version", 1)
    for task in tasks_of(found):
        given = task.get("inputParameters") or {}
        if task.get("type") == "WAIT" and given.get("duration"):
            given["duration"] = SHORT_WAIT
        own = task.get("taskDefinition")
        if own:
            own.update(retryDelaySeconds=0, ownerEmail=OWNER, retryCount=retries(found))
    return found


def retries(definition: Definition) -> int:
    """How often a failed task is tried again.

    Not at all beside a JOIN: the real server looks at a JOIN in a thread of its own, and if that comes between a
    failure and the next attempt, the JOIN and with it the workflow fail, with the attempt still to be made.
    """
    return 0 if any(task.get("type") == "JOIN" for task in tasks_of(definition)) else 1


def sub_workflows(definition: Definition) -> set[str]:
    """The names of the workflows that a definition starts, where it says them."""
    names = set()
    for task in tasks_of(definition):
        given = task.get("inputParameters") or {}
        asked = [task.get("subWorkflowParam"), given.get("startWorkflow"), {"name": given.get("forkTaskWorkflow")}]
        names |= {one["name"] for one in asked if isinstance(one, dict) and isinstance(one.get("name"), str)}
    names.add(str(definition.get("failureWorkflow") or ""))
    return {name for name in names if name and "$" not in name}


def worker_tasks(definition: Definition) -> set[str]:
    """The names of the tasks that workers poll."""
    return {
        str(task["name"])
        for task in tasks_of(definition)
        if task.get("type", "SIMPLE") == "SIMPLE" and task.get("name")
    }
