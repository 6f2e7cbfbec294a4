"""What the coordinator counts of itself, declared once; and what it counts in.

Counting is an integer that grows. Nothing here looks at rows: how things stand now (the gauges) is asked of the store
when somebody scrapes, from indexes that hold only what is unfinished.
"""

from __future__ import annotations

from conductor.coordinator.limits import MAX_SERIES_PER_METRIC
from conductor.telemetry.exposition import Histogram, Kind, Metric

_QUEUE = ("taskType", "domain")
_TASK = ("taskType",)
_WORKFLOW = ("workflowType",)

QUEUE_DEPTH = Metric("coordinator_queue_depth", Kind.GAUGE, _QUEUE, "Tasks that could be polled now.")
QUEUE_OLDEST = Metric(
    "coordinator_queue_oldest_seconds", Kind.GAUGE, _QUEUE, "Since when the oldest of them could be polled; 0 if none."
)
QUEUE_DELAYED = Metric("coordinator_queue_delayed", Kind.GAUGE, _QUEUE, "Tasks that can be polled later.")
IN_HAND = Metric("coordinator_tasks_in_hand", Kind.GAUGE, _QUEUE, "Tasks that a worker holds.")
QUEUE_PARKED = Metric("coordinator_queue_parked_polls", Kind.GAUGE, _QUEUE, "Polls that wait for a task.")
QUEUE_POLLED = Metric(
    "coordinator_queue_last_poll_seconds", Kind.GAUGE, _QUEUE, "Time since the last poll; absent if nobody has polled."
)
QUEUE_UNSERVED = Metric(
    "coordinator_queue_unserved", Kind.GAUGE, _QUEUE, "1 where tasks wait and no worker takes them, else 0."
)
RUNNING = Metric("coordinator_workflows_running", Kind.GAUGE, _WORKFLOW, "Workflows that have not ended.")
STARTED_TOTAL = Metric(
    "coordinator_workflows_started_total", Kind.COUNTER, _WORKFLOW, "Workflows started, sub-workflows too."
)
ENDED_TOTAL = Metric(
    "coordinator_workflows_ended_total", Kind.COUNTER, (*_WORKFLOW, "status"), "Workflows ended, by their status."
)
MISSED_TOTAL = Metric(
    "coordinator_scheduled_times_missed_total",
    Kind.COUNTER,
    (),
    "Due times of schedules that were not acted on, because the coordinator was too late.",
)
POLLS_TOTAL = Metric("coordinator_polls_total", Kind.COUNTER, _TASK, "Polls received.")
GRANTED_TOTAL = Metric("coordinator_tasks_granted_total", Kind.COUNTER, _TASK, "Tasks given to workers.")
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
    "Reports by their verdict; NONE where a client has no lease.",
)
HEARTBEATS_TOTAL = Metric("coordinator_heartbeats_total", Kind.COUNTER, ("verdict",), "Heartbeats by their verdict.")
COMMIT_TIME = Metric(
    "coordinator_commit_seconds", Kind.HISTOGRAM, (), "Time of a transaction: its callers' parts, and the disk."
)
COMMIT_GROUP = Metric("coordinator_commit_group_size", Kind.HISTOGRAM, (), "Callers that shared a transaction.")
COMMIT_FAILED_TOTAL = Metric(
    "coordinator_commit_failures_total", Kind.COUNTER, (), "Transactions that could not be written."
)
REQUEST_TIME = Metric(
    "coordinator_request_seconds",
    Kind.HISTOGRAM,
    ("method", "uri", "status"),
    "Time of requests, by the template of their path. A poll that waits for a task is as long as it waited.",
)
PARKED = Metric("coordinator_parked_polls", Kind.GAUGE, (), "Polls that wait for a task, over all queues.")
FILE_BYTES = Metric(
    "coordinator_file_bytes", Kind.GAUGE, ("file",), "Size of the database and of its write-ahead log (wal)."
)
HEALTHY = Metric("coordinator_healthy", Kind.GAUGE, (), "1 while the database can be written, else 0.")
START_TIME = Metric("coordinator_start_time_seconds", Kind.GAUGE, (), "When it was started, in seconds since 1970.")
INFO = Metric("coordinator_info", Kind.GAUGE, ("version",), "Always 1; the label tells the version.")

#: Every metric of the coordinator.
METRICS: tuple[Metric, ...] = (
    QUEUE_DEPTH,
    QUEUE_OLDEST,
    QUEUE_DELAYED,
    IN_HAND,
    QUEUE_PARKED,
    QUEUE_POLLED,
    QUEUE_UNSERVED,
    RUNNING,
    STARTED_TOTAL,
    ENDED_TOTAL,
    MISSED_TOTAL,
    POLLS_TOTAL,
    GRANTED_TOTAL,
    TASKS_ENDED_TOTAL,
    REPORTS_TOTAL,
    HEARTBEATS_TOTAL,
    COMMIT_TIME,
    COMMIT_GROUP,
    COMMIT_FAILED_TOTAL,
    REQUEST_TIME,
    PARKED,
    FILE_BYTES,
    HEALTHY,
    START_TIME,
    INFO,
)

#: What a client that knows no leases is told is counted as this.
NO_VERDICT = "NONE"
#: A report about no task of a queue is counted for this one.
NO_QUEUE = ""
#: The label of what is beyond the number of series that are kept apart.
OTHER = "other"

TIME_BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
GROUP_BOUNDS = (1, 2, 5, 10, 20, 50, 100, 200, 500)

#: Name of the metric, then its label values.
Key = tuple[str, ...]


class Tally:
    """Counters by name and label values. One thread counts; others may look at `copy()`.

    Names come from clients, so there is a limit: beyond it, the first label of what is new says `other`.
    """

    __slots__ = ("_counts", "_series")

    def __init__(self) -> None:
        self._counts: dict[Key, int] = {}
        #: How many series each metric has.
        self._series: dict[str, int] = {}

    def add(self, key: Key, count: int = 1) -> None:
        """Count."""
        if key in self._counts:
            self._counts[key] += count
        else:
            self._begin(key, count)

    def _begin(self, key: Key, count: int) -> None:
        seen = self._series.get(key[0], 0)
        if seen >= MAX_SERIES_PER_METRIC:
            key = (key[0], OTHER, *key[2:])
        self._series[key[0]] = seen + 1
        self._counts[key] = self._counts.get(key, 0) + count

    def add_all(self, counts: dict[Key, int]) -> None:
        """Count what somebody has counted apart."""
        for key, count in counts.items():
            self.add(key, count)

    def copy(self) -> dict[Key, int]:
        """As it is now."""
        return dict(self._counts)


def merge_queues_of_reports(counts: dict[Key, int]) -> dict[Key, int]:
    """The same counts with reports added up over their queues: whoever scrapes is told their verdicts alone."""
    found: dict[Key, int] = {}
    for key, count in counts.items():
        if key[0] == REPORTS_TOTAL.name:
            key = (key[0], key[2])
        found[key] = found.get(key, 0) + count
    return found


def count_reports_by_queue(counts: dict[Key, int]) -> dict[int, dict[str, int]]:
    """How many reports had which verdict, by the key of their queue."""
    found: dict[int, dict[str, int]] = {}
    for key, count in counts.items():
        if key[0] == REPORTS_TOTAL.name and key[1] not in (NO_QUEUE, OTHER):
            found.setdefault(int(key[1]), {})[key[2]] = count
    return found


class RequestTimes:
    """How long requests took, by method, template of the path, and status."""

    __slots__ = ("_times",)

    def __init__(self) -> None:
        self._times: dict[tuple[str, str, int], Histogram] = {}

    def observe(self, method: str, uri: str, status: int, seconds: float) -> None:
        """One request was answered."""
        times = self._times.get((method, uri, status))
        if times is None:
            times = self._times[method, uri, status] = Histogram(TIME_BOUNDS_S)
        times.observe(seconds)

    def items(self) -> list[tuple[tuple[str, str, int], Histogram]]:
        """Each, in order."""
        return sorted(self._times.items(), key=lambda found: found[0])
