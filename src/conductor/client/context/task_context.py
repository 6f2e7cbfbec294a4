"""The context of a running task: its ids and input, its log, progress and cancellation.

    ctx = get_task_context()
    ctx.add_log("half way")
    ctx.progress(5, total=10)
    ctx.raise_if_cancelled()

The context is a ContextVar, so each thread and each coroutine has the context of its own task.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from conductor.client.http.models.task import Task
from conductor.client.http.models.task_exec_log import TaskExecLog
from conductor.common.text import escape_surrogates
from conductor.protocol.json_types import JsonObject
from conductor.protocol.wire import MAX_CALLBACK_S

if TYPE_CHECKING:
    import asyncio

_current: ContextVar[TaskContext | None] = ContextVar("conductor_task_context", default=None)
_waiting_lock = threading.Lock()


class TaskInProgress:
    """A return value that requeues the task: the server delivers it again after `callback_after_seconds`.

    Each delivery increases `poll_count` by one.

    Args:
        callback_after_seconds: The seconds until the next delivery.
        output: The output of the task so far.

    Example:
        @worker_task(task_definition_name="wait_for_payment")
        def wait_for_payment(order_id: str) -> dict | TaskInProgress:
            if not is_paid(order_id):
                return TaskInProgress(callback_after_seconds=30)
            return {"paid": True}
    """

    def __init__(self, callback_after_seconds: int = 60, output: Mapping[str, Any] | None = None) -> None:
        if not 0 <= callback_after_seconds <= MAX_CALLBACK_S:
            raise ValueError(f"callback_after_seconds must be 0 to {MAX_CALLBACK_S}, got {callback_after_seconds}")
        self.callback_after_seconds = callback_after_seconds
        self.output = dict(output or {})

    def __repr__(self) -> str:
        return f"TaskInProgress(callback_after_seconds={self.callback_after_seconds}, output={self.output!r})"


class TaskCancelled(Exception):
    """Raised by `ctx.raise_if_cancelled()` after the worker has lost the task. Do not catch it."""


class TaskContext:
    """The context of a running task. Any thread of the task may use it.

    Attributes:
        task: The task.
        worker_id: The id of the worker.
        task_log_level: Log records of this level and above become log lines of the task; None for no records.
        logs: The log lines of the task.
        output: The output that `set_output` has collected.
        callback_after_seconds: The argument of `set_callback_after`, or None.
        sent_logs: The number of log lines that the server already has.
        closed: Whether the function has ended.
        has_unsent_news: Whether there are log lines, output or progress that the worker has not sent.
        on_news: Called when `has_unsent_news` becomes True.
        open_steps: Returns the store for durable steps, the event loop of the workers, and a function that calls a
            `def` step on a thread; None if durable steps run as ordinary calls.
        durable: The durable steps of this attempt; created by the first step.
    """

    def __init__(self, task: Task, worker_id: str = "", task_log_level: str | None = None) -> None:
        self.task = task
        self.worker_id = worker_id
        self.task_log_level = task_log_level
        self.logs: list[TaskExecLog] = []
        self.output: JsonObject = {}
        self.callback_after_seconds: int | None = None
        self.sent_logs = 0
        self.closed = False
        self.has_unsent_news = False
        self.on_news: Callable[[], None] | None = None
        self.open_steps: Callable[[], tuple[Any, asyncio.AbstractEventLoop, Any]] | None = None
        self.durable: Any = None
        self._progress: tuple[float, float | None, str | None] | None = None
        self._cancel_reason: str | None = None
        self._waiting: threading.Event | None = None  # created by the first `wait_cancelled`

    @property
    def task_id(self) -> str:
        """The id of the task."""
        return self.task.task_id or ""

    @property
    def task_def_name(self) -> str:
        """The task type."""
        return self.task.task_def_name or self.task.task_type or ""

    @property
    def workflow_instance_id(self) -> str:
        """The id of the workflow that the task belongs to."""
        return self.task.workflow_instance_id or ""

    @property
    def poll_count(self) -> int:
        """The number of deliveries of this task: 1 at first, one more after each TaskInProgress."""
        return self.task.poll_count or 0

    @property
    def retry_count(self) -> int:
        """The number of failed attempts before this one."""
        return self.task.retry_count or 0

    @property
    def input(self) -> JsonObject:
        """The input of the task, not converted."""
        return self.task.input_data or {}

    @property
    def cancelled(self) -> bool:
        """Whether the worker has lost the task. Then the function should end without further side effects."""
        return self._cancel_reason is not None

    @property
    def cancel_reason(self) -> str | None:
        """Why the task was cancelled, or None."""
        return self._cancel_reason

    def raise_if_cancelled(self) -> None:
        """Raise `TaskCancelled` if the task was cancelled. Call this between the steps of a long `def` function."""
        if self._cancel_reason is not None:
            raise TaskCancelled(self._cancel_reason)

    def wait_cancelled(self, timeout_s: float | None = None) -> bool:
        """Sleep up to `timeout_s` seconds, or until the task is cancelled. For `def` workers.

        Returns:
            Whether the task is cancelled.
        """
        with _waiting_lock:
            waiting = self._waiting = self._waiting or threading.Event()
            if self._cancel_reason is not None:
                waiting.set()
        return waiting.wait(timeout_s)

    def cancel(self, reason: str) -> None:
        """Mark the task as cancelled; the first reason is kept. The worker's runtime calls this."""
        with _waiting_lock:
            if self._cancel_reason is None:
                self._cancel_reason = reason
            if self._waiting is not None:
                self._waiting.set()

    def add_log(self, log_message: str) -> None:
        """Add a line to the log of the task. The worker sends it within a second, or with the result."""
        entry = TaskExecLog(
            log=escape_surrogates(str(log_message)), task_id=self.task_id, created_time=time.time_ns() // 1_000_000
        )
        self.logs.append(entry)
        if not self.has_unsent_news:
            self._announce_news()

    def set_callback_after(self, seconds: int) -> None:
        """Requeue the task when the function returns, with a delay in seconds."""
        if not 0 <= seconds <= MAX_CALLBACK_S:
            raise ValueError(f"set_callback_after needs a number of seconds from 0 to {MAX_CALLBACK_S}, got {seconds}")
        self.callback_after_seconds = seconds

    def set_output(self, output_data: Mapping[str, Any]) -> None:
        """Add values to the output of the task. The function's return value has precedence.

        A coordinator shows them within a second, a Conductor server when the task ends.
        """
        self.output.update(output_data)
        if not self.has_unsent_news:
            self._announce_news()

    def progress(self, done: float, total: float | None = None, note: str | None = None) -> None:
        """Report the progress of the task. A coordinator shows it while the task runs.

        `ctx.progress(7, 10, "uploading")` sets the output so far to
        `{"progress": {"done": 7, "total": 10, "note": "uploading"}}`. The final output does not contain the progress.
        You can call this in a tight loop: a call takes less than a microsecond, and the latest progress is sent once
        per second.
        """
        self._progress = (done, total, note)
        if not self.has_unsent_news:
            self._announce_news()

    def make_progress_output(self) -> JsonObject:
        """Return the output for the latest progress, empty without one."""
        progress = self._progress
        return {} if progress is None else {"progress": dict(zip(("done", "total", "note"), progress, strict=True))}

    def list_unsent_logs(self) -> list[TaskExecLog]:
        """Return the log lines that the server does not have yet."""
        return self.logs[self.sent_logs :]

    def _announce_news(self) -> None:
        self.has_unsent_news = True
        if self.on_news is not None:
            self.on_news()

    def get_task_id(self) -> str:
        """Return the id of the task."""
        return self.task_id

    def get_workflow_instance_id(self) -> str:
        """Return the id of the workflow."""
        return self.workflow_instance_id

    def get_task_def_name(self) -> str:
        """Return the task type."""
        return self.task_def_name

    def get_workflow_task_type(self) -> str:
        """Return the type of the task in the workflow definition, such as SIMPLE, or an empty text if unknown."""
        workflow_task = self.task.workflow_task
        return (workflow_task.type or "") if workflow_task is not None else ""

    def get_poll_count(self) -> int:
        """Return the number of deliveries of this task; 1 at first."""
        return self.poll_count

    def get_retry_count(self) -> int:
        """Return the number of failed attempts before this one."""
        return self.retry_count

    def get_input(self) -> JsonObject:
        """Return the input of the task, not converted."""
        return self.input

    def get_callback_after_seconds(self) -> int:
        """Return the argument of `set_callback_after`; 0 if it was not called."""
        return self.callback_after_seconds or 0


def get_task_context() -> TaskContext:
    """Return the context of the running task.

    Raises:
        RuntimeError: The caller is not part of a task.
    """
    context = _current.get()
    if context is None:
        raise RuntimeError("get_task_context() was called outside of a task: there is no task here")
    return context


def current_context() -> TaskContext | None:
    """Return the context of the running task, or None outside a task."""
    return _current.get()


#: The context variable. The executor sets it directly for each task instead of using `task_context`.
CURRENT_CONTEXT = _current


class task_context:  # noqa: N801 (used like a function of contextlib, and faster)
    """Make a context the current one inside a `with` block."""

    def __init__(self, context: TaskContext) -> None:
        self._context = context

    def __enter__(self) -> TaskContext:
        self._token = _current.set(self._context)
        return self._context

    def __exit__(self, *_: object) -> None:
        _current.reset(self._token)
