"""What happens when a workflow takes too long."""

from __future__ import annotations

from enum import StrEnum


class TimeoutPolicy(StrEnum):
    """What happens when a workflow takes longer than its timeout."""

    #: It ends as TIMED_OUT.
    TIME_OUT_WORKFLOW = "TIME_OUT_WF"
    #: It goes on; the server only says so.
    ALERT_ONLY = "ALERT_ONLY"
