"""Log records that know their task, and log records that become the task's own logs on the server.

    handler.addFilter(TaskLogFilter())          # then %(task_id)s, %(workflow_id)s, %(task_type)s, %(attempt)s work

A worker's own processes do this by themselves (`TaskLogs`); in a process of yours nothing is changed unless you ask.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from types import TracebackType

from conductor.client.context.task_context import TaskContext, current_context
from conductor.telemetry.log_format import NO_TASK, TaskLabel

#: A task's records beyond this many stay out of its logs on the server; the last line says so.
MAX_TASK_LOGS = 1000


class TaskLogFilter(logging.Filter):
    """Lets every record pass, and gives it `task_id`, `workflow_id`, `task_type` and `attempt` (1 is the first).

    Put it on handlers, not on loggers. What a record already says of itself (`extra={"task_id": …}`) stays.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Stamp the record."""
        for argument in record.args if isinstance(record.args, tuple) else ():
            if isinstance(argument, TaskLabel):  # a line of ours about a task that is not under way here
                vars(record).update(argument.fields)
        for name, value in _stamp(current_context()).items():
            record.__dict__.setdefault(name, value)
        return True


class TaskLogHandler(logging.Handler):
    """Adds the records of a task, from `level` up, to the task's logs on the server. Ours (`conductor.…`) are not."""

    def __init__(self, level: int | str = logging.INFO) -> None:
        super().__init__(level)
        self.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        """Hand the record to the task it was made in, if it was made in one."""
        context = current_context()
        if context is None or record.name.partition(".")[0] == "conductor" or not _wanted(record, context):
            return
        room = MAX_TASK_LOGS - len(context.logs)
        if room > 1:
            context.add_log(self.format(record))
        elif room == 1:
            context.add_log(f"more than {MAX_TASK_LOGS} lines: the rest is in the worker's own log only")


def _wanted(record: logging.LogRecord, context: TaskContext) -> bool:
    """Workers of one process may each have a level of their own."""
    level = context.task_log_level
    return level is not None and record.levelno >= logging.getLevelNamesMapping()[level]


class TaskLogs:
    """Both of the above for a whole process: `install()` it once logging is set up, `uninstall()` leaves no trace.

    Every handler that any logger has by then stamps its records. With `task_log_level`, records of that level and
    above that reach the root logger also become the logs of their task.
    """

    def __init__(self, task_log_level: int | str | None = None) -> None:
        self._filter = TaskLogFilter()
        self._handler = TaskLogHandler(task_log_level) if task_log_level is not None else None
        self._stamping: list[logging.Handler] = []

    def install(self) -> None:
        """Begin."""
        for handler in _all_handlers():
            handler.addFilter(self._filter)
            self._stamping.append(handler)
        if self._handler is not None:
            logging.getLogger().addHandler(self._handler)

    def uninstall(self) -> None:
        """End."""
        for handler in self._stamping:
            handler.removeFilter(self._filter)
        self._stamping.clear()
        if self._handler is not None:
            logging.getLogger().removeHandler(self._handler)

    def __enter__(self) -> TaskLogs:
        self.install()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.uninstall()


def _stamp(context: TaskContext | None) -> dict[str, str | int]:
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
