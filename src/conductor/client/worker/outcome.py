"""The outcome of a task: converts return values and exceptions to the result that is reported."""

from __future__ import annotations

import copy
import time
import traceback
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from conductor.client.context.task_context import TaskContext, TaskInProgress
from conductor.client.http.models.task_exec_log import TaskExecLog
from conductor.client.http.models.task_result import TaskResult
from conductor.client.http.models.task_result_status import TaskResultStatus
from conductor.client.worker.exception import NonRetryableException
from conductor.client.worker.output import OutputError, encode_output, to_output
from conductor.client.worker.signature import InputError, list_missing_inputs
from conductor.common.text import escape_surrogates
from conductor.protocol.steps import Step
from conductor.protocol.wire import MAX_CALLBACK_S, MAX_REASON_CHARS

#: The directory of this package, whose frames are removed from tracebacks.
_OWN_CODE = str(Path(__file__).parents[2])


class TaskOutcome(NamedTuple):
    """The result of a task, its encoded output, and the exception that ended it."""

    result: TaskResult
    output: bytes
    cause: BaseException | None = None


def make_outcome(value: object, context: TaskContext) -> TaskOutcome:
    """Make the outcome of a function that returned."""
    try:
        if type(value) is dict and context.callback_after_seconds is None:  # the common case
            result = _new_result(context, TaskResultStatus.COMPLETED)
            result.output_data = value
        else:
            result = _make_result(value, context)
        if context.logs or context.output or context.callback_after_seconds is not None:
            _merge(result, context)
        return TaskOutcome(result, encode_output(result.output_data))
    except OutputError as error:
        return make_error_outcome(error, context)
    except Exception as error:  # the code of the returned object may raise anything
        return make_error_outcome(OutputError("output", f"cannot be read: {format_reason(error)}"), context)


def make_error_outcome(error: BaseException, context: TaskContext) -> TaskOutcome:
    """Make the outcome of a function that raised, or whose input or output could not be converted."""
    # A retry gets the same input, so a function that failed because of a missing input would fail again.
    terminal = isinstance(error, NonRetryableException | InputError | OutputError) or bool(list_missing_inputs(error))
    status = TaskResultStatus.FAILED_WITH_TERMINAL_ERROR if terminal else TaskResultStatus.FAILED
    result = _new_result(context, status)
    result.reason_for_incompletion = format_reason(error)
    result.logs = [_make_trace_log(error, context), *context.list_unsent_logs()]
    try:
        result.output_data = to_output(context.output)
        output = encode_output(result.output_data)
    except Exception:  # an error in the output must not hide the error of the function
        result.output_data, output = {}, b"{}"
    return TaskOutcome(result, output, error)


def make_timeout_outcome(reason: str, context: TaskContext) -> TaskOutcome:
    """Make the outcome of a function that was stopped at its timeout. A coordinator applies its timeout policy."""
    outcome = make_error_outcome(TimeoutError(reason), context)
    if context.task.lease_id is not None:
        outcome.result.timed_out = True
    return outcome


def make_requeue_outcome(
    context: TaskContext, *, reason: str, callback_after_seconds: int, never_started: bool = False
) -> TaskOutcome:
    """Make the outcome that requeues a task. With `never_started`, a coordinator does not count the poll."""
    result = _new_result(context, TaskResultStatus.IN_PROGRESS)
    result.reason_for_incompletion = reason
    result.callback_after_seconds = callback_after_seconds
    result.never_started = never_started or None
    result.logs = context.list_unsent_logs()
    return TaskOutcome(result, b"{}")


def make_suspended_outcome(context: TaskContext, steps: list[Step], callback_after_seconds: int) -> TaskOutcome:
    """Make the outcome of a task whose durable steps wait.

    Args:
        context: The context of the task.
        steps: The steps that are not recorded yet.
        callback_after_seconds: The seconds after which a Conductor server delivers the task again. A coordinator
            ignores this value, because it knows the waiting steps.
    """
    result = _new_result(context, TaskResultStatus.IN_PROGRESS)
    result.suspended = True if context.task.lease_id is not None else None
    result.callback_after_seconds = callback_after_seconds
    result.steps = steps or None
    result.logs = context.list_unsent_logs()
    try:
        result.output_data = to_output(context.output)
        output = encode_output(result.output_data)
    except Exception:  # the output so far is only displayed, so an error in it must not fail the task
        result.output_data, output = {}, b"{}"
    return TaskOutcome(result, output)


def format_reason(error: BaseException) -> str:
    """Return `reason_for_incompletion`: the message of an error, after its type if the task may be retried."""
    name = type(error).__name__
    try:
        message = escape_surrogates(str(error))
    except Exception:
        message = "(its message cannot be read)"
    if not message:
        return name
    if not isinstance(error, NonRetryableException | InputError | OutputError):
        message = f"{name}: {message}"
    return "; ".join([message, *list_missing_inputs(error)])[:MAX_REASON_CHARS]


def _make_result(value: object, context: TaskContext) -> TaskResult:
    if isinstance(value, TaskResult):
        value = copy.copy(value)  # the function may return the same object for many tasks
        value.task_id = value.task_id or context.task_id
        value.workflow_instance_id = value.workflow_instance_id or context.workflow_instance_id
        value.worker_id = value.worker_id or context.worker_id
        value.status = value.status or TaskResultStatus.COMPLETED
        value.timed_out = None  # only `make_timeout_outcome` may set this
        value.callback_after_seconds = int(value.callback_after_seconds or 0)
        value.logs = [_convert_log(line) for line in value.logs or []]
        value.output_data = to_output(value.output_data or {})
        _check(value, context)
        return value
    if isinstance(value, TaskInProgress):
        result = _new_result(context, TaskResultStatus.IN_PROGRESS)
        result.callback_after_seconds = value.callback_after_seconds
        result.output_data = to_output(value.output)
        return result
    is_unfinished = context.callback_after_seconds is not None
    result = _new_result(context, TaskResultStatus.IN_PROGRESS if is_unfinished else TaskResultStatus.COMPLETED)
    result.output_data = to_output(value)
    return result


def _convert_log(line: object) -> TaskExecLog:
    """Convert a log line, which may be a text, to `TaskExecLog`."""
    return line if isinstance(line, TaskExecLog) else TaskExecLog(log=escape_surrogates(str(line)))


def _check(result: TaskResult, context: TaskContext) -> None:
    """Reject values that the server would reject, so that the task fails with a clear reason."""
    if result.task_id != context.task_id:
        raise OutputError("TaskResult.task_id", f"is {result.task_id!r}, but the task is {context.task_id!r}")
    if result.status not in TaskResultStatus.__members__:
        allowed = ", ".join(TaskResultStatus.__members__)
        raise OutputError("TaskResult.status", f"is {str(result.status)!r}; there are {allowed}")
    seconds = result.callback_after_seconds
    if not 0 <= seconds <= MAX_CALLBACK_S:
        raise OutputError("TaskResult.callback_after_seconds", f"is {seconds}; it must be 0 to {MAX_CALLBACK_S}")


def _merge(result: TaskResult, context: TaskContext) -> None:
    """Add logs, callback and output of the context. The result's own output keys have precedence."""
    result.logs = [*(result.logs or []), *context.list_unsent_logs()]
    if context.callback_after_seconds is not None:
        result.callback_after_seconds = context.callback_after_seconds
    if context.output:
        result.output_data = {**to_output(context.output), **(result.output_data or {})}


#: New results are copies of this one. A copy skips the validation in the constructor.
_BLANK = TaskResult()


def _new_result(context: TaskContext, status: TaskResultStatus) -> TaskResult:
    task = context.task
    result: TaskResult = _BLANK.__copy__()  # type: ignore[attr-defined]
    result.task_id = task.task_id
    result.workflow_instance_id = task.workflow_instance_id
    result.worker_id = context.worker_id
    result.status = status
    result.output_data, result.logs = {}, []  # a copy shares these objects with `_BLANK`
    return result


def format_trace(error: BaseException) -> str:
    """Return the traceback from the first frame of the user's code."""
    try:
        return escape_surrogates("".join(traceback.format_exception(type(error), error, _find_user_trace(error))))
    except Exception:
        return format_reason(error)


def is_from_user_code(error: BaseException) -> bool:
    """Return whether the error was raised in the user's code or passed through it."""
    return _find_user_trace(error) is not None


def _find_user_trace(error: BaseException) -> TracebackType | None:
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_OWN_CODE):
        trace = trace.tb_next
    return trace


def _make_trace_log(error: BaseException, context: TaskContext) -> TaskExecLog:
    return TaskExecLog(log=format_trace(error), task_id=context.task_id, created_time=time.time_ns() // 1_000_000)
