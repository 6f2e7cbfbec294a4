"""What runs inside a worker process."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from conductor.client.automator.recycling import Wear, set_limits
from conductor.client.automator.worker_group import WorkerGroup, config_of
from conductor.client.configuration.configuration import Configuration
from conductor.client.worker import registry
from conductor.client.worker.resources import StartError
from conductor.client.worker.worker_interface import WorkerInterface
from conductor.common.machine import freeze_loaded_objects, run_event_loop
from conductor.telemetry import tracing

if TYPE_CHECKING:
    from conductor.client.telemetry.metrics_directory import MetricsPlace
    from conductor.client.telemetry.process_telemetry import ProcessTelemetry

logger = logging.getLogger(__name__)

#: Orders from the parent, each with the name of a worker, or None for all of them. The end of the connection means that
#: the parent is dead: drain.
DRAIN, PAUSE, RESUME, END_NOW, RETIRE = "drain", "pause", "resume", "end now", "retire"
#: What the child says, each with a text: it has begun; it is set up and polls; it cannot be set up, and why; it wants a
#: successor, and why.
READY, WORKING, CANNOT_START, WORN = "ready", "working", "cannot start", "worn"


@dataclass(frozen=True, slots=True)
class WorkerReference:
    """A decorated worker, by the place where it is decorated: for functions that cannot travel themselves."""

    module: str
    name: str
    domain: str | None

    def resolve(self) -> WorkerInterface:
        """Import the module again, here, and find the worker that its decorator makes."""
        __import__(self.module)
        worker = registry.find_worker_in_module(self.module, self.name, self.domain)
        if worker is None:
            raise LookupError(
                f"module {self.module} makes no worker for task type '{self.name}' when it is imported again"
            )
        return worker


@dataclass(frozen=True)
class ChildSpec:
    """What a child needs to know. It travels by pickle."""

    #: What the process is called: after its worker, or after the `process` that its workers name.
    name: str
    workers: tuple[WorkerInterface | WorkerReference, ...]
    configuration: Configuration
    options: dict[str, Any] = field(default_factory=dict)
    listeners: tuple[object, ...] = ()
    metrics: MetricsPlace | None = None
    #: What its workers are called: the task type, and the domain where two share one: `greet`, `greet@vip`.
    names: tuple[str, ...] = ()
    lifespans: tuple[Callable[..., Any], ...] = ()
    #: To be logged at the start, where the parent shows no logs.
    first_line: str | None = None
    #: The program's environment now: a fork server only knows the one of the moment when it was started.
    environment: dict[str, str] = field(default_factory=lambda: dict(os.environ))


def run_child(spec: ChildSpec, orders: Connection) -> None:
    """A worker process: run until told to drain, by order, by signal, or by the parent's death."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    _tell(orders, READY)  # the script's top level has been run and left: work begins
    os.environ.clear()
    os.environ.update(spec.environment)
    spec.configuration.apply_logging_config()
    tracing.set_up(spec.configuration.tracing)
    if spec.first_line is not None:
        logger.info("%s", spec.first_line)
    workers = [worker.resolve() if isinstance(worker, WorkerReference) else worker for worker in spec.workers]
    set_limits(config_of(workers[0], spec.options))
    telemetry = _telemetry(spec)
    freeze_loaded_objects()
    try:
        has_leftover_work = run_event_loop(_serve(spec, workers, telemetry, orders))
    except StartError as error:
        logger.error("Worker process '%s' cannot start: %s", spec.name, error, exc_info=error.__cause__)
        _tell(orders, CANNOT_START, str(error))
        sys.exit(1)
    finally:
        if telemetry is not None:
            telemetry.close()
        tracing.flush()
    if has_leftover_work:
        # Handed-back tasks will run elsewhere: what is left of them here must end with the process, at once.
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def _tell(orders: Connection, what: str, text: str = "") -> None:
    try:
        orders.send((what, text))
    except OSError:
        pass  # the parent is dead already, which is noticed soon


async def _serve(
    spec: ChildSpec, workers: list[WorkerInterface], telemetry: ProcessTelemetry | None, orders: Connection
) -> bool:
    wear = Wear(config_of(workers[0], spec.options), lambda reason: _tell(orders, WORN, reason))
    group = WorkerGroup(
        workers,
        spec.configuration,
        options=spec.options,
        listeners=(*spec.listeners, *wear.listeners),
        telemetry=telemetry,
        own_process=True,
        lifespans=spec.lifespans,
        names=spec.names,
    )
    loop = asyncio.get_running_loop()
    # The first drains, the second hands back what is in hand and ends; whoever sends a third does not want to wait.
    answers = iter([group.drain, group.abandon])

    def on_terminate() -> None:
        next(answers, group.end_at_once)()

    def on_started() -> None:
        # Not before: what is said to workers waits until they are there.
        loop.add_reader(orders.fileno(), _obey, group, orders, loop)
        _tell(orders, WORKING)

    loop.add_signal_handler(signal.SIGTERM, on_terminate)
    loop.add_signal_handler(signal.SIGUSR1, group.pause)
    watching = asyncio.create_task(wear.watch(lambda: sum(engine.stuck for engine in group.engines)))
    try:
        await group.run(on_started)
    finally:
        watching.cancel()
        loop.remove_reader(orders.fileno())
    return group.has_leftover_work


def _obey(group: WorkerGroup, orders: Connection, loop: asyncio.AbstractEventLoop) -> None:
    try:
        order, name = orders.recv()
    except (EOFError, OSError):
        logger.warning("The parent process is gone; finishing what is in hand")
        loop.remove_reader(orders.fileno())
        group.drain()
        return
    if order in (PAUSE, RESUME):
        (group.pause if order == PAUSE else group.resume)(name)
    else:
        {DRAIN: group.drain, END_NOW: group.abandon, RETIRE: group.retire}[order]()


def _telemetry(spec: ChildSpec) -> ProcessTelemetry | None:
    if spec.metrics is None:
        return None
    from conductor.client.telemetry.process_telemetry import ProcessTelemetry

    return ProcessTelemetry(spec.metrics, spec.names[0] if len(spec.workers) == 1 else None)
