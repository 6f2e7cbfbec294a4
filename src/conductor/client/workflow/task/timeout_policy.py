"""The action at the timeout of a workflow."""

from __future__ import annotations

from enum import StrEnum


class TimeoutPolicy(StrEnum):
    """The action when a workflow takes longer than its timeout."""

    #: The workflow ends with the status TIMED_OUT.
    TIME_OUT_WORKFLOW = "TIME_OUT_WF"
    #: The workflow continues, and the server raises an alert.
    ALERT_ONLY = "ALERT_ONLY"
