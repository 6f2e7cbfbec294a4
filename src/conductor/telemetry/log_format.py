"""How a line of the log looks, for both halves: as text, or as JSON with fields that a collector can search.

What a record is about is found in this order: in what was passed as `extra=`, in the `TaskLabel` among its arguments,
in what a `TaskLogFilter` has stamped on it.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any

#: What `--log-format` takes.
FORMATS = ("text", "json")
TEXT_FORMAT = "%(asctime)s %(levelname)-8s %(name)s: %(message)s"
#: What a record made outside of a task says.
NO_TASK = "-"

#: What every record has, whatever it is about.
_OF_EVERY_RECORD = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}


class TaskLabel(str):
    """Which task a line is about, as it stands at the end of the line; and the parts of that."""

    __slots__ = ("fields",)
    fields: dict[str, str]

    @classmethod
    def of(cls, task_type: str, task_id: str | None, workflow_id: str | None = None) -> TaskLabel:
        """The label of a task."""
        workflow = f", workflow_id={workflow_id}" if workflow_id else ""
        label = cls(f"(task_type={task_type}, task_id={task_id}{workflow})")
        named = {"task_type": task_type, "task_id": task_id, "workflow_id": workflow_id}
        label.fields = {name: value for name, value in named.items() if value}
        return label


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    """What a record says beyond its message: of its task, of its trace, and what was passed as `extra=`."""
    found: dict[str, Any] = {}
    for argument in record.args if isinstance(record.args, tuple) else ():
        if isinstance(argument, TaskLabel):
            found.update(argument.fields)
    for name, value in vars(record).items():
        if name not in _OF_EVERY_RECORD and value != NO_TASK:
            found.setdefault(name, value)
    return {**trace_of_record(), **found}


def trace_of_record() -> dict[str, str]:
    """The ids of the span that is under way here, if somebody traces."""
    # Looked up, not imported: whoever has a span has imported it, and nobody else needs it.
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return {}
    context = trace.get_current_span().get_span_context()
    if not context.is_valid:
        return {}
    return {"trace_id": f"{context.trace_id:032x}", "span_id": f"{context.span_id:016x}"}


class TextLines(logging.Formatter):
    """Text; a line about a task ends with the task's ids, and one inside of a span with the trace's."""

    def __init__(self) -> None:
        super().__init__(TEXT_FORMAT)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        """The line without its traceback."""
        line, fields = super().formatMessage(record), fields_of(record)
        if "task_id" in fields and str(fields["task_id"]) not in line:
            line += " " + TaskLabel.of(fields.get("task_type", ""), fields["task_id"], fields.get("workflow_id"))
        return f"{line} (trace_id={fields['trace_id']})" if "trace_id" in fields else line


class JsonLines(logging.Formatter):
    """One JSON object a line: time, level, logger, message, then ids and whatever else is known, then a traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {
            "time": at.replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            "process": record.process,
        }
        for name, value in fields_of(record).items():
            line.setdefault(name, value)
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            line["stack"] = self.formatStack(record.stack_info)
        return json.dumps(line, default=str, ensure_ascii=False)


def set_up_logging(level: int, log_format: str = "text", text_format: str | None = None) -> None:
    """Give a process without any logging this level and format; a root logger that has a handler is left as it is."""
    handler = logging.StreamHandler()
    if log_format == "json":
        handler.setFormatter(JsonLines())
    else:
        handler.setFormatter(TextLines() if text_format is None else logging.Formatter(text_format))
    logging.basicConfig(handlers=[handler], level=level)
