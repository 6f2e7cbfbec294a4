"""What a running task knows of itself, and what it may say besides its return value.

    ctx = get_task_context()
    ctx.add_log("half way")
    ctx.progress(5, total=10)
    ctx.raise_if_cancelled()

The context lives in a ContextVar: it is right in threads and coroutines alike, and is gone when the task ends.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any

from conductor.client.http.models.task import Task
from conductor.client.http.models.task_exec_log import TaskExecLog
from conductor.common.text import escape_surrogates
from conductor.protocol.wire import MAX_CALLBACK_S

_current: ContextVar[TaskContext | None] = ContextVar("conductor_task_context", default=None)
_waiting_lock = threading.Lock()


class TaskInProgress:
    """Return it to hand the task back: the server delivers it again after `callback_after_seconds`.

    `output` is stored as the task's output so far; the poll count grows by one with each round.
    """

    def __init__(self, callback_after_seconds: int = 60, output: Mapping[str, Any] | None = None) -> None:
        if not 0 <= callback_after_seconds <= MAX_CALLBACK_S:
            raise ValueError(f"callback_after_seconds must be 0 to {MAX_CALLBACK_S}, got {callback_after_seconds}")
        self.callback_after_seconds = callback_after_seconds
        self.output = dict(output or {})

    def __repr__(self) -> str:
        return f"TaskInProgress(callback_after_seconds={self.callback_after_seconds}, output={self.output!r})"


class TaskCancelled(Exception):
    """Raised by `ctx.raise_if_cancelled()` when the worker may no longer speak for the task; let it pass."""


class TaskContext:
    """The task being executed: its identity, its logs, its cancellation. Safe to use from any thread of the task."""

    def __init__(self, task: Task, worker_id: str = "", task_log_level: str | None = None) -> None:
        self.task = task
        self.worker_id = worker_id
        #: Log records of this level and above become logs of the task; None: none do.
        self.task_log_level = task_log_level
        self.logs: list[TaskExecLog] = []
        self.output: dict[str, Any] = {}
        self.callback_after_seconds: int | None = None
        #: How many of the logs the server has already; the report does not repeat them.
        self.logs_told = 0
        #: Whether the function has ended: from here on the report has the word.
        self.closed = False
        #: Whether something was said that nobody has looked at yet, and who is to be told of that.
        self.has_news = False
        self.on_news: Callable[[], None] | None = None
        self._progress: tuple[float, float | None, str | None] | None = None
        self._cancel_reason: str | None = None
        self._waiting: threading.Event | None = None  # made by the first who waits: most tasks never do

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
        """How often this task has been delivered: 1 at its first run, more after each TaskInProgress."""
        return self.task.poll_count or 0

    @property
    def retry_count(self) -> int:
        """How many attempts failed before this one."""
        return self.task.retry_count or 0

    @property
    def input(self) -> dict[str, Any]:
        """The task's input as it came."""
        return self.task.input_data or {}

    @property
    def cancelled(self) -> bool:
        """True once the worker may no longer speak for the task: stop, and cause no further effects."""
        return self._cancel_reason is not None

    @property
    def cancel_reason(self) -> str | None:
        """Why the task was cancelled; None while it was not."""
        return self._cancel_reason

    def raise_if_cancelled(self) -> None:
        """Raise TaskCancelled if the task was cancelled. Call it between the steps of a long `def`."""
        if self._cancel_reason is not None:
            raise TaskCancelled(self._cancel_reason)

    def wait_cancelled(self, timeout_s: float | None = None) -> bool:
        """Sleep up to `timeout_s` seconds but wake at once when cancelled; True if it was. For `def` workers."""
        with _waiting_lock:
            waiting = self._waiting = self._waiting or threading.Event()
            if self._cancel_reason is not None:
                waiting.set()
        return waiting.wait(timeout_s)

    def cancel(self, reason: str) -> None:
        """Mark the task as cancelled; the first reason stays. The runtime calls this."""
        with _waiting_lock:
            if self._cancel_reason is None:
                self._cancel_reason = reason
            if self._waiting is not None:
                self._waiting.set()

    def add_log(self, log_message: str) -> None:
        """Add a line to the task's log on the server. It is there within a second, or at the end of a shorter task."""
        entry = TaskExecLog(
            log=escape_surrogates(str(log_message)), task_id=self.task_id, created_time=time.time_ns() // 1_000_000
        )
        self.logs.append(entry)
        if not self.has_news:
            self._tell()

    def set_callback_after(self, seconds: int) -> None:
        """Hand the task back when the function returns: it is delivered again after this many seconds."""
        if not 0 <= seconds <= MAX_CALLBACK_S:
            raise ValueError(f"set_callback_after needs a number of seconds from 0 to {MAX_CALLBACK_S}, got {seconds}")
        self.callback_after_seconds = seconds

    def set_output(self, output_data: Mapping[str, Any]) -> None:
        """Add to the task's output; keys of the function's own return value win.

        A coordinator shows it within a second, while the task runs; a plain server at the task's end.
        """
        self.output.update(output_data)
        if not self.has_news:
            self._tell()

    def progress(self, done: float, total: float | None = None, note: str | None = None) -> None:
        """Say how far the task is: `{"progress": {"done": 7, "total": 10, "note": "uploading"}}` is its output so far.

        Call it as often as you like: a call costs less than a microsecond, and the latest is sent once a second.
        A coordinator shows it while the task runs; it is not part of the final output.
        """
        self._progress = (done, total, note)
        if not self.has_news:
            self._tell()

    def progress_output(self) -> dict[str, Any]:
        """What the latest progress adds to the output so far."""
        progress = self._progress
        return {} if progress is None else {"progress": dict(zip(("done", "total", "note"), progress, strict=True))}

    def logs_to_tell(self) -> list[TaskExecLog]:
        """The log lines that the server does not have yet."""
        return self.logs[self.logs_told :]

    def _tell(self) -> None:
        self.has_news = True
        if self.on_news is not None:
            self.on_news()

    def get_task_id(self) -> str:
        """The id of the task."""
        return self.task_id

    def get_workflow_instance_id(self) -> str:
        """The id of the workflow."""
        return self.workflow_instance_id

    def get_task_def_name(self) -> str:
        """The task type."""
        return self.task_def_name

    def get_workflow_task_type(self) -> str:
        """The type of the step in the workflow, as in SIMPLE; empty when the server does not say."""
        step = self.task.workflow_task
        return (step.type or "") if step is not None else ""

    def get_poll_count(self) -> int:
        """How often the task has been delivered; 1 at its first run."""
        return self.poll_count

    def get_retry_count(self) -> int:
        """How many attempts failed before this one."""
        return self.retry_count

    def get_input(self) -> dict[str, Any]:
        """The task's input as it came."""
        return self.input

    def get_callback_after_seconds(self) -> int:
        """What `set_callback_after` was told; 0 if it was not called."""
        return self.callback_after_seconds or 0


def get_task_context() -> TaskContext:
    """The context of the task being executed. Outside of a task there is none: RuntimeError."""
    context = _current.get()
    if context is None:
        raise RuntimeError("get_task_context() was called outside of a task: there is no task here")
    return context


def current_context() -> TaskContext | None:
    """Like `get_task_context`, but None outside of a task."""
    return _current.get()


#: For whoever sets and resets it for each task, where even a context manager would cost.
CURRENT_CONTEXT = _current


class task_context:  # noqa: N801 (used like the functions of contextlib, at a fifth of their cost)
    """Make the context current inside the block, and nothing after it."""

    def __init__(self, context: TaskContext) -> None:
        self._context = context

    def __enter__(self) -> TaskContext:
        self._token = _current.set(self._context)
        return self._context

    def __exit__(self, *_: object) -> None:
        _current.reset(self._token)
