"""Task definitions: retries, timeouts, limits, schemas."""

from enum import StrEnum
from typing import Self

import msgspec

from conductor.client.http.models.model import Definition, OrDefault, sent_default
from conductor.client.http.models.schema_def import SchemaDef
from conductor.protocol.json_types import JsonObject


class RetryLogic(StrEnum):
    """How the delay grows with each retry."""

    FIXED = "FIXED"
    LINEAR_BACKOFF = "LINEAR_BACKOFF"
    EXPONENTIAL_BACKOFF = "EXPONENTIAL_BACKOFF"


class TimeoutPolicy(StrEnum):
    """The reaction to a task that exceeds `timeout_seconds`."""

    RETRY = "RETRY"
    TIME_OUT_WF = "TIME_OUT_WF"
    ALERT_ONLY = "ALERT_ONLY"


class TaskDef(Definition, kw_only=True):
    """The definition of a task type.

    A field that is None is not sent, so the server's default applies. `SERVER_DEFAULTS` has the defaults.
    """

    name: OrDefault[str] = sent_default(str)
    description: str | None = None
    retry_count: int | None = None
    #: A name of `RetryLogic`.
    retry_logic: str | None = None
    retry_delay_seconds: int | None = None
    #: Multiplies the delay of LINEAR_BACKOFF.
    backoff_scale_factor: int | None = None
    #: The longest delay; 0 means no upper bound.
    max_retry_delay_seconds: int | None = None
    #: The longest random time that is added to a delay.
    backoff_jitter_ms: int | None = None
    #: The longest time between two reports of a worker. At most `timeout_seconds`, if that is set.
    response_timeout_seconds: int | None = None
    #: The time limit of one attempt, counted from its first poll; 0 means no limit.
    timeout_seconds: int | None = None
    #: A name of `TimeoutPolicy`.
    timeout_policy: str | None = None
    #: The longest time in the queue.
    poll_timeout_seconds: int | None = None
    #: The time limit of all attempts together; 0 means no limit.
    total_timeout_seconds: int | None = None
    #: The largest number of tasks that run at the same time.
    concurrent_exec_limit: int | None = None
    #: The largest number of starts per `rate_limit_frequency_in_seconds`; 0 means no limit.
    rate_limit_per_frequency: int | None = None
    rate_limit_frequency_in_seconds: int | None = None
    input_keys: list[str] | None = None
    output_keys: list[str] | None = None
    #: Default values of the input.
    input_template: JsonObject | None = None
    runtime_metadata: list[str] | None = None
    input_schema: SchemaDef | None = None
    output_schema: SchemaDef | None = None
    enforce_schema: bool | None = None
    isolation_group_id: str | None = None
    execution_name_space: str | None = None
    owner_email: str | None = None
    base_type: str | None = None
    task_status_listener_enabled: bool | None = None
    owner_app: str | None = None
    create_time: int | None = None
    update_time: int | None = None
    created_by: str | None = None
    updated_by: str | None = None

    def with_defaults(self) -> Self:
        """Return a copy in which unset fields have the defaults of a Conductor server."""
        unset = {name: value for name, value in SERVER_DEFAULTS.items() if getattr(self, name) is None}
        fresh = {name: value.copy() if isinstance(value, list | dict) else value for name, value in unset.items()}
        return msgspec.structs.replace(self, **fresh)


#: The defaults of a Conductor server for fields that are not set.
SERVER_DEFAULTS: JsonObject = {
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
