"""What runs inside a worker's process."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Coroutine
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from conductor.client.automator.crew import Crew
from conductor.client.configuration.configuration import Configuration
from conductor.client.worker import registry
from conductor.client.worker.worker_interface import WorkerInterface

if TYPE_CHECKING:
    from conductor.client.telemetry.metrics_directory import MetricsPlace
    from conductor.client.telemetry.process_telemetry import ProcessTelemetry

logger = logging.getLogger(__name__)

#: Orders from the parent. The end of the connection means that the parent is dead: drain.
DRAIN, PAUSE, RESUME = "drain", "pause", "resume"
#: What the child says when it begins.
READY = "ready"


@dataclass(frozen=True, slots=True)
class WorkerReference:
    """A decorated worker, by the place where it is decorated: for functions that cannot travel themselves."""

    module: str
    name: str
    domain: str | None

    def resolve(self) -> WorkerInterface:
        """Import the module again, here, and find the worker that its decorator makes."""
        __import__(self.module)
        for worker in registry.registered():
            if (worker.task_definition_name, worker.domain) == (self.name, self.domain):
                return worker
        raise LookupError(f"module {self.module} makes no worker for task type '{self.name}' when it is imported again")


@dataclass(frozen=True)
class ChildSpec:
    """What a child needs to know. It travels by pickle."""

    #: The task type, and the domain where two workers share one: `greet`, `greet@vip`.
    name: str
    worker: WorkerInterface | WorkerReference
    configuration: Configuration
    options: dict[str, Any] = field(default_factory=dict)
    listeners: tuple[object, ...] = ()
    metrics: MetricsPlace | None = None
    #: To be logged at the start, where the parent shows no logs.
    first_line: str | None = None
    #: The program's environment now: a fork server only knows the one of the moment when it was started.
    environment: dict[str, str] = field(default_factory=lambda: dict(os.environ))


def run_child(spec: ChildSpec, orders: Connection) -> None:
    """A worker's process: run until told to drain, by order, by signal, or by the parent's death."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    _say_ready(orders)
    os.environ.clear()
    os.environ.update(spec.environment)
    spec.configuration.apply_logging_config()
    if spec.first_line is not None:
        logger.info("%s", spec.first_line)
    worker = spec.worker.resolve() if isinstance(spec.worker, WorkerReference) else spec.worker
    telemetry = _telemetry(spec)
    crew_left_work = run_on_loop(_serve(spec, worker, telemetry, orders))
    if telemetry is not None:
        telemetry.close()
    if crew_left_work:
        # Handed-back tasks will run elsewhere: what is left of them here must end with the process, at once.
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def _say_ready(orders: Connection) -> None:
    """The script's top level has been run and left: work begins."""
    try:
        orders.send(READY)
    except OSError:
        pass  # the parent is dead already, which is noticed soon


def run_on_loop(main: Coroutine[Any, Any, Any]) -> Any:
    """Like asyncio.run, on uvloop where it exists."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(main)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)


async def _serve(
    spec: ChildSpec, worker: WorkerInterface, telemetry: ProcessTelemetry | None, orders: Connection
) -> bool:
    crew = Crew(
        [worker],
        spec.configuration,
        options=spec.options,
        listeners=spec.listeners,
        telemetry=telemetry,
        own_process=True,
    )
    loop = asyncio.get_running_loop()
    terminated = False

    def on_terminate() -> None:
        nonlocal terminated
        if terminated:
            os._exit(128 + signal.SIGTERM)
        terminated = True
        crew.drain()

    loop.add_signal_handler(signal.SIGTERM, on_terminate)
    loop.add_signal_handler(signal.SIGUSR1, crew.pause)
    loop.add_reader(orders.fileno(), _obey, crew, orders, loop)
    await crew.run()
    loop.remove_reader(orders.fileno())
    return crew.handed_back > 0


def _obey(crew: Crew, orders: Connection, loop: asyncio.AbstractEventLoop) -> None:
    try:
        order = orders.recv()
    except (EOFError, OSError):
        logger.warning("The parent process is gone; finishing what is in hand")
        loop.remove_reader(orders.fileno())
        crew.drain()
        return
    {DRAIN: crew.drain, PAUSE: crew.pause, RESUME: crew.resume}[order]()


def _telemetry(spec: ChildSpec) -> ProcessTelemetry | None:
    if spec.metrics is None:
        return None
    from conductor.client.telemetry.process_telemetry import ProcessTelemetry

    return ProcessTelemetry(spec.metrics, spec.name)
