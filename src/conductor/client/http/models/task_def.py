"""How the server treats a type of task: retries, timeouts, limits, schemas."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from conductor.client.http.models.model import Definition, OrDefault, sent
from conductor.client.http.models.schema_def import SchemaDef


class RetryLogic(StrEnum):
    """How the delay grows from retry to retry."""

    FIXED = "FIXED"
    LINEAR_BACKOFF = "LINEAR_BACKOFF"
    EXPONENTIAL_BACKOFF = "EXPONENTIAL_BACKOFF"


class TimeoutPolicy(StrEnum):
    """What happens when `timeout_seconds` are over."""

    RETRY = "RETRY"
    TIME_OUT_WF = "TIME_OUT_WF"
    ALERT_ONLY = "ALERT_ONLY"


class TaskDef(Definition, kw_only=True):
    """The definition of a task type. What is None is not sent: the server's own default, named here, applies."""

    name: OrDefault[str] = sent(str)
    description: str | None = None
    #: 3
    retry_count: int | None = None
    #: FIXED; one of `RetryLogic`.
    retry_logic: str | None = None
    #: 60
    retry_delay_seconds: int | None = None
    #: 1; multiplies the delay of LINEAR_BACKOFF.
    backoff_scale_factor: int | None = None
    #: 0 = no upper bound
    max_retry_delay_seconds: int | None = None
    #: 0; up to this much is added to a delay.
    backoff_jitter_ms: int | None = None
    #: 3600; how long a worker may be silent. Must not exceed `timeout_seconds` when that is set.
    response_timeout_seconds: int | None = None
    #: 0 = none; counted from the first poll.
    timeout_seconds: int | None = None
    #: TIME_OUT_WF; one of `TimeoutPolicy`.
    timeout_policy: str | None = None
    #: none; how long a task may wait to be polled.
    poll_timeout_seconds: int | None = None
    #: 0 = none; over all attempts together.
    total_timeout_seconds: int | None = None
    #: none; how many may run at once.
    concurrent_exec_limit: int | None = None
    #: 0 = no limit
    rate_limit_per_frequency: int | None = None
    #: 1
    rate_limit_frequency_in_seconds: int | None = None
    input_keys: list[str] | None = None
    output_keys: list[str] | None = None
    #: Values every task of this type has in its input unless the workflow gives others.
    input_template: dict[str, Any] | None = None
    runtime_metadata: list[str] | None = None
    input_schema: SchemaDef | None = None
    output_schema: SchemaDef | None = None
    #: False
    enforce_schema: bool | None = None
    isolation_group_id: str | None = None
    execution_name_space: str | None = None
    owner_email: str | None = None
    base_type: str | None = None
    #: True
    task_status_listener_enabled: bool | None = None
    owner_app: str | None = None
    create_time: int | None = None
    update_time: int | None = None
    created_by: str | None = None
    updated_by: str | None = None

    def with_defaults(self) -> TaskDef:
        """A copy in which what is unset has the value a Conductor server gives it."""
        unset = {name: value for name, value in SERVER_DEFAULTS.items() if getattr(self, name) is None}
        fresh = {name: value.copy() if isinstance(value, list | dict) else value for name, value in unset.items()}
        return msgspec.structs.replace(self, **fresh)


#: What a Conductor server assumes for the fields a definition leaves out.
SERVER_DEFAULTS: dict[str, Any] = {
    "retry_count": 3,
    "retry_logic": RetryLogic.FIXED.value,
    "retry_delay_seconds": 60,
    "backoff_scale_factor": 1,
    "max_retry_delay_seconds": 0,
    "backoff_jitter_ms": 0,
    "response_timeout_seconds": 3600,
    "timeout_seconds": 0,
    "timeout_policy": TimeoutPolicy.TIME_OUT_WF.value,
    "total_timeout_seconds": 0,
    "rate_limit_per_frequency": 0,
    "rate_limit_frequency_in_seconds": 1,
    "input_keys": [],
    "output_keys": [],
    "input_template": {},
    "runtime_metadata": [],
    "enforce_schema": False,
    "task_status_listener_enabled": True,
}
