"""Checks a function when it is decorated: parameters that no task can fill, and results that cannot be reported."""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

from conductor.client.worker.parameters import list_parameters, unwrap
from conductor.client.worker.registry import find_worker

#: A single parameter without annotation receives the whole task. With one of these names, that is probably intended.
_TASK_NAMES = ("task", "t", "_")
_MUTABLE = (list, dict, set, bytearray)


class WorkerWarning(UserWarning):
    """A decorated function probably does not get the arguments that its author expects."""


def check_function(task_name: str, function: Callable[..., Any]) -> None:
    """Warn about a function that probably does not work as a worker.

    Raises:
        TypeError: The function cannot work as a worker: it is a generator or a method without its object.
    """
    inner = unwrap(function)
    if not inspect.isfunction(inner):
        return
    owner = f"worker {task_name!r}: {inner.__qualname__}"
    if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
        raise TypeError(
            f"{owner} is a generator, and a worker returns one result: return a list instead of yielding its items"
        )
    parameters = list(list_parameters(function).values())
    if _is_method(inner, parameters):
        raise TypeError(
            f"{owner} is a method, and a task has no {parameters[0].name!r}: decorate a function, or pass the bound "
            f"method, Worker({task_name!r}, obj.{inner.__name__})"
        )
    if _is_child():
        return  # a worker process imports the module again, and the main process has warned already
    for problem in _find_problems(task_name, function, inner, parameters):
        warnings.warn(f"{owner} {problem}", WorkerWarning, stacklevel=3)


def _is_child() -> bool:
    """Return whether multiprocessing has started this process. Does not import multiprocessing, which is large."""
    process = sys.modules.get("multiprocessing.process")
    return process is not None and process.current_process().name != "MainProcess"


def _is_method(function: Callable[..., Any], parameters: list[inspect.Parameter]) -> bool:
    """Return whether the function is defined in the body of a class and has `self` or `cls` as its first parameter."""
    *_, scope, _name = ["", "<locals>", *function.__qualname__.split(".")]
    return scope != "<locals>" and bool(parameters) and parameters[0].name in ("self", "cls")


def _find_problems(
    task_name: str, function: Callable[..., Any], inner: FunctionType, parameters: list[inspect.Parameter]
) -> Iterator[str]:
    kinds = [parameter.kind for parameter in parameters]
    if kinds == [inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD] and not hasattr(
        function, "__wrapped__"
    ):
        yield (
            "takes (*args, **kwargs), so its parameters and types are unknown: if a decorator wraps it, let the "
            "decorator use functools.wraps"
        )
        return
    earlier = find_worker(function)
    if earlier is not None and earlier.task_definition_name != task_name:
        yield (
            f"is already the worker of {earlier.task_definition_name!r}, so both task types run it: remove one "
            "decorator, or write one function per task type"
        )
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            yield (
                f"takes *{parameter.name}, which stays empty, because a task fills parameters by name: use named "
                "parameters"
            )
        if isinstance(parameter.default, _MUTABLE):
            yield (
                f"has the mutable default {parameter.default!r} for {parameter.name!r}, which all tasks of a process "
                "share: use None, and create the value in the function"
            )
    if len(parameters) == 1 and _receives_task_by_surprise(parameters[0]):
        name = parameters[0].name
        form = "write a `def` that annotates it" if inner.__name__ == "<lambda>" else "annotate it"
        yield (
            f"has the single parameter {name!r} without an annotation, so it receives the whole Task: {form} with its "
            f"type for the input {name!r}, or with Task"
        )


def _receives_task_by_surprise(parameter: inspect.Parameter) -> bool:
    if parameter.annotation is not parameter.empty or parameter.default is not parameter.empty:
        return False
    is_named = parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    return is_named and not parameter.name.startswith("_") and not _announces_task(parameter.name)


def _announces_task(name: str) -> bool:
    return name in _TASK_NAMES or "task" in name.lower()
