"""The listener that counts the events of workers in the metric file of this process."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from conductor.client.configuration.settings.metrics_settings import MetricsSettings
from conductor.client.event.task_runner_events import (
    PollCompleted,
    PollFailure,
    PollStarted,
    TaskExecutionCompleted,
    TaskExecutionFailure,
    TaskExecutionStarted,
    TaskLeaseExtended,
    TaskLeaseLost,
    TaskProcessDied,
    TaskRunnerEventsListener,
    TaskUpdateCompleted,
    TaskUpdateFailure,
    TaskUpdateRetried,
    WorkerStarted,
)
from conductor.client.telemetry import worker_metrics
from conductor.client.telemetry.metric_file import MetricFile
from conductor.client.telemetry.metric_values import Number, Summary
from conductor.client.telemetry.metrics_directory import MetricsDirectory, MetricsPlace
from conductor.client.telemetry.prometheus_totals import make_families
from conductor.client.telemetry.worker_metrics import FAILED, SUCCESS
from conductor.common.signals import format_exit_status
from conductor.telemetry.exposition import Buckets, Kind, Metric, require_prometheus, scrape

#: The largest number of values of a label, such as the error classes of a task type. Further values become `OTHER`.
MAX_LABEL_VALUES = 100
OTHER = "other"

T = TypeVar("T")


class MetricsCollector(TaskRunnerEventsListener):
    """Counts polls, executions, reports and requests.

    A handler with `metrics_settings` creates a collector in each of its processes. A collector that you create yourself
    counts for this process only, and `render()` returns its metrics.

    Args:
        settings: The directory, buckets and names of the metrics.
        place: The directory of a hub. The hub then renders the metrics, and `render()` raises an error. For handlers.
        now: The monotonic clock.
    """

    def __init__(
        self,
        settings: MetricsSettings | None = None,
        *,
        place: MetricsPlace | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._directory: MetricsDirectory | None = None
        self._canonical = False
        if place is None:
            require_prometheus()
            settings = settings or MetricsSettings()
            self._canonical = settings.canonical
            self._directory = MetricsDirectory(settings.directory, buckets=Buckets(settings.buckets))
            place = self._directory.place
        self._place = place
        self.file: MetricFile = place.new_file(now)
        self._polls = self._counters(worker_metrics.POLL_TOTAL)
        self._empty_polls = self._counters(worker_metrics.POLL_EMPTY_TOTAL)
        self._poll_errors = self._counters(worker_metrics.POLL_ERROR_TOTAL)
        self._poll_time = self._summaries(worker_metrics.POLL_TIME)
        self._received = self._counters(worker_metrics.RECEIVED_TOTAL)
        self._success_time = self._summaries(worker_metrics.EXECUTE_TIME, SUCCESS)
        self._failure_time = self._summaries(worker_metrics.EXECUTE_TIME, FAILED)
        self._execute_errors = self._counters(worker_metrics.EXECUTE_ERROR_TOTAL)
        self._result_size = self._summaries(worker_metrics.RESULT_SIZE)
        self._update_time = self._summaries(worker_metrics.UPDATE_TIME)
        self._update_errors = self._counters(worker_metrics.UPDATE_ERROR_TOTAL)
        self._update_failed = self._counters(worker_metrics.UPDATE_FAILED_TOTAL)
        self._verdicts = self._counters(worker_metrics.VERDICT_TOTAL)
        self._leases_extended = self._counters(worker_metrics.LEASE_EXTENDED_TOTAL)
        self._leases_lost = self._counters(worker_metrics.LEASE_LOST_TOTAL)
        self._processes_died = self._counters(worker_metrics.PROCESS_DIED_TOTAL)
        self._started = self._counters(worker_metrics.EXECUTION_STARTED_TOTAL)
        self._requests = self._summaries(worker_metrics.HTTP_REQUEST)
        self._gauges: dict[tuple[str, str], Number] = {}

    @classmethod
    def for_process(cls, place: MetricsPlace, now: Callable[[], float] = time.monotonic) -> MetricsCollector:
        """Return a collector for this process whose metrics the hub of `place` renders."""
        return cls(place=place, now=now)

    def __reduce__(self) -> tuple[Callable[[MetricsPlace], MetricsCollector], tuple[MetricsPlace]]:
        """Let another process unpickle a new collector for the same hub, because each process has its own file."""
        return MetricsCollector.for_process, (self._place,)

    def on_poll_started(self, event: PollStarted) -> None:
        self._polls[event.task_type].add()

    def on_poll_completed(self, event: PollCompleted) -> None:
        self._poll_time[event.task_type].observe(event.duration_ms / 1000)
        if event.tasks_received:
            self._received[event.task_type].add(event.tasks_received)
        else:
            self._empty_polls[event.task_type].add()

    def on_poll_failure(self, event: PollFailure) -> None:
        self._poll_errors[event.task_type, type(event.cause).__name__].add()

    def on_task_execution_started(self, event: TaskExecutionStarted) -> None:
        self._started[event.task_type].add()

    def on_task_execution_completed(self, event: TaskExecutionCompleted) -> None:
        self._success_time[event.task_type].observe(event.duration_ms / 1000)
        if event.output_size_bytes is not None:  # events that are created as in conductor-python may have no size
            self._result_size[event.task_type].observe(event.output_size_bytes)

    def on_task_execution_failure(self, event: TaskExecutionFailure) -> None:
        self._failure_time[event.task_type].observe(event.duration_ms / 1000)
        self._execute_errors[event.task_type, type(event.cause).__name__].add()

    def on_task_update_retried(self, event: TaskUpdateRetried) -> None:
        self._update_errors[event.task_type, type(event.cause).__name__].add()

    def on_task_update_failure(self, event: TaskUpdateFailure) -> None:
        self._update_failed[event.task_type].add()

    def on_task_update_completed(self, event: TaskUpdateCompleted) -> None:
        self._update_time[event.task_type].observe(event.duration_ms / 1000)
        self._verdicts[event.task_type, event.verdict].add()

    def on_task_lease_extended(self, event: TaskLeaseExtended) -> None:
        self._leases_extended[event.task_type].add()

    def on_task_lease_lost(self, event: TaskLeaseLost) -> None:
        self._leases_lost[event.task_type].add()

    def on_task_process_died(self, event: TaskProcessDied) -> None:
        self._processes_died[event.task_type, format_exit_status(event.exit_status)].add()

    def on_worker_started(self, event: WorkerStarted) -> None:
        # Create the counters for alerts with 0, because Prometheus misses the first increase of a new counter.
        self._update_failed[event.task_type].add(0)
        self._leases_lost[event.task_type].add(0)
        self.set_gauge(worker_metrics.SLOTS, event.task_type, event.thread_count)

    def on_request(self, method: str, uri: str, status: int | str, seconds: float) -> None:
        """Count a request to the server. `uri` is the template of the path, without ids."""
        self._requests[method, uri, str(status)].observe(seconds)

    # -- methods of conductor-python --------------------------------------------------------------------------------

    def increment_task_poll(self, task_type: str) -> None:
        """Count a poll."""
        self._polls[task_type].add()

    def increment_task_poll_error(self, task_type: str, exception: object) -> None:
        """Count a failed poll. `exception` is the exception, its class or its name."""
        self._poll_errors[task_type, _class_name(exception)].add()

    def increment_task_execution_error(self, task_type: str, exception: object) -> None:
        """Count a failed execution."""
        self._execute_errors[task_type, _class_name(exception)].add()

    def increment_task_update_error(self, task_type: str, exception: object) -> None:
        """Count a report that was sent again."""
        self._update_errors[task_type, _class_name(exception)].add()

    def record_task_poll_time(self, task_type: str, time_spent: float, status: str = SUCCESS) -> None:  # noqa: ARG002
        """Record the seconds of a poll. The status is ignored: failed polls are counted as errors."""
        self._poll_time[task_type].observe(time_spent)

    def record_task_execute_time(self, task_type: str, time_spent: float, status: str = SUCCESS) -> None:
        """Record the seconds and the status of an execution."""
        (self._success_time if status == SUCCESS else self._failure_time)[task_type].observe(time_spent)

    def record_task_update_time(self, task_type: str, time_spent: float, status: str = SUCCESS) -> None:  # noqa: ARG002
        """Record the seconds of a report. The status is ignored: verdicts are counted separately."""
        self._update_time[task_type].observe(time_spent)

    def record_task_result_payload_size(self, task_type: str, payload_size: int) -> None:
        """Record the size of an output in bytes."""
        self._result_size[task_type].observe(payload_size)

    def record_api_request_time(
        self, method: str, uri: str, status: str, time_spent: float, metric_uri: str | None = None
    ) -> None:
        """Record the seconds of a request. `metric_uri` is the template of the path and replaces `uri`."""
        self.on_request(method, metric_uri or uri, status, time_spent)

    def set_gauge(self, metric: Metric, task_type: str, value: float) -> None:
        """Set a gauge: `set_gauge(worker_metrics.SLOTS_IN_USE, "my_task", 3)`."""
        gauge = self._gauges.get((metric.name, task_type))
        if gauge is None:
            if metric.kind is not Kind.GAUGE:
                raise ValueError(f"{metric.name} is a {metric.kind.name.lower()}, not a gauge")
            gauge = self._gauges[metric.name, task_type] = self.file.gauge(metric.name, task_type)
        gauge.set(value)

    def render(self) -> bytes:
        """Return the metrics in the text format of Prometheus.

        Raises:
            RuntimeError: The collector belongs to a hub, which renders the metrics of all processes.
        """
        if self._directory is None:
            raise RuntimeError(
                "this collector belongs to a hub: use MetricsHub.render() for the metrics of all processes"
            )
        totals, buckets = self._directory.totals(), self._place.buckets
        return scrape(make_families(totals, time.monotonic(), buckets, canonical=self._canonical))[0]

    def close(self) -> None:
        """Stop counting. The metric file is removed, unless a hub has to read it."""
        self.file.close()
        if self._directory is not None:
            self._directory.close()

    def _counters(self, metric: Metric) -> _Series[Number]:
        return _Series(lambda labels: self.file.counter(metric.name, *labels))

    def _summaries(self, metric: Metric, *tally_labels: str) -> _Series[Summary]:
        return _Series(lambda labels: self.file.summary(metric.name, labels, tally_labels))


def _class_name(exception: object) -> str:
    if isinstance(exception, str):
        return exception
    return exception.__name__ if isinstance(exception, type) else type(exception).__name__


class _Series(dict[str | tuple[str, ...], T]):
    """The series of a metric, created on first use. The key is a label value, or a tuple of several label values."""

    def __init__(self, make: Callable[[tuple[str, ...]], T]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, labels: str | tuple[str, ...]) -> T:
        if isinstance(labels, str):
            series = self[labels] = self._make((labels,))
            return series
        # Each first label has at most MAX_LABEL_VALUES different second labels. Further second labels become OTHER.
        seen = {known[1] for known in self if known[0] == labels[0]}
        if len(seen) >= MAX_LABEL_VALUES and labels[1] not in seen:
            labels = (labels[0], OTHER, *labels[2:])
            if labels in self:
                return self[labels]
        series = self[labels] = self._make(labels)
        return series
