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
    "How long the oldest task that can be polled has waited; 0 if there is none.",
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
FAST_LOOPS = Metric("coordinator_fast_loops", Kind.GAUGE, (), "Loops (DO_WHILE) with at least 10 rounds per second.")
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
SCHEDULES_LATE = Metric(
    "coordinator_schedules_late",
    Kind.GAUGE,
    (),
    "Due times of schedules that passed more than 10 seconds ago and have not started their workflow; 0 while all "
    "schedules are paused.",
)
POLLS_TOTAL = Metric("coordinator_polls_total", Kind.COUNTER, _TASK, "Polls received.")
GRANTED_TOTAL = Metric("coordinator_tasks_granted_total", Kind.COUNTER, _TASK, "Tasks granted to workers.")
TASKS_ENDED_TOTAL = Metric(
    "coordinator_tasks_ended_total",
    Kind.COUNTER,
    (*_TASK, "status"),
    "Tasks ended by a report, a timeout or the end of their workflow, by their status.",
)
LEASES_EXPIRED_TOTAL = Metric(
    "coordinator_leases_expired_total",
    Kind.COUNTER,
    _TASK,
    "Leases that ended because no report or heartbeat came within the response timeout.",
)
RETRIES_TOTAL = Metric(
    "coordinator_task_retries_total", Kind.COUNTER, _TASK, "Attempts after a failed attempt, including retries by hand."
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
WRITER_BUSY_TOTAL = Metric(
    "coordinator_writer_busy_seconds_total",
    Kind.COUNTER,
    (),
    "Seconds in which the writer thread worked. The rate of this metric is the busy share: near 1, requests queue.",
)
REQUEST_TIME = Metric(
    "coordinator_request_seconds",
    Kind.HISTOGRAM,
    ("method", "uri", "status"),
    "Duration of requests by path template. The duration of a poll includes its wait for a task.",
)
REFUSED_TOTAL = Metric(
    "coordinator_requests_refused_total",
    Kind.COUNTER,
    ("reason",),
    "Requests refused by authentication: `secret` (unknown key or wrong secret), `token` (missing, wrong or expired "
    "token) or `role` (the key may not use the route).",
)
PARKED = Metric("coordinator_parked_polls", Kind.GAUGE, (), "Polls that wait for a task, over all queues.")
FILE_BYTES = Metric(
    "coordinator_file_bytes", Kind.GAUGE, ("file",), "Size of the database and of its write-ahead log (wal)."
)
DISK_FREE = Metric(
    "coordinator_disk_free_bytes",
    Kind.GAUGE,
    (),
    "Free space of the disk with the database; absent for a database in memory.",
)
DISK_SIZE = Metric(
    "coordinator_disk_size_bytes",
    Kind.GAUGE,
    (),
    "Size of the disk with the database; absent for a database in memory.",
)
DISK_RESERVE = Metric(
    "coordinator_disk_reserve_bytes",
    Kind.GAUGE,
    (),
    "No workflow can be started while the disk has less free space than this; absent for a database in memory.",
)
LAST_BACKUP = Metric(
    "coordinator_last_backup_time_seconds",
    Kind.GAUGE,
    (),
    "Time of the last `conductor-worker backup` in seconds since 1970; 0 before the first backup; "
    "absent for a database in memory.",
)
REPLICATION_RUNNING = Metric(
    "coordinator_replication_running", Kind.GAUGE, (), "1 while Litestream runs, else 0; absent without replication."
)
REPLICATION_LAG = Metric(
    "coordinator_replication_lag_seconds",
    Kind.GAUGE,
    (),
    "How long ago the replica was last known to be complete; absent without replication.",
)
REPLICATION_BYTES = Metric("coordinator_replication_bytes_total", Kind.COUNTER, (), "Bytes copied to the replica.")
REPLICATION_RESTARTS = Metric(
    "coordinator_replication_restarts_total", Kind.COUNTER, (), "Starts of Litestream after it ended unexpectedly."
)
HEALTHY = Metric("coordinator_healthy", Kind.GAUGE, (), "1 while the database can be written, else 0.")
START_TIME = Metric("coordinator_start_time_seconds", Kind.GAUGE, (), "Start time in seconds since 1970.")
CPU_TOTAL = Metric("process_cpu_seconds_total", Kind.COUNTER, (), "CPU time of the coordinator's process in seconds.")
MEMORY = Metric("process_resident_memory_bytes", Kind.GAUGE, (), "Resident memory of the coordinator's process.")
INFO = Metric("coordinator_info", Kind.GAUGE, ("version",), "Always 1; the label is the version.")

#: All metrics of the coordinator, in the order of their declarations.
METRICS: tuple[Metric, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Metric))

#: The values of the label `reason` of `REFUSED_TOTAL`. Each is reported as 0 before its first refusal.
REFUSAL_REASONS = ("secret", "token", "role")
#: The verdicts that alerts use. Each is reported as 0 before its first report, so that alerts see the first increase.
ALERTED_VERDICTS = ("CANCELLED", "REJECTED")
#: The verdict label of reports by clients that do not use leases.
NO_VERDICT = "NONE"
#: The queue label of reports on tasks that are in no queue.
NO_QUEUE = ""
#: Replaces the first label of a new series if its metric already has `MAX_SERIES_PER_METRIC` series.
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
        """Add `count` to the counter of a key."""
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
        """Add each of these counts to the counter with the same key."""
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
