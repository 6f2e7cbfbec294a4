"""The headers, fields and limits of the protocol between a worker and a server.

A Conductor server sends none of these headers, so a worker recognizes it by their absence.
"""

from __future__ import annotations

from enum import StrEnum


class Verdict(StrEnum):
    """The coordinator's final decision about a report. A worker never retries after a verdict."""

    #: The lease was valid and the result is stored.
    COMMITTED = "COMMITTED"
    #: The worker had lost its lease; the result was discarded. The task did not fail.
    CANCELLED = "CANCELLED"
    #: The report itself was wrong: unknown task or lease, malformed, or a second, different report.
    REJECTED = "REJECTED"


#: Prefix of a failure reason that reports the death of a worker process.
PROCESS_DEATH = "the worker process "

#: An unused task type, which tools poll to identify the server. A poll of this task type is not a worker.
PROBE_TASK_TYPE = "conductor_worker_doctor"

#: Header with the verdict, in every answer to a report and in the answer to a rejected heartbeat.
VERDICT_HEADER = "Conductor-Verdict"
#: Header in the answer to an accepted heartbeat: the new end of the lease, in epoch milliseconds.
LEASE_EXPIRES_HEADER = "Conductor-Lease-Expires-At"
#: Header in every answer of a coordinator to a poll: a comma-separated list of the features below.
FEATURES_HEADER = "Conductor-Features"
#: Header of a coordinator's answers to polls, and of the requests of workers; see `epoch_token`.
EPOCH_HEADER = "Conductor-Epoch"
FEATURE_LEASES = "leases"
FEATURE_BATCH_REPORTS = "batch-reports"
#: A request with reports may ask for N new tasks with `?next=N`. The answer to a report contains one as `nextTask`.
FEATURE_REPORT_AND_POLL = "report-and-poll"
#: A coordinator stores the durable steps of a task; see `protocol.steps`.
FEATURE_STEPS = "steps"
NEXT_QUERY = "next"
NEXT_TASK = "nextTask"
#: Header in a coordinator's answer to a poll, and in a 413: the largest body that it accepts, in bytes.
MAX_BODY_HEADER = "Conductor-Max-Body"
FEATURE_BULK_STARTS = "bulk-starts"
#: Features that a coordinator announces with every poll answer.
FEATURES = f"{FEATURE_LEASES}, {FEATURE_BATCH_REPORTS}, {FEATURE_REPORT_AND_POLL}, {FEATURE_STEPS}"
#: Features that a coordinator announces with `GET /version`, for clients that do not poll.
SERVER_FEATURES = f"{FEATURES}, {FEATURE_BULK_STARTS}"
#: Header in the answer to a registration, repeated for each setting that has no effect or will fail when used.
WARNING_HEADER = "Conductor-Warning"

#: Fields that a coordinator adds to a polled task.
LEASE_ID = "leaseId"
LEASE_EXPIRES_AT = "leaseExpiresAt"
#: Fields of a polled task with durable steps. `stepsOmitted` is true if the steps are too large for the answer.
STEPS = "steps"
STEPS_OMITTED = "stepsOmitted"
#: Fields that a worker adds to a report. (A heartbeat sends LEASE_ID and EXTEND_LEASE.)
TIMED_OUT = "timedOut"
EXTEND_LEASE = "extendLease"
#: Field of an error body that contains the verdict.
VERDICT_FIELD = "verdict"

#: Header that carries the access token, as Conductor's clients send it.
AUTH_HEADER = "X-Authorization"

#: The longest timeout of a long poll that the server accepts.
MAX_POLL_TIMEOUT_MS = 5000
#: The largest number of tasks that a worker requests with one poll.
MAX_POLL_COUNT = 100
#: Query parameters of a poll with which a worker tells a coordinator how many tasks of the type it runs at the same
#: time, and the name and version of its SDK.
SLOTS_QUERY = "slots"
CLIENT_QUERY = "client"
#: The largest number of workflows that a coordinator starts for one bulk request.
MAX_BULK_STARTS = 1000
#: The server cuts failure reasons to this length.
MAX_REASON_CHARS = 500
#: A Conductor server stores at most this many log lines per report.
MAX_LOGS_PER_REPORT = 10
#: The response timeout of a task whose definition does not set one.
DEFAULT_RESPONSE_TIMEOUT_S = 3600
#: The longest time that a worker can postpone a task; the server stores the seconds in 32 bits.
MAX_CALLBACK_S = 2**31 - 1
