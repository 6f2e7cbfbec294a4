"""Log records that carry the ids of their task, and log records that become task logs on the server.

Worker processes that this package starts install `TaskLogs`. In your own process, add the filter yourself:

    handler.addFilter(TaskLogFilter())          # then %(task_id)s, %(workflow_id)s, %(task_type)s, %(attempt)s work
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from types import TracebackType

from conductor.client.context.task_context import TaskContext, current_context
from conductor.telemetry.log_format import NO_TASK, TaskLabel

#: The largest number of log lines of a task on the server. The last line says that later ones are missing.
MAX_TASK_LOGS = 1000


class TaskLogFilter(logging.Filter):
    """Adds `task_id`, `workflow_id`, `task_type` and `attempt` (1 is the first) to every record.

    Add the filter to handlers, not to loggers. Attributes that a record already has (`extra={"task_id": …}`) stay.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the ids. Return True, so that no record is dropped."""
        for argument in record.args if isinstance(record.args, tuple) else ():
            if isinstance(argument, TaskLabel):  # this package logs about a task outside the context of the task
                vars(record).update(argument.fields)
        for name, value in _describe_task(current_context()).items():
            record.__dict__.setdefault(name, value)
        return True


class TaskLogHandler(logging.Handler):
    """Adds the records of a task to its logs on the server, except those of this package (`conductor.…`)."""

    def __init__(self, level: int | str = logging.INFO) -> None:
        super().__init__(level)
        self.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        """Add the record to the logs of the current task, if there is one."""
        context = current_context()
        if context is None or record.name.partition(".")[0] == "conductor" or not _has_level(record, context):
            return
        remaining = MAX_TASK_LOGS - len(context.logs)
        if remaining > 1:
            context.add_log(self.format(record))
        elif remaining == 1:
            context.add_log(f"more than {MAX_TASK_LOGS} lines: later ones are only in the log of the worker")


def _has_level(record: logging.LogRecord, context: TaskContext) -> bool:
    """Return whether the record has the level of the worker. Workers of one process may have different levels."""
    level = context.task_log_level
    return level is not None and record.levelno >= logging.getLevelNamesMapping()[level]


class TaskLogs:
    """Installs a `TaskLogFilter` on all log handlers of a process, and a `TaskLogHandler` on the root logger.

    Call `install()` after logging is configured: handlers that are added later get no filter.

    Args:
        task_log_level: The lowest level of records that become task logs; None for no task logs.
    """

    def __init__(self, task_log_level: int | str | None = None) -> None:
        self._filter = TaskLogFilter()
        self._handler = TaskLogHandler(task_log_level) if task_log_level is not None else None
        self._filtered: list[logging.Handler] = []

    def install(self) -> None:
        """Add the filter to all log handlers, and the handler of task logs to the root logger."""
        for handler in _all_handlers():
            handler.addFilter(self._filter)
            self._filtered.append(handler)
        if self._handler is not None:
            logging.getLogger().addHandler(self._handler)

    def uninstall(self) -> None:
        """Remove the `TaskLogFilter` and the `TaskLogHandler` that `install` has added."""
        for handler in self._filtered:
            handler.removeFilter(self._filter)
        self._filtered.clear()
        if self._handler is not None:
            logging.getLogger().removeHandler(self._handler)

    def __enter__(self) -> TaskLogs:
        self.install()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.uninstall()


def _describe_task(context: TaskContext | None) -> dict[str, str | int]:
    if context is None:
        return dict.fromkeys(("task_id", "workflow_id", "task_type", "attempt"), NO_TASK)
    return {
        "task_id": context.task_id,
        "workflow_id": context.workflow_instance_id,
        "task_type": context.task_def_name,
        "attempt": context.retry_count + 1,
    }


def _all_handlers() -> Iterator[logging.Handler]:
    root = logging.getLogger()
    seen: set[int] = set()
    for logger in (root, *root.manager.loggerDict.values()):
        for handler in getattr(logger, "handlers", ()):
            if id(handler) not in seen:
                seen.add(id(handler))
                yield handler
