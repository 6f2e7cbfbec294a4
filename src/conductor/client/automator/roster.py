"""Which workers a handler runs: those it was given, those that were decorated, or both; none of them twice."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from conductor.client.worker import registry
from conductor.client.worker.worker_config import unknown_variables
from conductor.client.worker.worker_interface import WorkerInterface

logger = logging.getLogger(__name__)

#: What `workers=` takes: Worker objects, class-based workers, and decorated functions.
WorkerLike = WorkerInterface | Callable[..., Any]


def choose_workers(
    workers: WorkerLike | Iterable[WorkerLike] | None,
    scan_for_annotated_workers: bool | None,
    import_modules: Sequence[str] | None,
) -> list[WorkerInterface]:
    """Only `workers`: those. Otherwise the decorated ones, after the modules were imported. Both asked for: both."""
    given = [worker for one in _listed(workers) for worker in _worker_of(one).one_for_each_name()]
    if import_modules:
        from conductor.client.worker.worker_loader import WorkerLoader

        names = [import_modules] if isinstance(import_modules, str) else list(import_modules)
        loader = WorkerLoader()
        loader.scan_packages(names)
        loader.raise_for_failures()  # a worker that is missing in production is worse than one clear error at start
    explicit = scan_for_annotated_workers is True or bool(import_modules)
    scan = explicit if given else scan_for_annotated_workers is not False
    chosen: list[WorkerInterface] = []
    for worker in [*given, *(registry.registered() if scan else [])]:
        if not any(worker is other for other in chosen):
            chosen.append(worker)
    _check_claims(chosen)
    for warning in unknown_variables(os.environ, worker_names(chosen)):
        logger.warning("%s", warning)
    return chosen


def worker_names(workers: Sequence[WorkerInterface]) -> list[str]:
    """A name for each: its task type, with the domain where two workers share one."""
    types = [worker.get_task_definition_name() for worker in workers]
    return [
        f"{name}@{worker.get_domain()}" if types.count(name) > 1 and worker.get_domain() else name
        for name, worker in zip(types, workers, strict=True)
    ]


def _listed(workers: WorkerLike | Iterable[WorkerLike] | None) -> list[WorkerLike]:
    if workers is None:
        return []
    if isinstance(workers, WorkerInterface) or callable(workers):
        return [workers]
    return list(workers)


def _worker_of(one: object) -> WorkerInterface:
    if isinstance(one, WorkerInterface):
        return one
    found = registry.worker_of(one) if callable(one) else None
    if found is None:
        raise TypeError(
            "workers=[...] takes Worker objects, WorkerInterface subclasses and functions decorated with @worker_task; "
            f"got {one!r}"
        )
    return found


def _check_claims(workers: list[WorkerInterface]) -> None:
    claims: dict[tuple[str, str | None], WorkerInterface] = {}
    for worker in workers:
        key = (worker.get_task_definition_name(), worker.get_domain())
        if key in claims:
            raise registry.DuplicateWorkerError(
                f"task type '{key[0]}' has two workers: {claims[key]!r} and {worker!r}. Keep one, or give one a domain"
            )
        claims[key] = worker
