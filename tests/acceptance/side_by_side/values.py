"""Makes up inputs and outputs that lead a workflow through its definition."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.acceptance.side_by_side.definitions import Definition, tasks_of

_EXPRESSION = re.compile(r"\$\{([^{}]+)\}")
_NAMES = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
#: The task that dynamic forks and DYNAMIC tasks run.
MADE_TASK = "made_task"
#: A workflow of one task, for starts of a workflow that does not exist.
MADE_WORKFLOW = "made_workflow"
LONG_AGO = "2024-01-01 00:00 UTC"
_BRANCHES = [{"name": MADE_TASK, "taskReferenceName": f"made_{n}", "type": "SIMPLE"} for n in (1, 2)]
_BRANCH_INPUTS = {f"made_{n}": {"number": n} for n in (1, 2)}


@dataclass(frozen=True)
class Way:
    """How a definition is run."""

    name: str
    #: Which case a SWITCH is led to: 0 is the first, -1 the last; None: one that it has not.
    case: int | None = 0
    #: Whether the first task for workers fails, as often as it is tried.
    fails: bool = False


WAYS = (Way("first case"), Way("last case", case=-1), Way("no such case", case=None), Way("fails", fails=True))


@dataclass
class Values:
    """The input of a workflow, and the output of the worker of each task."""

    input: dict[str, Any] = field(default_factory=dict)
    outputs: dict[str, dict[str, Any]] = field(default_factory=dict)


def made_up(definition: Definition, way: Way, stub: str) -> Values:
    """Values for everything that the definition asks its input and its tasks for."""
    found = Values()
    for text, value in _uses(definition, way, stub):
        for expression in _EXPRESSION.findall(text):
            names = _NAMES.findall(expression)
            if names[:2] == ["workflow", "input"]:
                _put(found.input, names[2:], value)
            elif names[1:2] == ["output"]:
                _put(found.outputs.setdefault(names[0], {}), names[2:], value)
    return found


def _put(into: dict[str, Any], names: list[str], value: Any) -> None:
    """Put a value under a path of names. An earlier value stays, because it comes from a stricter use."""
    for name in names[:-1]:
        inner = into.setdefault(name, {})
        if not isinstance(inner, dict):
            return
        into = inner
    if names:
        into.setdefault(names[-1], value)


def _uses(definition: Definition, way: Way, stub: str) -> Iterator[tuple[str, Any]]:
    """(text with expressions, what they should give). First those that need something certain."""
    for task in tasks_of(definition):
        for name, value in (task.get("inputParameters") or {}).items():
            certain = _needed(task, name, way)
            if isinstance(value, str) and certain is not None:
                yield value, certain
        asked = (task.get("subWorkflowParam") or {}).get("name")
        if isinstance(asked, str):
            yield asked, MADE_WORKFLOW
    for key, text in _texts(definition, ""):
        yield text, f"{stub}/{key}" if "ur" in key.lower() else f"some {key}"


def _needed(task: dict[str, Any], name: str, way: Way) -> Any:
    """Return the value that a parameter needs for the task to work, or None if any value will do."""
    kind = task.get("type")
    if kind in ("SWITCH", "DECISION") and name in (task.get("expression"), task.get("caseValueParam")):
        cases = list(task.get("decisionCases") or {})
        return cases[way.case] if cases and way.case is not None else "no such case"
    if kind == "DO_WHILE":
        return 2
    if kind == "WAIT" and name == "until":
        return LONG_AGO
    if kind == "DYNAMIC" and name == task.get("dynamicTaskNameParam"):
        return MADE_TASK
    if kind == "FORK_JOIN_DYNAMIC":
        return {
            task.get("dynamicForkTasksParam"): _BRANCHES,
            task.get("dynamicForkTasksInputParamName"): _BRANCH_INPUTS,
            "forkTaskInputs": list(_BRANCH_INPUTS.values()),
            "forkTaskName": MADE_TASK,
        }.get(name)
    return None


def _texts(value: Any, key: str) -> Iterator[tuple[str, str]]:
    """(the key that it is under, text) of every text."""
    if isinstance(value, str):
        yield key, value
    for inner_key, inner in value.items() if isinstance(value, dict) else ():
        yield from _texts(inner, str(inner_key))
    for inner in value if isinstance(value, list) else ():
        yield from _texts(inner, key)
