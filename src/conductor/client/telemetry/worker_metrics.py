"""The declarations of all metrics of workers.

Counters and summaries live as long as the handler: the totals include ended processes. Gauges end with their process.
"""

from __future__ import annotations

from dataclasses import dataclass

from conductor.telemetry.exposition import Kind, Metric

#: The quantiles of every summary, over the last five minutes.
QUANTILES = (0.5, 0.75, 0.9, 0.95, 0.99)

#: The values of the `status` label of execution times.
SUCCESS = "SUCCESS"
FAILED = "FAILED"

_TASK = ("taskType",)
_ERROR = ("taskType", "exception")
_REQUEST = ("method", "uri", "status")

POLL_TOTAL = Metric("task_poll_total", Kind.COUNTER, _TASK, "Polls sent.")
POLL_EMPTY_TOTAL = Metric("task_poll_empty_total", Kind.COUNTER, _TASK, "Polls answered with no task.")
POLL_ERROR_TOTAL = Metric("task_poll_error_total", Kind.COUNTER, _ERROR, "Polls rejected or failed, by class of error.")
POLL_TIME = Metric("task_poll_time_seconds", Kind.SUMMARY, _TASK, "Time until a poll was answered.")
RECEIVED_TOTAL = Metric("task_received_total", Kind.COUNTER, _TASK, "Tasks received from polls.")
EXECUTE_TIME = Metric(
    "task_execute_time_seconds",
    Kind.SUMMARY,
    _TASK,
    "Duration of a task's function. _sum and _count have a status label: SUCCESS or FAILED.",
    tally_labels=("status",),
)
EXECUTE_ERROR_TOTAL = Metric("task_execute_error_total", Kind.COUNTER, _ERROR, "Failed executions, by class of error.")
RESULT_SIZE = Metric("task_result_size_bytes", Kind.SUMMARY, _TASK, "Size of task outputs as JSON.")
UPDATE_TIME = Metric("task_update_time_seconds", Kind.SUMMARY, _TASK, "Time from a result to its verdict.")
UPDATE_ERROR_TOTAL = Metric(
    "task_update_error_total", Kind.COUNTER, _ERROR, "Failed attempts to deliver a result, by class of error."
)
UPDATE_FAILED_TOTAL = Metric(
    "task_update_failed_total", Kind.COUNTER, _TASK, "Results that no attempt could deliver. Alert on this metric."
)
VERDICT_TOTAL = Metric("task_verdict_total", Kind.COUNTER, ("taskType", "verdict"), "Reports by their verdict.")
LEASE_EXTENDED_TOTAL = Metric("task_lease_extended_total", Kind.COUNTER, _TASK, "Heartbeats accepted.")
LEASE_LOST_TOTAL = Metric("task_lease_lost_total", Kind.COUNTER, _TASK, "Leases lost while a task was running.")
SLOTS = Metric("worker_slots", Kind.GAUGE, _TASK, "Tasks a worker may run at once.")
SLOTS_IN_USE = Metric(
    "worker_slots_in_use",
    Kind.GAUGE,
    _TASK,
    "Slots in use by tasks that execute or whose reports have no verdict yet.",
)
JOURNAL_REPORTS = Metric(
    "worker_journal_reports",
    Kind.GAUGE,
    _TASK,
    "Reports without a verdict, including those in flight, in the journals that worker processes write or took over.",
)
STUCK_TASKS = Metric("worker_stuck_tasks", Kind.GAUGE, _TASK, "Slots held by a function that is past its timeout.")
RESTARTS_TOTAL = Metric("worker_restarts_total", Kind.COUNTER, _TASK, "Worker processes restarted after a crash.")
PROCESS_DIED_TOTAL = Metric(
    "task_process_died_total",
    Kind.COUNTER,
    ("taskType", "cause"),
    "Tasks during whose execution a worker process died, by the exit status of the process. Alert on this metric.",
)
LOOP_LAG = Metric(
    "worker_event_loop_lag_seconds",
    Kind.SUMMARY,
    _TASK,
    "Delay with which the event loop of a worker's process wakes up.",
)
EXECUTION_STARTED_TOTAL = Metric("task_execution_started_total", Kind.COUNTER, _TASK, "Functions called for a task.")
HTTP_REQUEST = Metric("http_api_client_request", Kind.SUMMARY, _REQUEST, "Time of requests to the server, in seconds.")

_METRICS: tuple[Metric, ...] = (
    POLL_TOTAL,
    POLL_EMPTY_TOTAL,
    POLL_ERROR_TOTAL,
    POLL_TIME,
    RECEIVED_TOTAL,
    EXECUTION_STARTED_TOTAL,
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
    JOURNAL_REPORTS,
    STUCK_TASKS,
    RESTARTS_TOTAL,
    PROCESS_DIED_TOTAL,
    LOOP_LAG,
    HTTP_REQUEST,
)


def _declare_histogram(summary: Metric) -> Metric:
    """Declare the histogram of a summary. Buckets can be summed over hosts; quantiles cannot."""
    stem, _, unit = summary.name.rpartition("_")
    if unit not in ("seconds", "bytes"):
        stem, unit = summary.name, "seconds"
    text = f"The values of {summary.name} in buckets, which can be summed over hosts."
    return Metric(f"{stem}_histogram_{unit}", Kind.HISTOGRAM, summary.labels + summary.tally_labels, text)


#: The histogram of every summary.
HISTOGRAMS: dict[Metric, Metric] = {
    metric: _declare_histogram(metric) for metric in _METRICS if metric.kind is Kind.SUMMARY
}
#: Every metric of workers.
METRICS: tuple[Metric, ...] = (*_METRICS, *HISTOGRAMS.values())


@dataclass(frozen=True, slots=True)
class CanonicalMetric:
    """A metric under the name that all SDKs of Conductor use. `source` is the metric that has the values."""

    metric: Metric
    source: Metric
    #: Labels with constant values.
    fixed_labels: tuple[tuple[str, str], ...] = ()


# The catalogue of these names is in METRICS.md of conductor-oss/python-sdk, "Canonical Metrics", as of version 2. The
# other SDKs of conductor-oss have the same list and also select it with WORKER_CANONICAL_METRICS=true. Some metrics of
# the catalogue are not listed here, because workers have no event for them: acks, full queues, external payloads,
# workflow starts.
_STATUS = (*_TASK, "status")
_SUCCESS_LABEL = (("status", SUCCESS),)
CANONICAL: tuple[CanonicalMetric, ...] = (
    CanonicalMetric(
        Metric("task_poll_time_seconds", Kind.HISTOGRAM, _STATUS, POLL_TIME.text), POLL_TIME, _SUCCESS_LABEL
    ),
    CanonicalMetric(
        Metric("task_execute_time_seconds", Kind.HISTOGRAM, _STATUS, "Time of a task's function."), EXECUTE_TIME
    ),
    CanonicalMetric(
        Metric("task_update_time_seconds", Kind.HISTOGRAM, _STATUS, UPDATE_TIME.text), UPDATE_TIME, _SUCCESS_LABEL
    ),
    CanonicalMetric(Metric("task_result_size_bytes", Kind.HISTOGRAM, _TASK, RESULT_SIZE.text), RESULT_SIZE),
    CanonicalMetric(
        Metric("http_api_client_request_seconds", Kind.HISTOGRAM, _REQUEST, HTTP_REQUEST.text), HTTP_REQUEST
    ),
    CanonicalMetric(Metric("worker_event_loop_lag_seconds", Kind.HISTOGRAM, _TASK, LOOP_LAG.text), LOOP_LAG),
    CanonicalMetric(Metric("worker_restart_total", Kind.COUNTER, _TASK, RESTARTS_TOTAL.text), RESTARTS_TOTAL),
    CanonicalMetric(Metric("active_workers", Kind.GAUGE, _TASK, SLOTS_IN_USE.text), SLOTS_IN_USE),
)
#: The `status` label of failed executions under canonical names.
FAILURE = "FAILURE"
