"""The errors of durable steps."""

from __future__ import annotations

from conductor.client.worker.exception import NonRetryableException


class DurableError(NonRetryableException):
    """A function uses durable steps in a way that cannot be replayed. The task is not retried."""


class ReplayMismatch(DurableError):
    """A recorded step does not match the program, which has changed since the step was recorded."""


class StepTooLarge(DurableError):
    """The result of a step, or the total size or number of the steps of a task, exceeds its limit."""


class StepFailed(Exception):
    """A step failed with an exception that cannot be recreated from its record, or that is not an `Exception`.

    The second case includes SystemExit and KeyboardInterrupt, which would end the worker.

    Attributes:
        step: The name of the step.
        type_name: The class of the exception, as `module:name`.
        message: The message of the exception.
    """

    def __init__(self, step: str, type_name: str, message: str) -> None:
        super().__init__(step, type_name, message)
        self.step = step
        self.type_name = type_name
        self.message = message

    def __str__(self) -> str:
        return f"step {self.step} failed: {self.type_name}: {self.message}"


class CallFailed(Exception):
    """A workflow that `call` has started did not complete.

    Attributes:
        workflow_name: The name of the workflow.
        workflow_id: Its id; None if it could not be started.
        reason: Why it failed. If it failed because of a sub-workflow, the reason of the sub-workflow.
    """

    def __init__(self, workflow_name: str, workflow_id: str | None, reason: str) -> None:
        super().__init__(workflow_name, workflow_id, reason)
        self.workflow_name = workflow_name
        self.workflow_id = workflow_id
        self.reason = reason

    def __str__(self) -> str:
        return self.reason


class Suspended(BaseException):
    """Ends a function that waits, so that the worker can return its task to the server. Do not catch it."""
