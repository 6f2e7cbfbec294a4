"""The workers that a handler runs: those that are passed to it, decorated ones, or both."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from conductor.client.worker import registry
from conductor.client.worker.worker_config import find_unknown_variables, resolve_worker_config
from conductor.client.worker.worker_interface import WorkerInterface

logger = logging.getLogger(__name__)

#: The log line of a handler that is started without workers.
NO_WORKERS = "There are no workers to start: decorate functions with @worker_task, or pass workers=[...]"

#: An item of `workers=`: a worker object or a decorated function.
WorkerLike = WorkerInterface | Callable[..., Any]


def choose_workers(
    workers: WorkerLike | Iterable[WorkerLike] | None,
    scan_for_annotated_workers: bool | None,
    import_modules: Sequence[str] | None,
    strict_registry: bool | None = None,
) -> list[WorkerInterface]:
    """Return the workers that a handler runs.

    Of several workers for one task type and domain the last one runs. A worker that is passed has precedence over a
    decorated one. A warning names both.

    Args:
        workers: Workers that are passed to the handler. Decorated workers then run only if they are requested.
        scan_for_annotated_workers: Whether decorated workers run. None: only if no workers are passed.
        import_modules: Packages to import first. If any are given, decorated workers run.
        strict_registry: Raise an error instead of a warning for several workers of one task type and domain.

    Raises:
        DuplicateWorkerError: Two workers serve one task type and domain, and `strict_registry` is set.
        WorkerDiscoveryError: A module cannot be imported.
    """
    given = [worker for one in _to_list(workers) for worker in _to_worker(one).split_by_name()]
    if import_modules:
        from conductor.client.worker.worker_loader import WorkerLoader

        names = [import_modules] if isinstance(import_modules, str) else list(import_modules)
        loader = WorkerLoader()
        loader.scan_packages(names)
        loader.raise_for_failures()
    explicit = scan_for_annotated_workers is True or bool(import_modules)
    scan = explicit if given else scan_for_annotated_workers is not False
    decorated = registry.list_workers() if scan else []
    chosen, duplicates = _remove_duplicates(_unique([*given, *decorated]), _unique([*decorated, *given]))
    _report_duplicates([*(registry.describe_duplicates() if scan else []), *duplicates], strict_registry)
    for warning in find_unknown_variables(os.environ, name_workers(chosen)):
        logger.warning("%s", warning)
    return chosen


def name_workers(workers: Sequence[WorkerInterface]) -> list[str]:
    """Return a name for each worker: its task type, followed by `@domain` if several workers serve that task type."""
    types = [worker.get_task_definition_name() for worker in workers]
    return [
        f"{name}@{worker.get_domain()}" if types.count(name) > 1 and worker.get_domain() else name
        for name, worker in zip(types, workers, strict=True)
    ]


def make_unknown_worker_error(name: str, running: Sequence[str]) -> KeyError:
    """Return the error for a task type that no running worker serves."""
    return KeyError(f"there is no running worker for task type '{name}'; there are: {', '.join(running) or 'none'}")


def _to_list(workers: WorkerLike | Iterable[WorkerLike] | None) -> list[WorkerLike]:
    if workers is None:
        return []
    if isinstance(workers, WorkerInterface) or callable(workers):
        return [workers]
    return list(workers)


def _to_worker(one: object) -> WorkerInterface:
    if isinstance(one, WorkerInterface):
        return one
    found = registry.find_worker(one) if callable(one) else None
    if found is None:
        raise TypeError(
            "workers=[...] takes Worker objects, WorkerInterface subclasses and functions decorated with @worker_task; "
            f"got {one!r}"
        )
    return found


def _unique(workers: Sequence[WorkerInterface]) -> list[WorkerInterface]:
    return list({id(worker): worker for worker in workers}.values())


def _remove_duplicates(
    workers: list[WorkerInterface], by_precedence: list[WorkerInterface]
) -> tuple[list[WorkerInterface], list[str]]:
    """Return the last worker of `by_precedence` for each task type and domain, and messages about the others.

    The workers keep their order in `workers`.
    """
    claims: dict[tuple[str, str | None], list[WorkerInterface]] = {}
    for worker in by_precedence:
        claims.setdefault((worker.get_task_definition_name(), worker.get_domain()), []).append(worker)
    winners = {id(claimants[-1]) for claimants in claims.values()}
    messages = [
        registry.describe_duplicate(name, domain, [repr(worker) for worker in claimants])
        for (name, domain), claimants in claims.items()
        if len(claimants) > 1
    ]
    return [worker for worker in workers if id(worker) in winners], messages


def _report_duplicates(messages: list[str], strict_registry: bool | None) -> None:
    if messages and resolve_worker_config("", strict_registry=strict_registry).strict_registry:
        raise registry.DuplicateWorkerError(". ".join(messages))
    for message in messages:
        logger.warning("%s", message)
