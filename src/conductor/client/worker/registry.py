"""What the decorator writes and the handlers read: every decorated worker of this process, by name and domain."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from conductor.client.worker.worker import Worker

_lock = threading.Lock()
_workers: dict[tuple[str, str | None], list[Worker]] = {}
_by_function: dict[int, Worker] = {}


class DuplicateWorkerError(ValueError):
    """Two different functions claim the same task type in the same domain."""


def register(worker: Worker) -> None:
    """Remember a decorated worker. The same function again (a reload, a notebook cell) replaces its older self."""
    function = worker.execute_function
    key = (worker.task_definition_name, worker.domain)
    with _lock:
        others = [known for known in _workers.get(key, []) if _origin(known.execute_function) != _origin(function)]
        _workers[key] = [*others, worker]
        if function is not None:
            _by_function[id(function)] = worker


def registered() -> list[Worker]:
    """All decorated workers, in order; DuplicateWorkerError if two functions claim one task type and domain."""
    with _lock:
        claims = list(_workers.items())
    for (name, domain), workers in claims:
        if len(workers) > 1:
            places = " and ".join(".".join(_origin(worker.execute_function)) for worker in workers)
            where = f" in domain '{domain}'" if domain else ""
            raise DuplicateWorkerError(
                f"task type '{name}'{where} is claimed by two functions: {places}. Rename one, or give it a domain"
            )
    return [workers[-1] for _, workers in claims if workers]


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
    return [worker.get_task_definition_name() for worker in registered()]


def worker_of(function: Callable[..., Any]) -> Worker | None:
    """The worker that the decorator made of this function, if it did."""
    found = _by_function.get(id(function))
    return found if found is not None and found.execute_function is function else None


def clear() -> None:
    """Forget every decorated worker. For tests."""
    with _lock:
        _workers.clear()
        _by_function.clear()


def _origin(function: Callable[..., Any] | None) -> tuple[str, str]:
    module = getattr(function, "__module__", None) or "?"
    # A child process knows the user's script by another name; it is the same script.
    module = "__main__" if module == "__mp_main__" else module
    return module, getattr(function, "__qualname__", None) or repr(function)
