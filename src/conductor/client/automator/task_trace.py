"""The spans of one task: that it was waited for, its execution, its report; all of one trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opentelemetry.trace import Span

    from conductor.tracing import CurrentSpan, Tracer


class TaskTrace:
    """Made only where somebody traces. `about` is what every event about the task begins with."""

    __slots__ = ("_attributes", "_context", "_name", "_tracer")

    def __init__(self, tracer: Tracer, about: tuple[str | None, ...], traceparent: object, waited_s: float) -> None:
        task_type, task_id, worker_id, workflow_id = about
        self._tracer = tracer
        self._name = task_type or ""
        named = {
            "conductor.task.type": task_type,
            "conductor.task.id": task_id,
            "conductor.workflow.id": workflow_id,
            "conductor.worker.id": worker_id,
        }
        self._attributes = {name: value for name, value in named.items() if value}
        parent = tracer.parent(traceparent)
        polled = tracer.past(f"poll {self._name}", parent, self._attributes, waited_s)
        #: Where the other spans belong: beside the poll, or below it if nobody has begun a trace.
        self._context = polled if parent is None else parent

    def execution(self) -> CurrentSpan:
        """Around the function: its own spans are below this one."""
        return self._tracer.span(f"execute {self._name}", self._context, self._attributes, kind="CONSUMER")

    def failed(self, span: Span, error: BaseException) -> None:
        """The function has failed."""
        self._tracer.failed(span, error)

    def report(self) -> CurrentSpan:
        """Around the report, until its verdict."""
        return self._tracer.span(f"report {self._name}", self._context, self._attributes, kind="PRODUCER")
