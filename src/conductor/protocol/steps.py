"""Durable steps as a worker and a coordinator exchange them.

A worker records steps with a heartbeat (`steps` of the report) or with the report that suspends the task. A polled task
carries the recorded steps of all its attempts.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

#: The largest result of a step, in bytes of JSON.
MAX_STEP_BYTES = 1024 * 1024
#: The largest total size of the steps of a task and of its earlier attempts, in bytes.
MAX_STEP_BYTES_PER_TASK = 10 * 1024 * 1024
#: The largest number of steps of a task.
MAX_STEPS_PER_TASK = 10_000
MAX_STEP_NAME_CHARS = 200
#: A failed step with this word before the name of another step, and with the same number, records a cancellation: the
#: program has cancelled the other step, which waited or was already recorded.
CANCELLED_PREFIX = "cancelled "
#: If the steps of a task have more bytes, the task is delivered without its steps. The worker then reads them with
#: `GET /tasks/{taskId}/steps`.
MAX_DELIVERED_STEP_BYTES = 256 * 1024
#: The approximate size of a page of `GET /tasks/{taskId}/steps`.
STEP_PAGE_BYTES = 2 * 1024 * 1024
#: The longest wait of a step: about 68 years, as for callbacks.
MAX_WAIT_MS = (2**31 - 1) * 1000

StepNumber = Annotated[int, Meta(ge=1, lt=2**31)]
#: Identifies a step of a task: its name and number.
StepKey = tuple[str, StepNumber]


class StepKind(StrEnum):
    """The kind of a durable step."""

    #: Calls a function.
    STEP = "STEP"
    #: Waits for a time.
    SLEEP = "SLEEP"
    #: Waits for a message with the name of the step.
    MESSAGE = "MESSAGE"
    #: Starts the workflow with the name of the step, and waits for its end.
    WORKFLOW = "WORKFLOW"


class StepState(StrEnum):
    """The state of a step."""

    DONE = "DONE"
    FAILED = "FAILED"
    WAITING = "WAITING"


def raw_bytes(raw: msgspec.Raw | msgspec.UnsetType) -> bytes:
    """Return encoded JSON; empty if there is none."""
    return b"" if isinstance(raw, msgspec.UnsetType) else bytes(raw)


class StepError(msgspec.Struct, rename="camel", omit_defaults=True):
    """The exception of a failed step."""

    #: The module and the qualified name of the class, as `module:name`.
    type: str
    message: str
    #: The arguments and the attributes of the exception, if they are JSON.
    args: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    attributes: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class Step(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """A recorded step."""

    name: Annotated[str, Meta(min_length=1, max_length=MAX_STEP_NAME_CHARS + len(CANCELLED_PREFIX))]
    #: The number of this step among the steps of the same name, from 1.
    number: StepNumber = 1
    kind: StepKind = StepKind.STEP
    state: StepState = StepState.DONE
    #: The function and a digest of the arguments.
    fingerprint: Annotated[str, Meta(max_length=500)] = ""
    #: The result of a DONE step or, for a new WORKFLOW step, the input of the workflow, as JSON.
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    error: StepError | None = None
    #: How long a new SLEEP or MESSAGE step waits, and how long a recorded one still waits. A MESSAGE step without
    #: `wait_ms` has no time limit.
    wait_ms: Annotated[int, Meta(ge=0, le=MAX_WAIT_MS)] | None = None
    #: The workflow that a new WORKFLOW step starts, if its name differs from the name of the step; and its version.
    workflow_name: str | None = None
    version: Annotated[int, Meta(ge=0, lt=2**31)] | None = None
    #: Times in epoch milliseconds. The coordinator sets `due_at`, and the id of a started workflow.
    started_at: Annotated[int, Meta(ge=0, lt=2**53)] | None = None
    ended_at: Annotated[int, Meta(ge=0, lt=2**53)] | None = None
    due_at: Annotated[int, Meta(ge=0, lt=2**53)] | None = None
    workflow_id: str | None = None

    @property
    def result_json(self) -> bytes:
        """The result as JSON; empty without one."""
        return raw_bytes(self.result)

    @property
    def size(self) -> int:
        """The bytes that count towards `MAX_STEP_BYTES_PER_TASK`.

        The input of a workflow to start does not count, because it is stored with that workflow.
        """
        error = 0 if self.error is None else len(msgspec.json.encode(self.error))
        result = 0 if self.state is StepState.WAITING else len(self.result_json)
        return len(self.name) + len(self.fingerprint) + result + error

    @property
    def key(self) -> str:
        """The name and number, such as `charge` and `charge#2`."""
        return self.name if self.number == 1 else f"{self.name}#{self.number}"


def find_exceeded_limit(steps: Sequence[Step], count: int, size: int) -> str | None:
    """Return the limit that new steps exceed, as an error message; None if they exceed no limit.

    Args:
        steps: The new steps.
        count: The number of steps that the task has already.
        size: The total size of these steps.
    """
    for step in steps:
        step_size = max(step.size, len(step.result_json))
        if step_size > MAX_STEP_BYTES:
            return f"step {step.key} has {step_size} bytes; the limit is {MAX_STEP_BYTES} per step"
    if count + len(steps) > MAX_STEPS_PER_TASK:
        return f"this task has more than {MAX_STEPS_PER_TASK} steps"
    total = size + sum(step.size for step in steps)
    if total > MAX_STEP_BYTES_PER_TASK:
        return f"the steps of this task have {total} bytes; the limit is {MAX_STEP_BYTES_PER_TASK} per task"
    return None


class StepPage(msgspec.Struct):
    """A page of the steps of a task."""

    steps: list[Step]
    #: The value of `after` for the next page; None after the last page.
    next: int | None = None
