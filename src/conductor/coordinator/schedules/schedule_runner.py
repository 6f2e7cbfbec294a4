"""Starting what is due, exactly once, and what is remembered of it. Runs inside transactions."""

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
from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.store.writer import is_fault_of_file
from conductor.coordinator.workflows.effects import Start
from conductor.coordinator.workflows.executions import Executions
from conductor.protocol.wire import MAX_REASON_CHARS

logger = logging.getLogger(__name__)

#: At most one line about missed due times is logged in this time.
LOG_EVERY_MS = 60_000


class ScheduleRunner:
    """Starts the workflows of schedules."""

    def __init__(self, executions: Executions) -> None:
        self._executions = executions
        self._missed_since_log = 0
        self._next_log_ms = 0

    def start_due(self, tx: Tx, limit: int) -> None:
        """Start what is due, at most `limit` workflows and for about `TURN_S`; the rest is due still."""
        ends_s, missed = time.thread_time() + TURN_S, Counter[str]()
        for name, position, due_ms in tx.rows("due schedules", tx.now_ms, limit):
            missed[name] += self._run(tx, name, position, due_ms)
            if time.thread_time() > ends_s:
                break
        self._note_missed(tx, +missed)

    def _note_missed(self, tx: Tx, missed: Counter[str]) -> None:
        """Count due times that are not made up for; log the first ones, and then at most one line per minute."""
        if not missed:
            return
        count = missed.total()
        tx.notes.count((MISSED_TOTAL.name,), count)
        self._missed_since_log += count
        if tx.now_ms < self._next_log_ms:
            return
        logger.warning(
            "Scheduled times missed: count=%d schedules=%d first=%r; times that are more than %d s late are not made "
            "up for without runCatchupScheduleInstances",
            self._missed_since_log,
            len(missed),
            next(iter(missed)),
            MAKE_UP_MS // 1000,
        )
        self._missed_since_log, self._next_log_ms = 0, tx.now_ms + LOG_EVERY_MS

    def _run(self, tx: Tx, name: str, position: int, due_ms: int) -> int:
        """Start the workflow of one due time, and return how many due times after it were missed."""
        schedule = schedule_store.load(tx, name)
        cron = schedule.crons[position]
        pk = int(tx.value("last key", "schedule_run") or 0) + 1
        asked = _start_of(schedule, f"{cron.cron_expression} {cron.zone}", due_ms, tx.now_ms, tx.ids.run(pk))
        workflow, reason = self._start(tx, name, asked)
        state = "EXECUTED" if reason is None else "FAILED"
        request = msgspec.json.encode(view_start_request(schedule.start))
        tx.run(
            "add schedule run",
            *(pk, name, due_ms, tx.now_ms, schedule.start.name, workflow, state, reason, cron.zone, request),
        )
        tx.run("forget schedule runs", name, RUNS_KEPT_PER_SCHEDULE)
        next_ms, missed = _next(schedule, position, due_ms, tx.now_ms)
        schedule_store.set_due(tx, name, position, next_ms)
        return missed

    def _start(self, tx: Tx, name: str, asked: Start) -> tuple[int | None, str | None]:
        """(the workflow, None), or (None, why it could not be started): that is a failed run, and no more."""
        try:
            with tx.savepoint():
                return self._executions.start(tx, asked), None
        except ApiError as error:
            why = error.in_one_line()
            logger.warning("schedule %s could not start %s: %s", name, asked.name, why)
        except Exception as error:
            if is_fault_of_file(error):
                raise
            logger.exception("schedule %s could not start %s", name, asked.name)
            why = f"{type(error).__name__}: {error}"
        return None, why[:MAX_REASON_CHARS]


def _start_of(schedule: Schedule, cron: str, due_ms: int, now_ms: int, run_id: str) -> Start:
    """What is asked for, and what the workflow is told of the schedule, as Conductor tells it."""
    told = {
        "_startedByScheduler": schedule.name,
        "_scheduledTime": due_ms,
        "_executedTime": now_ms,
        "_executionId": run_id,
        "_schedulerCron": cron,
    }
    start = schedule.start
    return replace(start, input={**(start.input or {}), **told}, created_by=schedule.created_by)


def _next(schedule: Schedule, position: int, due_ms: int, now_ms: int) -> tuple[int | None, int]:
    """Return the next due time, and how many before it were missed."""
    try:
        next_ms = schedule.next_due(position, due_ms, now_ms)
        return next_ms, schedule.count_missed(position, due_ms, next_ms, now_ms)
    except CronError as error:  # it was read when it was saved: another machine, without that zone
        logger.error("schedule %s is not due any more: %s", schedule.name, error)
        return None, 0
