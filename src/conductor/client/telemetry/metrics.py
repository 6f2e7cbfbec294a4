"""Every metric a worker has, declared once: what it is called, how it is labelled, how processes are added up.

Counters and summaries live as long as the handler: what an ended process counted stays counted. Gauges are about
now: they end with their process.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

#: Quantiles of every summary, over the last five minutes.
QUANTILES = (0.5, 0.75, 0.9, 0.95, 0.99)

#: Values of the `status` label of executions.
SUCCESS = "SUCCESS"
FAILED = "FAILED"


class Kind(IntEnum):
    """How a number grows, and how the numbers of several processes become one."""

    COUNTER = 1
    #: Added over the live processes.
    GAUGE = 2
    #: `name{…,quantile}`, `name_sum` and `name_count`.
    SUMMARY = 3


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric: its name as Prometheus sees it, its labels in order, and a sentence for people.

    `tally_labels` are labels that only the `_sum` and `_count` of a summary carry, after the others.
    """

    name: str
    kind: Kind
    labels: tuple[str, ...]
    text: str
    tally_labels: tuple[str, ...] = ()


_TASK = ("taskType",)
_ERROR = ("taskType", "exception")
_REQUEST = ("method", "uri", "status")

POLL_TOTAL = Metric("task_poll_total", Kind.COUNTER, _TASK, "Polls sent.")
POLL_EMPTY_TOTAL = Metric("task_poll_empty_total", Kind.COUNTER, _TASK, "Polls answered with no task.")
POLL_ERROR_TOTAL = Metric("task_poll_error_total", Kind.COUNTER, _ERROR, "Polls refused or failed, by class of error.")
POLL_TIME = Metric("task_poll_time_seconds", Kind.SUMMARY, _TASK, "Time until a poll was answered.")
RECEIVED_TOTAL = Metric("task_received_total", Kind.COUNTER, _TASK, "Tasks received from polls.")
EXECUTE_TIME = Metric(
    "task_execute_time_seconds",
    Kind.SUMMARY,
    _TASK,
    "Time a task's function took. _sum and _count tell SUCCESS from FAILED by their status label.",
    tally_labels=("status",),
)
EXECUTE_ERROR_TOTAL = Metric("task_execute_error_total", Kind.COUNTER, _ERROR, "Failed executions, by class of error.")
RESULT_SIZE = Metric("task_result_size_bytes", Kind.SUMMARY, _TASK, "Size of task outputs as they travel.")
UPDATE_TIME = Metric("task_update_time_seconds", Kind.SUMMARY, _TASK, "Time from a result to its verdict.")
UPDATE_ERROR_TOTAL = Metric(
    "task_update_error_total", Kind.COUNTER, _ERROR, "Failed attempts to deliver a result, by class of error."
)
UPDATE_FAILED_TOTAL = Metric(
    "task_update_failed_total", Kind.COUNTER, _TASK, "Results that no attempt could deliver. Alert on this one."
)
VERDICT_TOTAL = Metric("task_verdict_total", Kind.COUNTER, ("taskType", "verdict"), "Reports by their verdict.")
LEASE_EXTENDED_TOTAL = Metric("task_lease_extended_total", Kind.COUNTER, _TASK, "Heartbeats accepted.")
LEASE_LOST_TOTAL = Metric("task_lease_lost_total", Kind.COUNTER, _TASK, "Leases lost while a task was in hand.")
SLOTS = Metric("worker_slots", Kind.GAUGE, _TASK, "Tasks a worker may have in hand at once.")
SLOTS_IN_USE = Metric("worker_slots_in_use", Kind.GAUGE, _TASK, "Tasks in hand: executing or being reported.")
STUCK_TASKS = Metric("worker_stuck_tasks", Kind.GAUGE, _TASK, "Slots held by a function that is past its timeout.")
RESTARTS_TOTAL = Metric("worker_restarts_total", Kind.COUNTER, _TASK, "Worker processes started again after a crash.")
LOOP_LAG = Metric(
    "worker_event_loop_lag_seconds", Kind.SUMMARY, _TASK, "How late the event loop of a worker's process wakes up."
)
HTTP_REQUEST = Metric("http_api_client_request", Kind.SUMMARY, _REQUEST, "Time of requests to the server, in seconds.")

METRICS: tuple[Metric, ...] = (
    POLL_TOTAL,
    POLL_EMPTY_TOTAL,
    POLL_ERROR_TOTAL,
    POLL_TIME,
    RECEIVED_TOTAL,
    EXECUTE_TIME,
    EXECUTE_ERROR_TOTAL,
    RESULT_SIZE,
    UPDATE_TIME,
    UPDATE_ERROR_TOTAL,
    UPDATE_FAILED_TOTAL,
    VERDICT_TOTAL,
    LEASE_EXTENDED_TOTAL,
    LEASE_LOST_TOTAL,
    SLOTS,
    SLOTS_IN_USE,
    STUCK_TASKS,
    RESTARTS_TOTAL,
    LOOP_LAG,
    HTTP_REQUEST,
)
