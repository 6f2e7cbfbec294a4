"""Checks whether workers, lifespans and listeners can be sent to a worker process, before it is started.

A worker process that is not forked imports the user's script again and receives its workers by pickle. If an object
cannot be pickled, the start fails with an error that names the object and a remedy.
"""

from __future__ import annotations

import ast
import inspect
import pickle
import sys
from collections.abc import Iterable
from dataclasses import replace
from multiprocessing.reduction import ForkingPickler
from typing import Any

from conductor.client.automator.child import ChildSpec, WorkerReference
from conductor.client.worker import registry
from conductor.client.worker.dependencies import get_name
from conductor.client.worker.worker import Worker


def make_portable(spec: ChildSpec) -> ChildSpec:
    """Return the spec in a form that can be sent to another process.

    Raises:
        TypeError: A worker, lifespan or listener cannot be sent; the message says what to do.
    """
    spec = replace(spec, workers=tuple(map(_make_portable_worker, spec.workers)))
    for lifespan in spec.lifespans:
        name = f"lifespan {get_name(lifespan)}"
        _check_main_guard(name, lifespan)
        _check_pickles(lifespan, name, "Define it at the top of a module, not inside a function")
    advice = "Define its class at the top of a module and keep files, locks and clients out of its attributes"
    for listener in spec.listeners:
        _check_pickles(listener, f"event listener {listener!r}", advice)
    return spec


def _check_pickles(thing: Any, name: str, advice: str) -> None:
    try:
        ForkingPickler.dumps(thing)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise TypeError(
            f"{name} cannot be sent to the worker processes ({error}). {advice}; "
            "or use start_method='fork' or TaskHandlerAsyncIO"
        ) from None


def _make_portable_worker(worker: Any) -> Any:
    """Return the worker, or a reference to the place where it is decorated if it cannot be pickled."""
    name = worker.get_task_definition_name()
    function = getattr(worker, "execute_function", None)
    _check_main_guard(f"worker '{name}'", function if inspect.isfunction(function) else type(worker))
    try:
        ForkingPickler.dumps(worker)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        is_local = "<locals>" in getattr(function, "__qualname__", "<locals>")
        is_decorated = isinstance(worker, Worker) and function is not None and registry.find_worker(function) is worker
        if function is not None and is_decorated and not is_local:
            return WorkerReference(function.__module__, name, worker.domain)
        raise TypeError(
            f"worker '{name}' cannot be sent to its process ({error}). Define its function or class at the top of a "
            "module, not inside a function; or use start_method='fork' or TaskHandlerAsyncIO"
        ) from None
    return worker


def _check_main_guard(what: str, source: Any) -> None:
    """Raise if a function or class is defined only in the script's main block, which worker processes do not run."""
    name = get_name(source).partition(".")[0]
    if getattr(source, "__module__", None) == "__main__" and name in _find_names_under_main_guard():
        raise TypeError(
            f"{what} cannot be sent to its process: {name} is defined under "
            '`if __name__ == "__main__":`, which worker processes do not run. Move it out of there, to the top of the '
            "script or of a module; or use start_method='fork' or TaskHandlerAsyncIO"
        )


def _find_names_under_main_guard() -> set[str]:
    """Return the functions and classes that are defined only under `if __name__ == "__main__":`."""
    try:
        script = ast.parse(inspect.getsource(sys.modules["__main__"]))
    except (OSError, TypeError, SyntaxError):  # the script is not a file, or the file has changed
        return set()
    guarded = [node for node in script.body if isinstance(node, ast.If) and "__name__" in ast.unparse(node.test)]
    unguarded = _find_definitions(node for node in script.body if node not in guarded)
    return _find_definitions(inner for node in guarded for inner in node.body) - unguarded


def _find_definitions(nodes: Iterable[ast.AST]) -> set[str]:
    return {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}
