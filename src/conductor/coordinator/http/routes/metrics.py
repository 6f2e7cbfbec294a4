"""Metrics for Prometheus: the current state, and counters since the start."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from conductor.common.machine import read_memory_bytes
from conductor.coordinator import server_metrics as table
from conductor.coordinator.core import Core
from conductor.coordinator.http.answer import Answer
from conductor.coordinator.http.request import ApiRequest
from conductor.coordinator.http.routing import Route
from conductor.coordinator.keys.roles import Access
from conductor.coordinator.limits import MAX_SERIES_PER_METRIC
from conductor.coordinator.store.database_file import MEMORY
from conductor.coordinator.store.online_backup import read_backup_time
from conductor.coordinator.store.statements import LATE_DUE_TIMES, OPEN_WORKFLOWS_BY_NAME
from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.views.queue_load import list_queues
from conductor.protocol.views import QueueLoad, ReplicationState
from conductor.telemetry.exposition import Histogram, Metric, Sample, make_histogram_samples, scrape
from conductor.version import __version__

#: A schedule counts as late after this time. A busy coordinator may start it a few seconds after its due time.
LATE_AFTER_MS = 10_000


async def get_metrics(request: ApiRequest) -> Answer:
    """GET /metrics: return the metrics as Prometheus text, or as OpenMetrics if the client accepts it."""
    core = request.core
    samples = _Samples(core, problem=await core.probe.find_problem())
    samples.add_replication(await core.read_replication())
    await core.reader.read(samples.add_current_state)
    accept = request.header(b"accept")
    text, content_type = scrape(((metric, samples.get(metric)) for metric in table.METRICS), accept)
    return Answer(200, text, content_type.encode())


class _Samples:
    """The samples of one scrape, by metric."""

    def __init__(self, core: Core, problem: str | None) -> None:
        self._core = core
        self._polls = core.tasks.list_polls()
        self._found: dict[str, list[Sample]] = {}
        self._add(table.HEALTHY, problem is None)
        self._add(table.INFO, 1, __version__)
        self._add(table.START_TIME, core.started_ms / 1000)
        self._add(table.FAST_LOOPS, len(core.fast_loops.list_fast()))
        self._add(table.PARKED, len(core.tasks.parked))
        self._add(table.CPU_TOTAL, time.process_time())
        self._add(table.MEMORY, read_memory_bytes())
        self._add(table.WRITER_BUSY_TOTAL, core.store.busy_s)
        self._add_disk()
        for name, suffix in (("database", ""), ("wal", "-wal")):
            size = file_bytes(core.store.database, suffix)
            if size is not None:
                self._add(table.FILE_BYTES, size, name)
        self._add_counters()
        self._add_histograms()

    def get(self, metric: Metric) -> Iterable[Sample]:
        """Return the samples of a metric."""
        return self._found.get(metric.name, ())

    def add_replication(self, state: ReplicationState | None) -> None:
        """Add the state of the replica."""
        if state is not None:
            self._add(table.REPLICATION_RUNNING, state.running)
            self._add(table.REPLICATION_LAG, state.lag_s)
            self._add(table.REPLICATION_BYTES, state.bytes)
            self._add(table.REPLICATION_RESTARTS, state.restarts)

    def _add_disk(self) -> None:
        """Add the free space of the disk, and the time of the last backup."""
        disk = self._core.store.disk
        disk.read()
        if disk.total_bytes:
            self._add(table.DISK_FREE, disk.free_bytes)
            self._add(table.DISK_SIZE, disk.total_bytes)
            self._add(table.DISK_RESERVE, disk.reserve_bytes)
            self._add(table.LAST_BACKUP, read_backup_time(Path(self._core.store.database)) or 0.0)

    def add_current_state(self, tx: Tx) -> None:
        """Add running workflows, queues and schedules. The cost does not grow with the number of finished workflows."""
        running = [(name, count) for name, count in tx.rows(OPEN_WORKFLOWS_BY_NAME)]
        for name, count in _limit_names(running):
            self._add(table.RUNNING, count, name)
        late = tx.first(LATE_DUE_TIMES, tx.now_ms - LATE_AFTER_MS)
        self._add(table.SCHEDULES_LATE, late or 0)
        for queue in _limit_queues(list_queues(tx, self._polls)):
            self._add_queue(queue, tx.now_ms)

    def _add_queue(self, queue: QueueLoad, now_ms: int) -> None:
        labels = queue.name, queue.domain.strip()
        oldest_s = 0.0 if queue.oldest_ms is None else max(0, now_ms - queue.oldest_ms) / 1000
        self._add(table.QUEUE_DEPTH, queue.ready, *labels)
        self._add(table.QUEUE_OLDEST, oldest_s, *labels)
        self._add(table.QUEUE_DELAYED, queue.delayed, *labels)
        self._add(table.IN_HAND, queue.in_hand, *labels)
        self._add(table.QUEUE_PARKED, queue.parked, *labels)
        self._add(table.QUEUE_UNSERVED, queue.problem is not None, *labels)
        if queue.last_poll_ms is not None:
            self._add(table.QUEUE_POLLED, max(0, now_ms - queue.last_poll_ms) / 1000, *labels)

    def _add_counters(self) -> None:
        store, core = self._core.store, self._core
        by_name = {metric.name: metric for metric in table.METRICS}
        # Counters that alerts use are exported as 0 from the start, because Prometheus' `rate()` misses the first
        # increment of a new series.
        self._add(table.COMMIT_FAILED_TOTAL, store.failed_commits)
        counts: dict[table.Key, int] = {
            (table.MISSED_TOTAL.name,): 0,
            **{(table.REFUSED_TOTAL.name, reason): 0 for reason in table.REFUSAL_REASONS},
            **{(table.REPORTS_TOTAL.name, verdict): 0 for verdict in table.ALERTED_VERDICTS},
            **table.merge_queues_of_reports(store.counts.copy()),
            **core.counts.copy(),
        }
        for (name, *labels), count in sorted(counts.items()):
            self._add(by_name[name], count, *labels)

    def _add_histograms(self) -> None:
        store = self._core.store
        self._add_histogram(table.COMMIT_TIME, store.commit_times)
        self._add_histogram(table.COMMIT_GROUP, store.group_sizes)
        for (method, uri, status), times in self._core.request_times.items():
            self._add_histogram(table.REQUEST_TIME, times, method, uri, str(status))

    def _add(self, metric: Metric, value: float, *labels: str) -> None:
        label_values = dict(zip(metric.labels, labels, strict=True))
        self._found.setdefault(metric.name, []).append(Sample(metric.name, label_values, float(value)))

    def _add_histogram(self, metric: Metric, histogram: Histogram, *labels: str) -> None:
        label_values = dict(zip(metric.labels, labels, strict=True))
        counts = list(histogram.counts)  # a copy: other threads continue counting
        lines = make_histogram_samples(metric.name, label_values, histogram.bounds, counts, histogram.total)
        self._found.setdefault(metric.name, []).extend(lines)


def file_bytes(database: str, suffix: str = "") -> int | None:
    """Return the size of the database file, or of the file with `suffix` next to it; None for a database in memory."""
    if database.startswith(MEMORY):
        return None
    file = Path(database + suffix)
    return file.stat().st_size if file.exists() else 0


def _limit_names(rows: list[tuple[str, int]]) -> Iterator[tuple[str, int]]:
    """Yield the `MAX_SERIES_PER_METRIC` largest counts, and the sum of the others under the name `other`."""
    rows.sort(key=lambda row: -row[1])
    yield from rows[:MAX_SERIES_PER_METRIC]
    if rest := rows[MAX_SERIES_PER_METRIC:]:
        yield table.OTHER, sum(count for _, count in rest)


def _limit_queues(queues: list[QueueLoad]) -> Iterator[QueueLoad]:
    """Yield the first `MAX_SERIES_PER_METRIC` queues, and one entry named `other` with the sums of the others.

    `list_queues` returns the queues with a problem and the longest queues first.
    """
    yield from queues[:MAX_SERIES_PER_METRIC]
    if rest := queues[MAX_SERIES_PER_METRIC:]:
        yield QueueLoad(
            name=table.OTHER,
            ready=sum(queue.ready for queue in rest),
            delayed=sum(queue.delayed for queue in rest),
            oldest_ms=min((queue.oldest_ms for queue in rest if queue.oldest_ms is not None), default=None),
            in_hand=sum(queue.in_hand for queue in rest),
            holders=[],
            parked=sum(queue.parked for queue in rest),
            problem=next((queue.problem for queue in rest if queue.problem is not None), None),
        )


ROUTES = [Route("GET", "/metrics", get_metrics, Access.SCRAPE)]
