"""The decorated workers and lifespans of this process. Decorators add to this registry, and handlers read it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from conductor.client.worker.worker import Worker
from conductor.client.worker.worker_interface import undecorate

if TYPE_CHECKING:
    from conductor.client.worker.parameters import UserFunction

_lock = threading.Lock()
_workers: dict[tuple[str, str | None], list[Worker]] = {}
_by_function: dict[int, Worker] = {}
_lifespans: dict[tuple[str, str], UserFunction] = {}


class DuplicateWorkerError(ValueError):
    """Two functions serve the same task type and domain, and `strict_registry` is set."""


def register(worker: Worker) -> None:
    """Add a worker. Replace an older version of the same function, as after a reload or in a notebook."""
    function = worker.execute_function
    key = (worker.task_definition_name, worker.domain)
    with _lock:
        others = [
            known for known in _workers.get(key, []) if _find_origin(known.execute_function) != _find_origin(function)
        ]
        _workers[key] = [*others, worker]
        if function is not None:
            _by_function[id(function)] = _by_function[id(undecorate(function))] = worker


def list_workers() -> list[Worker]:
    """Return the decorated workers in order.

    Of several workers for one task type and domain, only the last is returned.
    """
    with _lock:
        return [workers[-1] for workers in _workers.values() if workers]


def describe_duplicates() -> list[str]:
    """Return a message for each task type and domain that several functions serve."""
    with _lock:
        claims = [(name, domain, workers) for (name, domain), workers in _workers.items() if len(workers) > 1]
    return [
        describe_duplicate(name, domain, [_format_origin(worker) for worker in workers])
        for name, domain, workers in claims
    ]


def describe_duplicate(name: str, domain: str | None, claimants: list[str]) -> str:
    """Return the message about several workers for one task type and domain."""
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
    func: UserFunction,
    **rest: Any,
) -> None:
    """Register a function without decorating it, as in conductor-python.

    Args:
        name: The task type.
        poll_interval: The longest wait between two polls, in milliseconds.
        domain: The task domain to poll.
        worker_id: The name of the worker in polls and reports.
        func: The function.
        **rest: Further options of `Worker`.
    """
    register(Worker(name, func, poll_interval, domain, worker_id, **rest))


def get_registered_worker_names() -> list[str]:
    """Return the task types of all decorated workers."""
    return [worker.get_task_definition_name() for worker in list_workers()]


def find_worker(function: UserFunction) -> Worker | None:
    """Return the worker of a decorated function; None for other functions."""
    found = _by_function.get(id(function))
    if found is None or not (found.execute_function is function or undecorate(found.execute_function) is function):
        return None
    return found


def find_worker_in_module(module: str, name: str, domain: str | None) -> Worker | None:
    """Return the worker of this task type and domain whose function is in that module, if there is one."""
    with _lock:
        claimants = _workers.get((name, domain), [])
        return next((one for one in reversed(claimants) if _find_origin(one.execute_function)[0] == module), None)


def register_lifespan(function: UserFunction) -> None:
    """Add a lifespan. Replace an older version of the same function."""
    with _lock:
        _lifespans[_find_origin(function)] = function


def list_lifespans() -> list[UserFunction]:
    """Return the lifespans in the order of their decoration."""
    with _lock:
        return list(_lifespans.values())


def clear() -> None:
    """Remove all workers and lifespans. For tests."""
    with _lock:
        _lifespans.clear()
        _workers.clear()
        _by_function.clear()


def _format_origin(worker: Worker) -> str:
    return ".".join(_find_origin(worker.execute_function))


def _find_origin(function: UserFunction | None) -> tuple[str, str]:
    module = getattr(function, "__module__", None) or "?"
    # In a child process, multiprocessing loads the main script as `__mp_main__`. Give its functions the same origin.
    module = "__main__" if module == "__mp_main__" else module
    return module, getattr(function, "__qualname__", None) or repr(function)
