"""The code that runs inside a worker process: `run_child`."""

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

from conductor.client.automator.recycling import RecyclePolicy, set_limits
from conductor.client.automator.worker_group import WorkerGroup, resolve_config
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

#: Orders from the parent, each with the name of a worker, or None for all of them. If the connection closes, the parent
#: is dead, and the process drains.
DRAIN, PAUSE, RESUME, END_NOW, RETIRE = "drain", "pause", "resume", "end now", "retire"
#: Messages to the parent, each with a text. READY: the process has started. WORKING: its workers poll. CANNOT_START:
#: they cannot be set up; the text is the reason. RECYCLE: a successor should replace the process; the text is the
#: reason.
READY, WORKING, CANNOT_START, RECYCLE = "ready", "working", "cannot start", "recycle"


@dataclass(frozen=True, slots=True)
class WorkerReference:
    """Identifies a decorated worker that cannot be pickled, so that a worker process can import it."""

    module: str
    name: str
    domain: str | None

    def resolve(self) -> WorkerInterface:
        """Import the module in this process, and return the worker that the decorator made."""
        __import__(self.module)
        worker = registry.find_worker_in_module(self.module, self.name, self.domain)
        if worker is None:
            raise LookupError(
                f"importing module {self.module} in the worker process defines no worker for task type '{self.name}'"
            )
        return worker


@dataclass(frozen=True)
class ChildSpec:
    """The specification of a worker process, which the process receives by pickle."""

    #: The name of the process: the name of its only worker, or the `process_name` that its workers share.
    name: str
    workers: tuple[WorkerInterface | WorkerReference, ...]
    configuration: Configuration
    options: dict[str, Any] = field(default_factory=dict)
    listeners: tuple[object, ...] = ()
    metrics: MetricsPlace | None = None
    #: The names of its workers: the task type (`greet`), with the domain if two workers share the task type
    #: (`greet@vip`).
    names: tuple[str, ...] = ()
    lifespans: tuple[Callable[..., Any], ...] = ()
    #: The text that this process logs first if the parent shows no logs; None if the parent logs the text itself.
    first_line: str | None = None
    #: The program's current environment. A fork server only has the environment of its own start.
    environment: dict[str, str] = field(default_factory=lambda: dict(os.environ))


def run_child(spec: ChildSpec, orders: Connection) -> None:
    """Run the workers of this process until an order, a signal or the death of the parent drains them."""
    # Ctrl-C reaches the whole process group; the parent decides when to stop.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _send(orders, READY)  # the top level of the script has run
    os.environ.clear()
    os.environ.update(spec.environment)
    spec.configuration.apply_logging_config()
    tracing.set_up(spec.configuration.tracing)
    if spec.first_line is not None:
        logger.info("%s", spec.first_line)
    workers = [worker.resolve() if isinstance(worker, WorkerReference) else worker for worker in spec.workers]
    set_limits(resolve_config(workers[0], spec.options))
    telemetry = _make_telemetry(spec)
    freeze_loaded_objects()
    try:
        has_leftover_work = run_event_loop(_serve(spec, workers, telemetry, orders))
    except StartError as error:
        logger.error("Worker process '%s' cannot start: %s", spec.name, error, exc_info=error.__cause__)
        _send(orders, CANNOT_START, str(error))
        sys.exit(1)
    finally:
        if telemetry is not None:
            telemetry.close()
        tracing.flush()
    if has_leftover_work:
        # Other workers execute the requeued tasks, so functions that still run here must end now, with the process.
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def _send(orders: Connection, message: str, text: str = "") -> None:
    try:
        orders.send((message, text))
    except OSError:
        pass  # the parent is dead, which `_obey` notices soon


async def _serve(
    spec: ChildSpec, workers: list[WorkerInterface], telemetry: ProcessTelemetry | None, orders: Connection
) -> bool:
    policy = RecyclePolicy(resolve_config(workers[0], spec.options), lambda reason: _send(orders, RECYCLE, reason))
    group = WorkerGroup(
        workers,
        spec.configuration,
        options=spec.options,
        listeners=(*spec.listeners, *policy.listeners),
        telemetry=telemetry,
        own_process=True,
        lifespans=spec.lifespans,
        names=spec.names,
    )
    loop = asyncio.get_running_loop()
    # The first SIGTERM drains, the second requeues the running tasks and ends, the third ends at once.
    actions = iter([group.drain, group.abandon])

    def on_terminate() -> None:
        next(actions, group.end_at_once)()

    def on_started() -> None:
        # Read orders only from here on, because the engines that receive them did not exist before.
        loop.add_reader(orders.fileno(), _obey, group, orders, loop)
        _send(orders, WORKING)

    loop.add_signal_handler(signal.SIGTERM, on_terminate)
    loop.add_signal_handler(signal.SIGUSR1, group.pause)
    watching = asyncio.create_task(policy.watch(lambda: sum(engine.stuck for engine in group.engines)))
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
        logger.warning("The parent process is dead; draining")
        loop.remove_reader(orders.fileno())
        group.drain()
        return
    if order == PAUSE:
        group.pause(name)
    elif order == RESUME:
        group.resume(name)
    else:
        {DRAIN: group.drain, END_NOW: group.abandon, RETIRE: group.retire}[order]()


def _make_telemetry(spec: ChildSpec) -> ProcessTelemetry | None:
    if spec.metrics is None:
        return None
    from conductor.client.telemetry.process_telemetry import ProcessTelemetry

    return ProcessTelemetry(spec.metrics, spec.names[0] if len(spec.workers) == 1 else None)
