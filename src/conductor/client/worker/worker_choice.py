"""Which workers a handler runs: those it was given, those that were decorated, or both; none of them twice."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from conductor.client.worker import registry
from conductor.client.worker.worker_config import find_unknown_variables, resolve_worker_config
from conductor.client.worker.worker_interface import WorkerInterface

logger = logging.getLogger(__name__)

#: Said once, when a handler that has no workers is started.
NO_WORKERS = "There are no workers to start: decorate functions with @worker_task, or pass workers=[...]"

#: What `workers=` takes: Worker objects, class-based workers, and decorated functions.
WorkerLike = WorkerInterface | Callable[..., Any]


def choose_workers(
    workers: WorkerLike | Iterable[WorkerLike] | None,
    scan_for_annotated_workers: bool | None,
    import_modules: Sequence[str] | None,
    strict_registry: bool | None = None,
) -> list[WorkerInterface]:
    """Only `workers`: those. Otherwise the decorated ones, after the modules were imported. Both asked for: both.

    Of two for one task type and domain the last one is run, and one that was given rather than a decorated one; a
    warning names both. With `strict_registry` that is a DuplicateWorkerError.
    """
    given = [worker for one in _listed(workers) for worker in _worker_of(one).split_by_name()]
    if import_modules:
        from conductor.client.worker.worker_loader import WorkerLoader

        names = [import_modules] if isinstance(import_modules, str) else list(import_modules)
        loader = WorkerLoader()
        loader.scan_packages(names)
        loader.raise_for_failures()  # a worker that is missing in production is worse than one clear error at start
    explicit = scan_for_annotated_workers is True or bool(import_modules)
    scan = explicit if given else scan_for_annotated_workers is not False
    decorated = registry.list_workers() if scan else []
    chosen, contests = _one_for_each_claim(_each_once([*given, *decorated]), _each_once([*decorated, *given]))
    _tell([*(registry.describe_duplicates() if scan else []), *contests], strict_registry)
    for warning in find_unknown_variables(os.environ, name_workers(chosen)):
        logger.warning("%s", warning)
    return chosen


def name_workers(workers: Sequence[WorkerInterface]) -> list[str]:
    """A name for each: its task type, with the domain where two workers share one."""
    types = [worker.get_task_definition_name() for worker in workers]
    return [
        f"{name}@{worker.get_domain()}" if types.count(name) > 1 and worker.get_domain() else name
        for name, worker in zip(types, workers, strict=True)
    ]


def make_unknown_worker_error(name: str, running: Sequence[str]) -> KeyError:
    """The error for a task type that none of the running workers serves."""
    return KeyError(f"there is no running worker for task type '{name}'; there are: {', '.join(running) or 'none'}")


def _listed(workers: WorkerLike | Iterable[WorkerLike] | None) -> list[WorkerLike]:
    if workers is None:
        return []
    if isinstance(workers, WorkerInterface) or callable(workers):
        return [workers]
    return list(workers)


def _worker_of(one: object) -> WorkerInterface:
    if isinstance(one, WorkerInterface):
        return one
    found = registry.find_worker(one) if callable(one) else None
    if found is None:
        raise TypeError(
            "workers=[...] takes Worker objects, WorkerInterface subclasses and functions decorated with @worker_task; "
            f"got {one!r}"
        )
    return found


def _each_once(workers: Sequence[WorkerInterface]) -> list[WorkerInterface]:
    return list({id(worker): worker for worker in workers}.values())


def _one_for_each_claim(
    workers: list[WorkerInterface], rising: list[WorkerInterface]
) -> tuple[list[WorkerInterface], list[str]]:
    """The last of `rising` for each task type and domain, in the order of `workers`; and a sentence for each loser."""
    claims: dict[tuple[str, str | None], list[WorkerInterface]] = {}
    for worker in rising:
        claims.setdefault((worker.get_task_definition_name(), worker.get_domain()), []).append(worker)
    winners = {id(claimants[-1]) for claimants in claims.values()}
    contests = [
        registry.describe_duplicate(*key, [repr(one) for one in found])
        for key, found in claims.items()
        if len(found) > 1
    ]
    return [worker for worker in workers if id(worker) in winners], contests


def _tell(contests: list[str], strict_registry: bool | None) -> None:
    if contests and resolve_worker_config("", strict_registry=strict_registry).strict_registry:
        raise registry.DuplicateWorkerError(". ".join(contests))
    for sentence in contests:
        logger.warning("%s", sentence)
