"""Log lines as text or as JSON, for workers and the coordinator.

Both formats contain the ids of the task that a record is about. The ids come from the `TaskLabel` among the arguments
of the record, from `extra=`, or from a `TaskLogFilter`.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any

#: The values of `--log-format`.
FORMATS = ("text", "json")
TEXT_FORMAT = "%(asctime)s %(levelname)-8s %(name)s: %(message)s"
#: The task id of a record that was logged outside a task.
NO_TASK = "-"

#: The attributes that every record has.
_STANDARD_ATTRIBUTES = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}


class TaskLabel(str):
    """The ids of a task as text for the end of a log line. `fields` contains them for JSON."""

    __slots__ = ("fields",)
    fields: dict[str, str]

    @classmethod
    def of(cls, task_type: str, task_id: str | None, workflow_id: str | None = None) -> TaskLabel:
        """Make the label of a task."""
        workflow = f", workflow_id={workflow_id}" if workflow_id else ""
        label = cls(f"(task_type={task_type}, task_id={task_id}{workflow})")
        ids = {"task_type": task_type, "task_id": task_id, "workflow_id": workflow_id}
        label.fields = {name: value for name, value in ids.items() if value}
        return label


def collect_fields(record: logging.LogRecord) -> dict[str, Any]:
    """Return the ids of the task and the trace of a record, and the fields that were passed as `extra=`."""
    found: dict[str, Any] = {}
    for argument in record.args if isinstance(record.args, tuple) else ():
        if isinstance(argument, TaskLabel):
            found.update(argument.fields)
    for name, value in vars(record).items():
        if name not in _STANDARD_ATTRIBUTES and value != NO_TASK:
            found.setdefault(name, value)
    return {**current_trace_ids(), **found}


def current_trace_ids() -> dict[str, str]:
    """Return the ids of the current span; an empty dict without one."""
    # Do not import OpenTelemetry here, because programs without spans do not need it. A program with a span has
    # imported it.
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return {}
    context = trace.get_current_span().get_span_context()
    if not context.is_valid:
        return {}
    return {"trace_id": f"{context.trace_id:032x}", "span_id": f"{context.span_id:016x}"}


class TextFormatter(logging.Formatter):
    """Formats records as text. A line about a task ends with its ids, a line inside a span with the trace id."""

    def __init__(self) -> None:
        super().__init__(TEXT_FORMAT)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        """Return the line without its traceback."""
        line, fields = super().formatMessage(record), collect_fields(record)
        if "task_id" in fields and str(fields["task_id"]) not in line:
            line += " " + TaskLabel.of(fields.get("task_type", ""), fields["task_id"], fields.get("workflow_id"))
        return f"{line} (trace_id={fields['trace_id']})" if "trace_id" in fields else line


class JsonFormatter(logging.Formatter):
    """Formats records as one JSON object per line: time, level, logger, message, ids, `extra=`, traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line of JSON."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {
            "time": at.replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            "process": record.process,
        }
        for name, value in collect_fields(record).items():
            line.setdefault(name, value)
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            line["stack"] = self.formatStack(record.stack_info)
        return json.dumps(line, default=str, ensure_ascii=False)


def set_up_logging(level: int, log_format: str = "text", text_format: str | None = None) -> None:
    """Configure the root logger, unless it already has a handler.

    Args:
        level: The level of the root logger.
        log_format: `text` or `json`.
        text_format: A format string of `logging` that replaces the text format.
    """
    handler = logging.StreamHandler()
    if log_format == "json":
        handler.setFormatter(JsonFormatter())
    else:
        handler.setFormatter(TextFormatter() if text_format is None else logging.Formatter(text_format))
    logging.basicConfig(handlers=[handler], level=level)
