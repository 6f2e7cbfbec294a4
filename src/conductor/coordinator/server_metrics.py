"""The metrics of the coordinator: their declarations, and the counters for them.

A counter is an integer in memory. A scrape computes the gauges from indexes in the store that contain only unfinished
tasks and workflows.
"""

from __future__ import annotations

from conductor.coordinator.limits import MAX_SERIES_PER_METRIC
from conductor.telemetry.exposition import Histogram, Kind, Metric

_QUEUE = ("taskType", "domain")
_TASK = ("taskType",)
_WORKFLOW = ("workflowType",)

QUEUE_DEPTH = Metric("coordinator_queue_depth", Kind.GAUGE, _QUEUE, "Tasks that could be polled now.")
QUEUE_OLDEST = Metric(
    "coordinator_queue_oldest_seconds",
    Kind.GAUGE,
    _QUEUE,
    "How long the oldest of them has waited; 0 if there is none.",
)
QUEUE_DELAYED = Metric("coordinator_queue_delayed", Kind.GAUGE, _QUEUE, "Tasks that can be polled later.")
IN_HAND = Metric("coordinator_tasks_in_hand", Kind.GAUGE, _QUEUE, "Tasks that a worker holds.")
QUEUE_PARKED = Metric("coordinator_queue_parked_polls", Kind.GAUGE, _QUEUE, "Polls that wait for a task.")
QUEUE_POLLED = Metric(
    "coordinator_queue_last_poll_seconds", Kind.GAUGE, _QUEUE, "Time since the last poll; absent before the first poll."
)
QUEUE_UNSERVED = Metric(
    "coordinator_queue_unserved", Kind.GAUGE, _QUEUE, "1 if tasks wait and no worker polls them, else 0."
)
RUNNING = Metric("coordinator_workflows_running", Kind.GAUGE, _WORKFLOW, "Workflows that have not ended.")
STARTED_TOTAL = Metric(
    "coordinator_workflows_started_total", Kind.COUNTER, _WORKFLOW, "Workflows started, including sub-workflows."
)
ENDED_TOTAL = Metric(
    "coordinator_workflows_ended_total", Kind.COUNTER, (*_WORKFLOW, "status"), "Workflows ended, by their status."
)
MISSED_TOTAL = Metric(
    "coordinator_scheduled_times_missed_total",
    Kind.COUNTER,
    (),
    "Due times of schedules that the coordinator missed.",
)
POLLS_TOTAL = Metric("coordinator_polls_total", Kind.COUNTER, _TASK, "Polls received.")
GRANTED_TOTAL = Metric("coordinator_tasks_granted_total", Kind.COUNTER, _TASK, "Tasks granted to workers.")
TASKS_ENDED_TOTAL = Metric(
    "coordinator_tasks_ended_total",
    Kind.COUNTER,
    (*_TASK, "status"),
    "Tasks ended by a report, a timeout or the end of their workflow, by their status.",
)
REPORTS_TOTAL = Metric(
    "coordinator_reports_total",
    Kind.COUNTER,
    ("verdict",),
    "Reports by their verdict; NONE for clients without leases.",
)
HEARTBEATS_TOTAL = Metric("coordinator_heartbeats_total", Kind.COUNTER, ("verdict",), "Heartbeats by their verdict.")
COMMIT_TIME = Metric(
    "coordinator_commit_seconds", Kind.HISTOGRAM, (), "Duration of a transaction, including the commit."
)
COMMIT_GROUP = Metric("coordinator_commit_group_size", Kind.HISTOGRAM, (), "Callers that shared a transaction.")
COMMIT_FAILED_TOTAL = Metric(
    "coordinator_commit_failures_total", Kind.COUNTER, (), "Transactions that could not be written."
)
REQUEST_TIME = Metric(
    "coordinator_request_seconds",
    Kind.HISTOGRAM,
    ("method", "uri", "status"),
    "Duration of requests by path template. The duration of a poll includes its wait for a task.",
)
PARKED = Metric("coordinator_parked_polls", Kind.GAUGE, (), "Polls that wait for a task, over all queues.")
FILE_BYTES = Metric(
    "coordinator_file_bytes", Kind.GAUGE, ("file",), "Size of the database and of its write-ahead log (wal)."
)
HEALTHY = Metric("coordinator_healthy", Kind.GAUGE, (), "1 while the database can be written, else 0.")
START_TIME = Metric("coordinator_start_time_seconds", Kind.GAUGE, (), "Start time in seconds since 1970.")
INFO = Metric("coordinator_info", Kind.GAUGE, ("version",), "Always 1; the label is the version.")

#: All metrics of the coordinator, in the order of their declarations.
METRICS: tuple[Metric, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Metric))

#: The verdict label of reports by clients that do not use leases.
NO_VERDICT = "NONE"
#: The queue label of reports on tasks that are in no queue.
NO_QUEUE = ""
#: The first label of all series above `MAX_SERIES_PER_METRIC`.
OTHER = "other"

TIME_BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
GROUP_BOUNDS = (1, 2, 5, 10, 20, 50, 100, 200, 500)

#: The name of a metric, then its label values.
Key = tuple[str, ...]


class Tally:
    """Counters by name and label values. Only one thread may count; other threads may call `copy`.

    Label values come from clients, so each metric has at most `MAX_SERIES_PER_METRIC` series. Further series are
    counted with `other` as their first label.
    """

    __slots__ = ("_counts", "_series")

    def __init__(self) -> None:
        self._counts: dict[Key, int] = {}
        #: The number of series of each metric, by name.
        self._series: dict[str, int] = {}

    def add(self, key: Key, count: int = 1) -> None:
        """Add to a counter."""
        if key in self._counts:
            self._counts[key] += count
        else:
            self._add_series(key, count)

    def _add_series(self, key: Key, count: int) -> None:
        seen = self._series.get(key[0], 0)
        if seen >= MAX_SERIES_PER_METRIC:
            key = (key[0], OTHER, *key[2:])
        self._series[key[0]] = seen + 1
        self._counts[key] = self._counts.get(key, 0) + count

    def add_all(self, counts: dict[Key, int]) -> None:
        """Add other counts to these."""
        for key, count in counts.items():
            self.add(key, count)

    def copy(self) -> dict[Key, int]:
        """Return the current counts."""
        return dict(self._counts)


def merge_queues_of_reports(counts: dict[Key, int]) -> dict[Key, int]:
    """Return the counts with the reports of all queues added up, because the metric has no queue label."""
    merged: dict[Key, int] = {}
    for key, count in counts.items():
        if key[0] == REPORTS_TOTAL.name:
            key = (key[0], key[2])
        merged[key] = merged.get(key, 0) + count
    return merged


def count_reports_by_queue(counts: dict[Key, int]) -> dict[int, dict[str, int]]:
    """Return the number of reports by the key of the queue, then by verdict."""
    found: dict[int, dict[str, int]] = {}
    for key, count in counts.items():
        if key[0] == REPORTS_TOTAL.name and key[1] not in (NO_QUEUE, OTHER):
            found.setdefault(int(key[1]), {})[key[2]] = count
    return found


class RequestTimes:
    """Durations of requests by method, path template and status."""

    __slots__ = ("_times",)

    def __init__(self) -> None:
        self._times: dict[tuple[str, str, int], Histogram] = {}

    def observe(self, method: str, uri: str, status: int, seconds: float) -> None:
        """Record the duration of a request."""
        times = self._times.get((method, uri, status))
        if times is None:
            times = self._times[method, uri, status] = Histogram(TIME_BOUNDS_S)
        times.observe(seconds)

    def items(self) -> list[tuple[tuple[str, str, int], Histogram]]:
        """Return all histograms, sorted by their labels."""
        return sorted(self._times.items(), key=lambda found: found[0])
