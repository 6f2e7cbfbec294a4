"""What the decorators write and the handlers read: the decorated workers of this process, and its lifespans."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from conductor.client.worker.worker import Worker
from conductor.client.worker.worker_interface import undecorate

_lock = threading.Lock()
_workers: dict[tuple[str, str | None], list[Worker]] = {}
_by_function: dict[int, Worker] = {}
_lifespans: dict[tuple[str, str], Callable[..., Any]] = {}


class DuplicateWorkerError(ValueError):
    """Two different functions claim the same task type in the same domain, and `strict_registry` is on."""


def register(worker: Worker) -> None:
    """Remember a decorated worker. The same function again (a reload, a notebook cell) replaces its older self."""
    function = worker.execute_function
    key = (worker.task_definition_name, worker.domain)
    with _lock:
        others = [known for known in _workers.get(key, []) if _origin(known.execute_function) != _origin(function)]
        _workers[key] = [*others, worker]
        if function is not None:
            _by_function[id(function)] = _by_function[id(undecorate(function))] = worker


def list_workers() -> list[Worker]:
    """All decorated workers, in order. Of two functions for one task type and domain, the one decorated last."""
    with _lock:
        return [workers[-1] for workers in _workers.values() if workers]


def describe_duplicates() -> list[str]:
    """A sentence for each task type and domain that two functions claim: which they are, and which one runs."""
    with _lock:
        claims = [(name, domain, workers) for (name, domain), workers in _workers.items() if len(workers) > 1]
    return [
        describe_duplicate(name, domain, [_place(worker) for worker in workers]) for name, domain, workers in claims
    ]


def describe_duplicate(name: str, domain: str | None, claimants: list[str]) -> str:
    """What to tell somebody who has several workers for one task type; the last one runs."""
    where = f" in domain '{domain}'" if domain else ""
    return (
        f"task type '{name}'{where} has {len(claimants)} workers: {' and '.join(claimants)}; the last one runs. "
        "Rename one, or give it a domain"
    )


def register_decorated_fn(
    name: str,
    poll_interval: int | None,
    domain: str | None,
    worker_id: str | None,
    func: Callable[..., Any],
    **rest: Any,
) -> None:
    """Make a worker of a function without decorating it, as conductor-python has it; `rest` are further options."""
    register(Worker(name, func, poll_interval, domain, worker_id, **rest))


def get_registered_worker_names() -> list[str]:
    """The task types of all decorated workers."""
    return [worker.get_task_definition_name() for worker in list_workers()]


def find_worker(function: Callable[..., Any]) -> Worker | None:
    """The worker that the decorator made of this function, if it did."""
    found = _by_function.get(id(function))
    if found is None or not (found.execute_function is function or undecorate(found.execute_function) is function):
        return None
    return found


def find_worker_in_module(module: str, name: str, domain: str | None) -> Worker | None:
    """The decorated worker of this task type and domain whose function is of that module, if there is one."""
    with _lock:
        claimants = _workers.get((name, domain), [])
        return next((one for one in reversed(claimants) if _origin(one.execute_function)[0] == module), None)


def register_lifespan(function: Callable[..., Any]) -> None:
    """Remember a lifespan. The same function again (a reload, a notebook cell) replaces its older self."""
    with _lock:
        _lifespans[_origin(function)] = function


def list_lifespans() -> list[Callable[..., Any]]:
    """All lifespans, in order."""
    with _lock:
        return list(_lifespans.values())


def clear() -> None:
    """Forget every decorated worker and every lifespan. For tests."""
    with _lock:
        _lifespans.clear()
        _workers.clear()
        _by_function.clear()


def _place(worker: Worker) -> str:
    return ".".join(_origin(worker.execute_function))


def _origin(function: Callable[..., Any] | None) -> tuple[str, str]:
    module = getattr(function, "__module__", None) or "?"
    # A child process knows the user's script by another name; it is the same script.
    module = "__main__" if module == "__mp_main__" else module
    return module, getattr(function, "__qualname__", None) or repr(function)
