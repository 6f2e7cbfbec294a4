"""How a task ended: every return value and every exception becomes one TaskResult, in this file and nowhere else."""

from __future__ import annotations

import copy
import inspect
import time
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conductor.client.context.task_context import TaskContext, TaskInProgress, task_context
from conductor.client.http.models.task import Task
from conductor.client.http.models.task_exec_log import TaskExecLog
from conductor.client.http.models.task_result import TaskResult
from conductor.client.http.models.task_result_status import TaskResultStatus
from conductor.client.worker.background_event_loop import BackgroundEventLoop
from conductor.client.worker.exception import NonRetryableException
from conductor.client.worker.output import OutputError, encode_output, to_output
from conductor.client.worker.signature import InputError, read_signature
from conductor.client.worker.worker_interface import WorkerInterface
from conductor.wire import MAX_CALLBACK_S, MAX_REASON_CHARS, printable

#: Frames of our own are left out of the tracebacks that people read.
_OWN_CODE = str(Path(__file__).parents[2])


@dataclass(frozen=True, slots=True)
class Ending:
    """A task's result, its output as it travels, and the exception that ended it, if one did."""

    result: TaskResult
    output: bytes
    cause: BaseException | None = None


def call_of(worker: WorkerInterface, *, strict: bool = False) -> Callable[[Task], Any]:
    """What to call with a task: the worker's function with its parameters filled in, or its own `execute`."""
    function: Callable[..., Any] | None = getattr(worker, "execute_function", None)
    if function is None:
        from conductor.client.worker.worker import Worker

        if type(worker).execute is Worker.execute:
            name = worker.get_task_definition_name()
            raise ValueError(
                f"worker '{name}' has nothing to run: give it a function, Worker('{name}', function), "
                "or write execute(task) in a subclass"
            )
        return worker.execute
    signature = read_signature(function)

    def call(task: Task) -> Any:
        args, kwargs = signature.bind(task, strict=strict)
        return function(*args, **kwargs)

    return call


def ending_of_value(value: object, context: TaskContext) -> Ending:
    """The function returned."""
    try:
        result = _result_of(value, context)
        _merge(result, context)
        return Ending(result, encode_output(result.output_data))
    except OutputError as error:
        return ending_of_error(error, context)
    except Exception as error:  # objects of the user's classes are asked for their fields: anything may come out
        return ending_of_error(OutputError("output", f"cannot be read: {reason_of(error)}"), context)


def ending_of_error(error: BaseException, context: TaskContext) -> Ending:
    """The function raised, or its input or output could not be converted."""
    terminal = isinstance(error, NonRetryableException | InputError | OutputError)
    status = TaskResultStatus.FAILED_WITH_TERMINAL_ERROR if terminal else TaskResultStatus.FAILED
    result = _new_result(context, status)
    result.reason_for_incompletion = reason_of(error)
    result.logs = [_trace_log(error, context), *context.logs]
    try:
        result.output_data = to_output(context.output)
        output = encode_output(result.output_data)
    except Exception:  # what failed already must not fail to be told
        result.output_data, output = {}, b"{}"
    return Ending(result, output, error)


def handed_back(context: TaskContext, *, reason: str, callback_after_seconds: int) -> Ending:
    """The worker gives the task back unfinished; the server delivers it again."""
    result = _new_result(context, TaskResultStatus.IN_PROGRESS)
    result.reason_for_incompletion = reason
    result.callback_after_seconds = callback_after_seconds
    result.logs = list(context.logs)
    return Ending(result, b"{}")


def reason_of(error: BaseException) -> str:
    """One line for people: the message of a NonRetryableException, `TypeName: message` of any other."""
    name = type(error).__name__
    try:
        message = printable(str(error))
    except Exception:
        message = "(its message cannot be read)"
    if not message:
        return name
    if not isinstance(error, NonRetryableException | InputError | OutputError):
        message = f"{name}: {message}"
    return message[:MAX_REASON_CHARS]


def execute_directly(worker: WorkerInterface, task: Task) -> TaskResult:
    """Run one task in the caller's thread, outside of any runner."""
    context = TaskContext(task, worker.get_identity())
    with task_context(context):
        try:
            strict = bool(getattr(worker, "strict_schema", False))
            value = call_of(worker, strict=strict)(task)
            if inspect.isawaitable(value):
                value = BackgroundEventLoop().run_coroutine(_wait_for(value))
        except Exception as error:
            return ending_of_error(error, context).result
        return ending_of_value(value, context).result


async def _wait_for(value: Awaitable[Any]) -> Any:
    return await value


def _result_of(value: object, context: TaskContext) -> TaskResult:
    if isinstance(value, TaskResult):
        value = copy.copy(value)  # it may be a constant that is returned for many tasks
        value.task_id = value.task_id or context.task_id
        value.workflow_instance_id = value.workflow_instance_id or context.workflow_instance_id
        value.worker_id = value.worker_id or context.worker_id
        value.status = value.status or TaskResultStatus.COMPLETED
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
    return line if isinstance(line, TaskExecLog) else TaskExecLog(log=printable(str(line)))


def _check(result: TaskResult, context: TaskContext) -> None:
    """What the server would have to refuse, and nobody would hear of, is a failure of the task instead."""
    if result.task_id != context.task_id:
        raise OutputError("TaskResult.task_id", f"is {result.task_id!r}, but the task is {context.task_id!r}")
    if result.status not in TaskResultStatus.__members__:
        allowed = ", ".join(TaskResultStatus.__members__)
        raise OutputError("TaskResult.status", f"is {str(result.status)!r}; there are {allowed}")
    seconds = result.callback_after_seconds or 0
    if not 0 <= seconds <= MAX_CALLBACK_S:
        raise OutputError("TaskResult.callback_after_seconds", f"is {seconds}; it must be 0 to {MAX_CALLBACK_S}")


def _merge(result: TaskResult, context: TaskContext) -> None:
    """What the function said through its context: logs are added, its callback wins, its output gives way."""
    result.logs = [*(result.logs or []), *context.logs]
    if context.callback_after_seconds is not None:
        result.callback_after_seconds = context.callback_after_seconds
    if context.output:
        result.output_data = {**to_output(context.output), **(result.output_data or {})}


def _new_result(context: TaskContext, status: TaskResultStatus) -> TaskResult:
    return TaskResult(
        task_id=context.task_id,
        workflow_instance_id=context.workflow_instance_id,
        worker_id=context.worker_id,
        status=status,
    )


def _trace_log(error: BaseException, context: TaskContext) -> TaskExecLog:
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_OWN_CODE):
        trace = trace.tb_next
    try:
        text = printable("".join(traceback.format_exception(type(error), error, trace)))
    except Exception:
        text = reason_of(error)
    return TaskExecLog(log=text, task_id=context.task_id, created_time=time.time_ns() // 1_000_000)
