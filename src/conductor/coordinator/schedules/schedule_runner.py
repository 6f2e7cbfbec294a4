"""Start the workflows of due schedules, each exactly once, and record the runs. Runs inside transactions."""

from __future__ import annotations

import logging
import time
from collections import Counter

import msgspec
from msgspec.structs import replace

from conductor.coordinator.language.cron import CronError
from conductor.coordinator.limits import MAKE_UP_MS, RUNS_KEPT_PER_SCHEDULE, TURN_S
from conductor.coordinator.request_errors import ApiError
from conductor.coordinator.schedules import schedule_store
from conductor.coordinator.schedules.cron_schedule import Schedule, view_start_request
from conductor.coordinator.server_metrics import MISSED_TOTAL
from conductor.coordinator.store.statements import ADD_SCHEDULE_RUN, DUE_SCHEDULES, FORGET_SCHEDULE_RUNS, LAST_KEY
from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.store.writer import is_fault_of_file
from conductor.coordinator.workflows.effects import Start
from conductor.coordinator.workflows.executions import Executions
from conductor.protocol.wire import MAX_REASON_CHARS

logger = logging.getLogger(__name__)

#: Missed due times are logged at most once in this interval.
MISSED_LOG_INTERVAL_MS = 60_000


class ScheduleRunner:
    """Starts the workflows of due schedules."""

    def __init__(self, executions: Executions) -> None:
        self._executions = executions
        self._missed_since_log = 0
        self._next_log_ms = 0

    def start_due(self, tx: Tx, limit: int) -> None:
        """Start at most `limit` due workflows, for about `TURN_S`. The next transaction starts the rest."""
        ends_s, missed = time.thread_time() + TURN_S, Counter[str]()
        for name, position, due_ms in tx.rows(DUE_SCHEDULES, tx.now_ms, limit):
            missed[name] += self._run(tx, name, position, due_ms)
            if time.thread_time() > ends_s:
                break
        self._note_missed(tx, +missed)

    def _note_missed(self, tx: Tx, missed: Counter[str]) -> None:
        """Count missed due times, and log them at most once per `MISSED_LOG_INTERVAL_MS`."""
        if not missed:
            return
        count = missed.total()
        tx.notes.count((MISSED_TOTAL.name,), count)
        self._missed_since_log += count
        if tx.now_ms < self._next_log_ms:
            return
        logger.warning(
            "Scheduled times missed: count=%d schedules=%d first=%r; a start that is more than %d s late "
            "is skipped unless runCatchupScheduleInstances is true",
            self._missed_since_log,
            len(missed),
            next(iter(missed)),
            MAKE_UP_MS // 1000,
        )
        self._missed_since_log, self._next_log_ms = 0, tx.now_ms + MISSED_LOG_INTERVAL_MS

    def _run(self, tx: Tx, name: str, position: int, due_ms: int) -> int:
        """Start the workflow of one due time, and return how many due times after it were missed."""
        schedule = schedule_store.load(tx, name)
        cron = schedule.crons[position]
        pk = (tx.first(LAST_KEY, "schedule_run") or 0) + 1
        expression = f"{cron.cron_expression} {cron.zone}"
        start = _make_start(schedule, expression, due_ms, tx.now_ms, tx.ids.run(pk))
        workflow, reason = self._start(tx, name, start)
        state = "EXECUTED" if reason is None else "FAILED"
        request = msgspec.json.encode(view_start_request(schedule.start))
        tx.run(
            ADD_SCHEDULE_RUN,
            *(pk, name, due_ms, tx.now_ms, schedule.start.name, workflow, state, reason, cron.zone, request),
        )
        tx.run(FORGET_SCHEDULE_RUNS, name, RUNS_KEPT_PER_SCHEDULE)
        next_ms, missed = _find_next_due(schedule, position, due_ms, tx.now_ms)
        schedule_store.set_due(tx, name, position, next_ms)
        return missed

    def _start(self, tx: Tx, name: str, start: Start) -> tuple[int | None, str | None]:
        """Start a workflow. Return its key and None, or None and the reason why it cannot start."""
        try:
            with tx.savepoint():
                return self._executions.start(tx, start), None
        except ApiError as error:
            reason = error.in_one_line()
            logger.warning("Scheduled start failed: schedule=%s workflow=%s error=%r", name, start.name, reason)
        except Exception as error:
            if is_fault_of_file(error):
                raise
            logger.exception("Scheduled start failed unexpectedly: schedule=%s workflow=%s", name, start.name)
            reason = f"{type(error).__name__}: {error}"
        return None, reason[:MAX_REASON_CHARS]


def _make_start(schedule: Schedule, cron: str, due_ms: int, now_ms: int, run_id: str) -> Start:
    """Return the start request of a run, with the facts about the schedule that Conductor adds to the input."""
    facts = {
        "_startedByScheduler": schedule.name,
        "_scheduledTime": due_ms,
        "_executedTime": now_ms,
        "_executionId": run_id,
        "_schedulerCron": cron,
    }
    start = schedule.start
    return replace(start, input={**(start.input or {}), **facts}, created_by=schedule.created_by)


def _find_next_due(schedule: Schedule, position: int, due_ms: int, now_ms: int) -> tuple[int | None, int]:
    """Return the next due time, and how many due times before it were missed."""
    try:
        next_ms = schedule.next_due(position, due_ms, now_ms)
        return next_ms, schedule.count_missed(position, due_ms, next_ms, now_ms)
    except CronError as error:  # this machine does not know the time zone of the schedule
        logger.error("Schedule stopped, its next due time is unknown: schedule=%s error=%r", schedule.name, str(error))
        return None, 0
