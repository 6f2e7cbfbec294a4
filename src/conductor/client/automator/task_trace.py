"""The spans of one task: the poll that delivered it, its execution and its report, all in one trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from contextvars import Token

    from opentelemetry.context import Context
    from opentelemetry.trace import Span

    from conductor.telemetry.tracing import Tracer


def start_task_trace(
    tracer: Tracer, about: tuple[str | None, ...], traceparent: object, waited_s: float
) -> TaskTrace | None:
    """Record the span `poll …` of a task that has just arrived.

    The sampler decides about the whole task with this span: if it drops the span, the task has no other spans. The
    dropped span stays current in the asyncio task that carries the task, so that a sampler that follows the parent also
    drops the spans of the function and of the coordinator.

    Args:
        tracer: Starts the spans.
        about: Task type, task id, worker id and workflow id.
        traceparent: The parent of the task's spans. Without a valid one the span `poll …` is the parent of the others.
        waited_s: How long the poll took, in seconds.

    Returns:
        The trace of the task; None if the task is not sampled.
    """
    task_type, task_id, _, workflow_id = about
    parent = tracer.read_parent(traceparent)
    ids = {"conductor.task.id": task_id or "", "conductor.workflow.id": workflow_id or ""}
    poll = tracer.start_span(f"poll {task_type}", parent, ids, kind="CONSUMER", seconds_ago=waited_s)
    if not poll.is_recording():
        tracer.attach(poll)
        return None
    poll.end()
    return TaskTrace(tracer, about, ids, tracer.add_to_context(poll) if parent is None else parent)


class TaskTrace:
    """The execution and the report of a sampled task."""

    __slots__ = ("_about", "_execution", "_ids", "_parent", "_token", "_tracer")

    def __init__(self, tracer: Tracer, about: tuple[str | None, ...], ids: dict[str, str], parent: Context) -> None:
        self._tracer = tracer
        self._about = about
        self._ids = ids
        self._parent = parent

    def start_execution(self) -> None:
        """Start the span of the function and make it current. The same asyncio task must call `end_execution`."""
        task_type, _, worker_id, _ = self._about
        attributes = {**self._ids, "conductor.task.type": task_type or "", "conductor.worker.id": worker_id or ""}
        self._execution: Span = self._tracer.start_span(
            f"execute {task_type}", self._parent, attributes, kind="CONSUMER"
        )
        self._token: Token[Context] = self._tracer.attach(self._execution)

    def end_execution(self, error: BaseException | None) -> None:
        """End the span of the function, which has returned or raised this error."""
        self._tracer.detach(self._token)
        if error is not None:
            self._tracer.record_error(self._execution, error)
        self._execution.end()

    def start_report(self) -> AbstractContextManager[Span]:
        """Return a context manager for the span of the report. Leave the block when the verdict has arrived."""
        return self._tracer.start_current_span(f"report {self._about[0]}", self._parent, self._ids, kind="PRODUCER")
