"""Runs workers in processes: one process per worker, or one per `process_name`."""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from multiprocessing.util import Finalize
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from conductor.client.automator.child import ChildSpec
from conductor.client.automator.pickling import make_portable
from conductor.client.automator.recovery import Recovery
from conductor.client.automator.supervisor import END_NOW_S, RECOVERY_S, Supervisor
from conductor.client.automator.worker_group import longest_grace_s, resolve_config
from conductor.client.automator.worker_process import (
    RestartPolicy,
    WorkerProcess,
    is_loading_main,
    make_start_context,
)
from conductor.client.configuration.configuration import Configuration
from conductor.client.configuration.settings.metrics_settings import MetricsSettings
from conductor.client.event.sync_event_dispatcher import SyncEventDispatcher

# Programs for conductor-python import these names from here.
from conductor.client.worker.registry import get_registered_worker_names as get_registered_worker_names
from conductor.client.worker.registry import list_lifespans
from conductor.client.worker.registry import list_workers as get_registered_workers  # noqa: F401
from conductor.client.worker.registry import register_decorated_fn as register_decorated_fn
from conductor.client.worker.resources import Resources, StartError
from conductor.client.worker.worker import make_call, runs_coroutine
from conductor.client.worker.worker_choice import (
    NO_WORKERS,
    WorkerLike,
    choose_workers,
    make_unknown_worker_error,
    name_workers,
)
from conductor.client.worker.worker_interface import WorkerInterface
from conductor.common.signals import DRAINING_MESSAGE, STOPPING_MESSAGE, handle_signals, handle_stop_signals

if TYPE_CHECKING:
    from multiprocessing.context import BaseContext

    from conductor.client.event.task_runner_events import TaskProcessDied
    from conductor.client.telemetry.metrics_directory import MetricsPlace

logger = logging.getLogger(__name__)


class TaskHandler:
    """Run workers in processes of their own. A process that crashes is started again and does not affect the others.

    Workers with the same `process_name` share a process.

        with TaskHandler(configuration=Configuration(), scan_for_annotated_workers=True) as handler:
            handler.start_processes()
            handler.join_processes()

    Args:
        workers: Worker objects, class-based workers and decorated functions. Without them, every decorated function.
        configuration: The server and its credentials; `Configuration()` reads the environment.
        metrics_settings: Where to serve or write metrics and health; None for neither.
        scan_for_annotated_workers: True adds the decorated functions to `workers`; False leaves them out.
        import_modules: Modules or packages to import first, so that their decorated functions are found.
        event_listeners: Objects with `on_…` methods; each process has copies of its own.
        monitor_processes: False is the same as `restart_on_failure=False`.
        restart_on_failure: Whether a process that ends by itself is started again.
        monitor_interval_seconds: Accepted for older programs, without effect: the end of a process is noticed at once.
        restart_backoff_seconds: The wait before the first restart. Each further restart in a row doubles the wait.
        restart_backoff_max_seconds: The longest wait before a restart.
        restart_max_attempts: The most restarts in a row; 0 for no limit. The count begins again after a process has run
            for a minute.
        asyncio: Accepted for older programs, without effect.
        start_method: How processes start: `forkserver` (default where it exists), `spawn` or `fork`.
        shutdown_grace_seconds: How long a stop waits for running tasks (25).
    """

    def __init__(
        self,
        workers: WorkerLike | Iterable[WorkerLike] | None = None,
        configuration: Configuration | None = None,
        metrics_settings: MetricsSettings | None = None,
        scan_for_annotated_workers: bool | None = None,
        import_modules: Sequence[str] | None = None,
        event_listeners: Iterable[object] | None = None,
        monitor_processes: bool = True,
        restart_on_failure: bool = True,
        monitor_interval_seconds: float | None = None,
        restart_backoff_seconds: float = 0.5,
        restart_backoff_max_seconds: float = 30.0,
        restart_max_attempts: int = 0,
        *,
        asyncio: bool = False,  # noqa: ARG002
        start_method: str | None = None,
        **options: Any,
    ) -> None:
        self.workers = choose_workers(
            workers, scan_for_annotated_workers, import_modules, options.get("strict_registry")
        )
        self.configuration = configuration or Configuration()
        self.metrics_settings = metrics_settings
        self._listeners = tuple(event_listeners or ())
        self._start_method = start_method
        self._restarts = RestartPolicy(
            restart_on_failure and monitor_processes,
            restart_backoff_seconds,
            restart_backoff_max_seconds,
            restart_max_attempts,
        )
        if monitor_interval_seconds is not None:
            logger.info("monitor_interval_seconds is not needed: the end of a worker process is noticed at once")
        self._options = options
        self._hub: Any = None
        self._supervisor: Supervisor | None = None
        self._at_exit: Finalize | None = None
        # The options are resolved here, too, so that an invalid value raises an error here and not in a worker process.
        self._configs = [resolve_config(worker, options) for worker in self.workers]
        self._grace_s = longest_grace_s(self._configs)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop_processes()

    @property
    def processes(self) -> list[Any]:
        """The worker processes that were started, in the order of `workers`."""
        return [child.process for child in self._children]

    @property
    def task_runner_processes(self) -> list[Any]:
        """The worker processes; conductor-python's name for `processes`."""
        return self.processes

    def start_processes(self) -> None:
        """Start the worker processes and return. No signal handler is installed."""
        if is_loading_main():
            # A worker process imports the script, and the handlers in the script must not start more processes there.
            return
        if self._supervisor is not None and not self._supervisor.wait(0):
            raise RuntimeError("the worker processes are already running")
        if not self.workers:
            logger.warning(NO_WORKERS)
        self._start_metrics()
        context = make_start_context(self._start_method)
        place = self._hub.child_settings() if self._hub else None
        lifespans = tuple(list_lifespans())
        Resources(lifespans)  # raises here if the dependencies are circular
        children = [
            self._make_process(name, numbers, lifespans, place, context)
            for name, numbers in self._group_workers().items()
        ]
        self._supervisor = Supervisor(
            children,
            grace_s=self._grace_s,
            on_started=self._hub.record_process_start if self._hub else None,
            on_ended=self._hub.record_process_exit if self._hub else None,
            on_retired=self._hub.record_process_retirement if self._hub else None,
        )
        self._supervisor.start()
        # Use Finalize: atexit handlers do not run at the end of a process that multiprocessing has started.
        self._at_exit = Finalize(None, self._end_with_program, exitpriority=1)

    def _group_workers(self) -> dict[str, list[int]]:
        """Return the workers of each process, by their positions in `workers`."""
        processes: dict[str, list[int]] = {}
        for number, (name, config) in enumerate(zip(name_workers(self.workers), self._configs, strict=True)):
            # The prefix distinguishes a `process_name` from a worker of the same name.
            key = name if config.process_name is None else f"process {config.process_name}"
            processes.setdefault(key, []).append(number)
        return processes

    def _make_process(
        self,
        name: str,
        numbers: Sequence[int],
        lifespans: tuple[Callable[..., Any], ...],
        place: MetricsPlace | None,
        context: BaseContext,
    ) -> WorkerProcess:
        workers = tuple(self.workers[number] for number in numbers)
        names = tuple(name_workers(self.workers)[number] for number in numbers)
        created = "\n".join(map(_format_created, workers))
        if self.configuration.logs_worker_options:
            logger.info("%s", created)
        # If this process does not show INFO logs, the worker process logs the text of `created`.
        is_shown = logger.hasHandlers() and logger.isEnabledFor(logging.INFO)
        is_logged = is_shown or not self.configuration.logs_worker_options
        spec = ChildSpec(
            name,
            workers,
            self.configuration,
            self._options,
            self._listeners,
            place,
            names,
            lifespans,
            None if is_logged else created,
        )
        return WorkerProcess(
            spec if context.get_start_method() == "fork" else make_portable(spec),
            context,
            self._restarts,
            paused=[worker for worker, number in zip(names, numbers, strict=True) if self._configs[number].paused],
            recovery=Recovery(self.configuration, self._configs[numbers[0]], self._on_death),
        )

    def join_processes(self) -> None:
        """Wait until the workers end.

        Meanwhile SIGTERM drains the workers; a second SIGTERM makes them requeue their running tasks. SIGUSR1 pauses
        them: they finish their running tasks and take no new ones.

        Raises:
            KeyboardInterrupt: After Ctrl-C. The `with` block, or `stop_processes()`, then drains the workers.
            StartError: A resource that the workers need could not be set up.
        """
        supervisor = self._supervisor
        if supervisor is None:
            if is_loading_main():
                return
            raise RuntimeError("there are no worker processes to wait for: call start_processes() before this")

        def on_signal(again: bool) -> None:
            if again:
                supervisor.end_now()
            else:
                logger.info(STOPPING_MESSAGE, self._grace_s)
                supervisor.drain(self._grace_s)

        with handle_stop_signals(on_signal), handle_signals(self._on_pause_signal, signal.SIGUSR1):
            supervisor.wait()
        self._stop_metrics()
        if supervisor.start_error is not None:
            raise StartError(supervisor.start_error)

    def stop_processes(self) -> None:
        """Drain the workers: stop polling, finish running tasks within the grace period, and requeue the rest.

        Returns when all worker processes have ended.

        Raises:
            KeyboardInterrupt: After Ctrl-C, which makes the workers requeue their running tasks at once.
        """
        if self._supervisor is not None:
            try:
                self._supervisor.stop(self._grace_s)
            except KeyboardInterrupt:  # a second Ctrl-C
                self._supervisor.end_now()
                self._supervisor.wait(END_NOW_S + RECOVERY_S + 5)
                raise
        self._stop_metrics()
        if self._at_exit is not None:
            self._at_exit.cancel()

    def pause(self, name: str | None = None) -> None:
        """Stop polling for a task type, or for all of them, until `resume`. Running tasks continue."""
        self._set_paused(name, True)

    def resume(self, name: str | None = None) -> None:
        """Poll again for a task type, or for all of them, after `pause`."""
        self._set_paused(name, False)

    def is_healthy(self) -> bool:
        """Return whether every worker process runs."""
        return bool(self._children) and all(child.alive for child in self._children)

    def get_worker_process_status(self) -> dict[str, dict[str, Any]]:
        """Return `alive`, `pid`, `exitcode`, `restart_count` and `paused` for each task type."""
        return {
            name: {
                "alive": child.alive,
                "pid": child.process.pid if child.process else None,
                "exitcode": child.process.exitcode if child.process else None,
                "restart_count": child.restarts,
                "paused": name in child.paused,
            }
            for child in self._children
            for name in child.names
        }

    def _on_death(self, event: TaskProcessDied) -> None:
        """Publish the death of a worker process to listeners and metrics in this process."""
        listeners = self._listeners if self._hub is None else (self._hub.collector, *self._listeners)
        SyncEventDispatcher(listeners).publish(event)

    @property
    def _children(self) -> list[WorkerProcess]:
        return self._supervisor.children if self._supervisor else []

    def _end_with_program(self) -> None:
        """At the end of the program, wait for the workers; after Ctrl-C or an error, stop them.

        Without that, the exit of a program that failed would wait for its workers forever.
        """
        failed = getattr(sys, "last_type", None) is not None or sys.exc_info()[0] is not None
        try:
            if not failed:
                self.join_processes()
        except (KeyboardInterrupt, StartError):
            failed = True
        if failed:
            self.stop_processes()

    def _on_pause_signal(self, _signal: int) -> None:
        logger.info(DRAINING_MESSAGE)
        self.pause()

    def _set_paused(self, name: str | None, paused: bool) -> None:
        workers = [(child, worker) for child in self._children for worker in child.names]
        if name is not None and name not in [worker for _, worker in workers]:
            raise make_unknown_worker_error(name, [worker for _, worker in workers])
        for child, worker in workers:
            if name in (None, worker):
                child.pause(worker, paused)

    def _start_metrics(self) -> None:
        if self.metrics_settings is not None:
            from conductor.client.telemetry.metrics_hub import MetricsHub

            self._hub = MetricsHub(self.metrics_settings)
            self._hub.start()

    def _stop_metrics(self) -> None:
        hub, self._hub = self._hub, None
        if hub is not None:
            hub.stop()


def _format_created(worker: WorkerInterface) -> str:
    make_call(worker)  # a worker without a function raises here and not in its process
    kind = ("AsyncTaskRunner", "async") if runs_coroutine(worker) else ("TaskRunner", "sync")
    return "Created {} for {} worker: {}".format(*kind, worker.get_task_definition_name())
