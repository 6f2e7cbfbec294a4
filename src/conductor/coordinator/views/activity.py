"""`/view/activity`: what happened in the last hours. The cost is bounded, however many workflows ended.

Keys increase with time, so a binary search finds the first key after a time. The difference of two keys is the number
of rows that were created in between, even if some have been removed. Ends are counted in an index.
"""

from __future__ import annotations

from itertools import pairwise

from conductor.coordinator.request_errors import bad_request
from conductor.coordinator.store.statements import (
    ENDED_BETWEEN,
    FAILED_BETWEEN,
    FIRST_TASK_FROM,
    FIRST_WORKFLOW_FROM,
    LAST_KEY,
    TASKS_IN_KEY_RANGE,
    KeyTime,
    Query,
    TaskTimes,
)
from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.views.load_history import LoadHistory
from conductor.coordinator.views.queue_load import FAILED_TASK_STATUSES, quantile
from conductor.protocol.views import Activity, TaskTypeActivity

#: Number of time spans, and so of bars in a chart.
BUCKETS = 60
MAX_HOURS = 7 * 24
#: At most this many ended workflows are counted.
MAX_ENDED = 1_000_000
#: Durations are computed from at most this many attempts. They are read in blocks of neighbouring rows, which are
#: spread evenly over the time.
SAMPLED_ATTEMPTS = 5000
SAMPLE_BLOCKS = 50


def read_activity(tx: Tx, history: LoadHistory, hours: int) -> Activity:
    """Return how many workflows started and ended in the last `hours`, and how long their tasks waited and ran."""
    if not 1 <= hours <= MAX_HOURS:
        raise bad_request(f"hours must be between 1 and {MAX_HOURS}, not {hours}")
    bucket_ms = hours * 3_600_000 // BUCKETS
    from_ms = tx.now_ms // bucket_ms * bucket_ms - (BUCKETS - 1) * bucket_ms
    bounds = [from_ms + number * bucket_ms for number in range(BUCKETS + 1)]
    end = (tx.first(LAST_KEY, "workflow") or 0) + 1
    keys: list[int] = []
    for at_ms in bounds[:-1]:
        keys.append(find_first_key(tx, FIRST_WORKFLOW_FROM, at_ms, keys[-1] if keys else 1, end))
    keys.append(end)
    failed = [tx.first(FAILED_BETWEEN, low, high, MAX_ENDED) or 0 for low, high in pairwise(bounds)]
    finished = _count_finished(tx, bounds, failed)
    first_task = find_first_key(tx, FIRST_TASK_FROM, from_ms, 1, (tx.first(LAST_KEY, "task") or 0) + 1)
    sample, attempts = _sample_attempts(tx, first_task)
    loads = history.list_peaks(bounds)
    return Activity(
        now_ms=tx.now_ms,
        from_ms=from_ms,
        bucket_ms=bucket_ms,
        started=[high - low for low, high in pairwise(keys)],
        finished=finished,
        failed=failed,
        waiting=[None if load is None else load.ready for load in loads],
        in_hand=[None if load is None else load.in_hand for load in loads],
        is_partial=None in finished,
        task_types=_summarize(sample),
        sampled_attempts=len(sample),
        attempts=attempts,
    )


def find_first_key(tx: Tx, query: Query[KeyTime], at_ms: int, low: int, end: int) -> int:
    """Return the first key of a row that was created at `at_ms` or later; `end` if there is none."""
    high = end
    while low < high:
        middle = (low + high) // 2
        found = tx.first(query, middle)
        if found is None or found.pk >= high or found.at_ms >= at_ms:
            high = middle
        else:
            low = found.pk + 1
    return low


def _count_finished(tx: Tx, bounds: list[int], failed: list[int]) -> list[int | None]:
    """Return how many workflows ended without a failure in each span.

    At most `MAX_ENDED` ends are counted, from the newest span to the oldest. The count of a span not reached is None.
    """
    finished: list[int | None] = [None] * len(failed)
    left = MAX_ENDED
    for index in reversed(range(len(failed))):
        ended = tx.first(ENDED_BETWEEN, bounds[index], bounds[index + 1], left) or 0
        left -= ended
        if left <= 0:
            break
        finished[index] = max(0, ended - failed[index])
    return finished


def _sample_attempts(tx: Tx, first: int) -> tuple[list[TaskTimes], int]:
    """Return a sample of the attempts with the key `first` or a later one, and the number of these attempts."""
    end = (tx.first(LAST_KEY, "task") or 0) + 1
    attempts = end - first
    if attempts <= SAMPLED_ATTEMPTS:
        return tx.rows(TASKS_IN_KEY_RANGE, first, end, SAMPLED_ATTEMPTS), attempts
    size = SAMPLED_ATTEMPTS // SAMPLE_BLOCKS
    sample: list[TaskTimes] = []
    for block in range(SAMPLE_BLOCKS):
        begin = first + (attempts - size) * block // (SAMPLE_BLOCKS - 1)
        sample += tx.rows(TASKS_IN_KEY_RANGE, begin, begin + size, size)
    return sample, attempts


def _summarize(sample: list[TaskTimes]) -> list[TaskTypeActivity]:
    by_name: dict[str, list[TaskTimes]] = {}
    for attempt in sample:
        by_name.setdefault(attempt.name, []).append(attempt)
    return [_summarize_type(name, attempts) for name, attempts in sorted(by_name.items())]


def _summarize_type(name: str, attempts: list[TaskTimes]) -> TaskTypeActivity:
    waits = sorted(max(0, one.started_ms - one.ready_ms) for one in attempts if one.started_ms)
    runs = sorted(max(0, one.ended_ms - one.started_ms) for one in attempts if one.started_ms and one.ended_ms)
    return TaskTypeActivity(
        name=name,
        of_server=all(one.of_server for one in attempts),
        attempts=len(attempts),
        failed=sum(one.status in FAILED_TASK_STATUSES for one in attempts),
        wait_p95_ms=quantile(waits, 0.95),
        run_p50_ms=quantile(runs, 0.5),
        run_p95_ms=quantile(runs, 0.95),
    )
