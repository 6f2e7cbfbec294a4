"""The spans of one task: that it was waited for, its execution, its report; all of one trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conductor.tracing import CurrentSpan

if TYPE_CHECKING:
    from contextvars import Token

    from opentelemetry.context import Context
    from opentelemetry.trace import Span

    from conductor.tracing import Tracer


def begin_trace(
    tracer: Tracer, about: tuple[str | None, ...], traceparent: object, waited_s: float
) -> TaskTrace | None:
    """A task has come after it was waited for: its first span, which says whether the task is sampled.

    None: it is not. Then there are no other spans, and nothing else is done for it. What is current from here on, in
    the task of the event loop that carries it, makes the function's own spans and the server's be left out with it.
    `about` is what every event about the task begins with.
    """
    parent = tracer.parent(traceparent) if traceparent is not None else None
    trace_id = tracer.draw(traceparent, parent)
    if not isinstance(trace_id, int):
        return None
    ids = {"conductor.task.id": about[1] or "", "conductor.workflow.id": about[3] or ""}
    polled = tracer.start(f"poll {about[0]}", parent, ids, kind="CONSUMER", ago_s=waited_s, trace_id=trace_id)
    if not polled.is_recording():
        tracer.attach(tracer.context_of(polled))
        return None
    polled.end()
    return TaskTrace(tracer, about, ids, polled, parent)


class TaskTrace:
    """The spans of a task that is sampled: beside its poll, or below it if nobody has begun a trace."""

    __slots__ = ("_about", "_first", "_ids", "_parent", "_span", "_token", "_tracer")

    def __init__(
        self, tracer: Tracer, about: tuple[str | None, ...], ids: dict[str, str], first: Span, parent: Context | None
    ) -> None:
        self._tracer = tracer
        self._about = about
        self._ids = ids
        self._first = first
        self._parent = parent

    def begin_execution(self) -> None:
        """The function is about to be called: its own spans are below this one. The same task must end it."""
        task_type, _, worker_id, _ = self._about
        about = {**self._ids, "conductor.task.type": task_type or "", "conductor.worker.id": worker_id or ""}
        self._span: Span = self._tracer.beside(
            self._first, f"execute {task_type}", self._parent, about, kind="CONSUMER"
        )
        self._token: Token[Context] = self._tracer.attach(self._tracer.context_of(self._span))

    def end_execution(self, error: BaseException | None) -> None:
        """The function has returned, or failed."""
        self._tracer.detach(self._token)
        if error is not None:
            self._tracer.failed(self._span, error)
        self._span.end()

    def report(self) -> CurrentSpan:
        """Around the report, until its verdict."""
        name = f"report {self._about[0]}"
        return CurrentSpan(
            self._tracer, self._tracer.beside(self._first, name, self._parent, self._ids, kind="PRODUCER")
        )
