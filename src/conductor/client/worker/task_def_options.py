"""Makes the task definition of a worker from the arguments of its decorator, and checks definitions in code."""

from __future__ import annotations

from typing import Literal

from conductor.client.configuration.option import find_nearest
from conductor.client.http.models.task_def import SERVER_DEFAULTS, RetryLogic, TaskDef, TimeoutPolicy

Backoff = Literal["fixed", "linear", "exponential"]

_BACKOFFS = {
    "fixed": RetryLogic.FIXED,
    "linear": RetryLogic.LINEAR_BACKOFF,
    "exponential": RetryLogic.EXPONENTIAL_BACKOFF,
}
#: Fields of a definition with a fixed set of values.
_CHOICES = {"retry_logic": RetryLogic, "timeout_policy": TimeoutPolicy}
#: Fields of a definition that are not negative.
_COUNTS = (
    "retry_count",
    "retry_delay_seconds",
    "max_retry_delay_seconds",
    "backoff_jitter_ms",
    "response_timeout_seconds",
    "timeout_seconds",
    "poll_timeout_seconds",
    "total_timeout_seconds",
    "concurrent_exec_limit",
    "rate_limit_per_frequency",
)


def make_task_def(
    owner: str,
    retries: int | None,
    retry_delay_s: int | None,
    backoff: Backoff | None,
    timeout_s: int | None,
) -> TaskDef:
    """Return the definition that these arguments describe.

    An attempt that takes longer than `timeout_s`, or has no heartbeat or report for `timeout_s`, is retried.

    Raises:
        ValueError: A value is not possible.
    """
    if backoff is not None and backoff not in _BACKOFFS:
        raise ValueError(f"{owner}: backoff must be one of {', '.join(map(repr, _BACKOFFS))}, got {backoff!r}")
    for name, value, least in (
        ("retries", retries, 0),
        ("retry_delay_s", retry_delay_s, 0),
        ("timeout_s", timeout_s, 1),
    ):
        if value is not None and (type(value) is not int or value < least):
            raise ValueError(f"{owner}: {name} must be a whole number of at least {least}, got {value!r}")
    definition = TaskDef(
        retry_count=retries,
        retry_delay_seconds=retry_delay_s,
        retry_logic=None if backoff is None else _BACKOFFS[backoff].value,
    )
    if timeout_s is not None:
        definition.timeout_seconds = timeout_s
        definition.timeout_policy = TimeoutPolicy.RETRY.value
        # A server rejects a definition whose response timeout is longer than `timeoutSeconds`.
        definition.response_timeout_seconds = min(timeout_s, SERVER_DEFAULTS["response_timeout_seconds"])
    return definition


def check_task_def(owner: str, definition: TaskDef) -> None:
    """Check the values that every server would reject.

    Raises:
        ValueError: A value is not possible. The message names the field and the possible values.
    """
    for name, choices in _CHOICES.items():
        value = getattr(definition, name)
        if value is not None and str(value) not in choices.__members__:
            near = find_nearest(str(value), choices.__members__)
            hint = f"; did you mean '{near}'?" if near else ""
            raise ValueError(
                f"{owner}: task_def.{name} must be one of {', '.join(choices.__members__)}, got {value!r}{hint}"
            )
    for name in _COUNTS:
        value = getattr(definition, name)
        if value is not None and value < 0:
            raise ValueError(f"{owner}: task_def.{name} must be 0 or more, got {value!r}")
