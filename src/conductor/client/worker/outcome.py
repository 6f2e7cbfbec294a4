"""How a task ended: every return value and every exception becomes one TaskResult, in this file and nowhere else."""

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
from conductor.client.worker.signature import InputError, missing_inputs_of
from conductor.common.text import escape_surrogates
from conductor.protocol.wire import MAX_CALLBACK_S, MAX_REASON_CHARS

#: Frames of our own are left out of the tracebacks that people read.
_OWN_CODE = str(Path(__file__).parents[2])


class TaskOutcome(NamedTuple):
    """How a task ended: its result, its output as it travels, and the exception that ended it, if one did."""

    result: TaskResult
    output: bytes
    cause: BaseException | None = None


def make_outcome(value: object, context: TaskContext) -> TaskOutcome:
    """The function returned."""
    try:
        if type(value) is dict and context.callback_after_seconds is None:  # as almost always
            result = _new_result(context, TaskResultStatus.COMPLETED)
            result.output_data = value
        else:
            result = _result_of(value, context)
        if context.logs or context.output or context.callback_after_seconds is not None:
            _merge(result, context)
        return TaskOutcome(result, encode_output(result.output_data))
    except OutputError as error:
        return make_error_outcome(error, context)
    except Exception as error:  # objects of the user's classes are asked for their fields: anything may come out
        return make_error_outcome(OutputError("output", f"cannot be read: {format_reason(error)}"), context)


def make_error_outcome(error: BaseException, context: TaskContext) -> TaskOutcome:
    """The function raised, or its input or output could not be converted."""
    terminal = isinstance(error, NonRetryableException | InputError | OutputError)
    status = TaskResultStatus.FAILED_WITH_TERMINAL_ERROR if terminal else TaskResultStatus.FAILED
    result = _new_result(context, status)
    result.reason_for_incompletion = format_reason(error)
    result.logs = [_trace_log(error, context), *context.logs_to_tell()]
    try:
        result.output_data = to_output(context.output)
        output = encode_output(result.output_data)
    except Exception:  # what failed already must not fail to be told
        result.output_data, output = {}, b"{}"
    return TaskOutcome(result, output, error)


def make_timeout_outcome(reason: str, context: TaskContext) -> TaskOutcome:
    """The worker stopped the function because the task's time was over; a coordinator judges that by its own rules."""
    outcome = make_error_outcome(TimeoutError(reason), context)
    if context.task.lease_id is not None:
        outcome.result.timed_out = True
    return outcome


def make_requeue_outcome(
    context: TaskContext, *, reason: str, callback_after_seconds: int, never_started: bool = False
) -> TaskOutcome:
    """Return the task unfinished; the server delivers it again. A task that never started keeps its poll count."""
    result = _new_result(context, TaskResultStatus.IN_PROGRESS)
    result.reason_for_incompletion = reason
    result.callback_after_seconds = callback_after_seconds
    result.never_started = never_started or None
    result.logs = context.logs_to_tell()
    return TaskOutcome(result, b"{}")


def format_reason(error: BaseException) -> str:
    """One line for people: the message of a NonRetryableException, `TypeName: message` of any other."""
    name = type(error).__name__
    try:
        message = escape_surrogates(str(error))
    except Exception:
        message = "(its message cannot be read)"
    if not message:
        return name
    if not isinstance(error, NonRetryableException | InputError | OutputError):
        message = f"{name}: {message}"
    return "; ".join([message, *missing_inputs_of(error)])[:MAX_REASON_CHARS]


def _result_of(value: object, context: TaskContext) -> TaskResult:
    if isinstance(value, TaskResult):
        value = copy.copy(value)  # it may be a constant that is returned for many tasks
        value.task_id = value.task_id or context.task_id
        value.workflow_instance_id = value.workflow_instance_id or context.workflow_instance_id
        value.worker_id = value.worker_id or context.worker_id
        value.status = value.status or TaskResultStatus.COMPLETED
        value.timed_out = None  # that is the worker's to say, not the function's
        value.callback_after_seconds = int(value.callback_after_seconds or 0)
        value.logs = [_log_line(line) for line in value.logs or []]
        value.output_data = to_output(value.output_data or {})
        _check(value, context)
        return value
    if isinstance(value, TaskInProgress):
        result = _new_result(context, TaskResultStatus.IN_PROGRESS)
        result.callback_after_seconds = value.callback_after_seconds
        result.output_data = to_output(value.output)
        return result
    again = context.callback_after_seconds is not None
    result = _new_result(context, TaskResultStatus.IN_PROGRESS if again else TaskResultStatus.COMPLETED)
    result.output_data = to_output(value)
    return result


def _log_line(line: object) -> TaskExecLog:
    """People put plain texts into a result's logs, too."""
    return line if isinstance(line, TaskExecLog) else TaskExecLog(log=escape_surrogates(str(line)))


def _check(result: TaskResult, context: TaskContext) -> None:
    """What the server would have to refuse, and nobody would hear of, is a failure of the task instead."""
    if result.task_id != context.task_id:
        raise OutputError("TaskResult.task_id", f"is {result.task_id!r}, but the task is {context.task_id!r}")
    if result.status not in TaskResultStatus.__members__:
        allowed = ", ".join(TaskResultStatus.__members__)
        raise OutputError("TaskResult.status", f"is {str(result.status)!r}; there are {allowed}")
    seconds = result.callback_after_seconds
    if not 0 <= seconds <= MAX_CALLBACK_S:
        raise OutputError("TaskResult.callback_after_seconds", f"is {seconds}; it must be 0 to {MAX_CALLBACK_S}")


def _merge(result: TaskResult, context: TaskContext) -> None:
    """What the function said through its context: logs are added, its callback wins, its output gives way."""
    result.logs = [*(result.logs or []), *context.logs_to_tell()]
    if context.callback_after_seconds is not None:
        result.callback_after_seconds = context.callback_after_seconds
    if context.output:
        result.output_data = {**to_output(context.output), **(result.output_data or {})}


#: Results are copies of it: what one is asked for when it is made is there to check those that users make.
_BLANK = TaskResult()


def _new_result(context: TaskContext, status: TaskResultStatus) -> TaskResult:
    task = context.task
    result: TaskResult = _BLANK.__copy__()  # type: ignore[attr-defined]
    result.task_id = task.task_id
    result.workflow_instance_id = task.workflow_instance_id
    result.worker_id = context.worker_id
    result.status = status
    result.output_data, result.logs = {}, []  # the copy has the very same
    return result


def format_trace(error: BaseException) -> str:
    """The traceback as people read it, from the first line of the user's own code on."""
    try:
        return escape_surrogates("".join(traceback.format_exception(type(error), error, _users_trace(error))))
    except Exception:
        return format_reason(error)


def is_from_user_code(error: BaseException) -> bool:
    """Whether the error was raised in, or passed through, the user's own code."""
    return _users_trace(error) is not None


def _users_trace(error: BaseException) -> TracebackType | None:
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_OWN_CODE):
        trace = trace.tb_next
    return trace


def _trace_log(error: BaseException, context: TaskContext) -> TaskExecLog:
    return TaskExecLog(log=format_trace(error), task_id=context.task_id, created_time=time.time_ns() // 1_000_000)
