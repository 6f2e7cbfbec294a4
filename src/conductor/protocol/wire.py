"""What the worker and the coordinator must agree on: names that travel, and nothing else.

A plain Conductor server knows none of the headers here; their absence is how a worker recognises one.
"""

from __future__ import annotations

from enum import StrEnum


class Verdict(StrEnum):
    """The coordinator's final word on one report. A worker never retries after one."""

    #: The lease was valid and the result is stored.
    COMMITTED = "COMMITTED"
    #: The worker had lost its authority; the result was discarded. Not a failure of the task.
    CANCELLED = "CANCELLED"
    #: The report itself was wrong: unknown task or lease, malformed, or a second, different report.
    REJECTED = "REJECTED"


#: What the reason of a report begins with that names the death of a worker process.
PROCESS_DEATH = "the worker process "

#: Header of every answer to a report, and of a heartbeat that was not accepted.
VERDICT_HEADER = "Conductor-Verdict"
#: Header of an accepted heartbeat: the lease's new end, epoch milliseconds.
LEASE_EXPIRES_HEADER = "Conductor-Lease-Expires-At"
#: Header of every poll answer of a coordinator: a comma-separated list of the features below.
FEATURES_HEADER = "Conductor-Features"
FEATURE_LEASES = "leases"
FEATURE_BATCH_REPORTS = "batch-reports"
#: A request with reports may ask for the next tasks: `?next=N`, and `nextTask` in the answer to each report.
FEATURE_REPORT_AND_POLL = "report-and-poll"
NEXT_QUERY = "next"
NEXT_TASK = "nextTask"
#: Header of a coordinator's poll answers, and of a 413: the largest body it takes, in bytes.
MAX_BODY_HEADER = "Conductor-Max-Body"
FEATURE_BULK_STARTS = "bulk-starts"
#: Features that a coordinator announces with every poll answer.
FEATURES = f"{FEATURE_LEASES}, {FEATURE_BATCH_REPORTS}, {FEATURE_REPORT_AND_POLL}"
#: Features that a coordinator announces with `GET /version`, for clients that do not poll.
SERVER_FEATURES = f"{FEATURES}, {FEATURE_BULK_STARTS}"
#: Header of the answer to a registration, once for each thing that is kept without effect or will fail when it is used.
WARNING_HEADER = "Conductor-Warning"

#: Fields a coordinator adds to a polled task.
LEASE_ID = "leaseId"
LEASE_EXPIRES_AT = "leaseExpiresAt"
#: Fields a worker adds to a report. (A heartbeat sends LEASE_ID and EXTEND_LEASE.)
TIMED_OUT = "timedOut"
EXTEND_LEASE = "extendLease"
#: Field an error body gains when it carries a verdict.
VERDICT_FIELD = "verdict"

#: Header that carries the access token, as Conductor's clients send it.
AUTH_HEADER = "X-Authorization"

#: The server refuses a longer long poll.
MAX_POLL_TIMEOUT_MS = 5000
#: More than this in one batch poll is never asked for.
MAX_POLL_COUNT = 100
#: Start requests in one bulk start: a coordinator refuses more.
MAX_BULK_STARTS = 1000
#: The server cuts a failure reason here.
MAX_REASON_CHARS = 500
#: A plain server keeps this many logs of one report.
MAX_LOGS_PER_REPORT = 10
#: A task whose definition names no response timeout has this one.
DEFAULT_RESPONSE_TIMEOUT_S = 3600
#: A task can be handed back for this long: the server's seconds are 32 bits wide.
MAX_CALLBACK_S = 2**31 - 1
