"""The spans of one task, all in one trace: its wait in the queue, the poll that delivered it, execution and report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conductor.common.clock import SYSTEM_CLOCK
from conductor.telemetry.tracing import Tracer

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from contextvars import Token

    from opentelemetry.context import Context
    from opentelemetry.trace import Span

    from conductor.client.http.models.task import Task


def start_task_trace(
    tracer: Tracer,
    about: tuple[str | None, ...],
    traceparent: object,
    waited_s: float,
    queued_ms: tuple[int, int] | None = None,
) -> TaskTrace | None:
    """Record the spans `poll …` and `queue wait …` of a task that has just arrived.

    The sampler decides about the whole task with the span `poll …`: if it drops that span, no other is recorded. The
    dropped span stays current in the asyncio task that carries the task, so that a sampler that follows the parent also
    drops the spans of the function and of the coordinator.

    Args:
        tracer: Starts the spans.
        about: Task type, task id, worker id and workflow id.
        traceparent: The parent of the task's spans. Without a valid one the span `poll …` is the parent of the others.
        waited_s: How long the poll took, in seconds.
        queued_ms: When the task entered its queue and left it, by the clock of the server; None if that is unknown.

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
    context = tracer.add_to_context(poll) if parent is None else parent
    if queued_ms is not None:
        entered_ms, left_ms = queued_ms
        ago_s = (SYSTEM_CLOCK.wall_ms() - entered_ms) / 1000
        wait = tracer.start_span(f"queue wait {task_type}", context, ids, kind="INTERNAL", seconds_ago=ago_s)
        wait.end(left_ms * 1_000_000)
    return TaskTrace(tracer, about, ids, context)


def find_queue_times(task: Task) -> tuple[int, int] | None:
    """Return when a task entered and left its queue, in epoch milliseconds; None if the server does not report that.

    The times of the server are about the first delivery, so they are unknown for a task that was delivered again.
    """
    entered_ms = task.scheduled_time + task.start_delay_in_seconds * 1000
    if not task.scheduled_time or task.poll_count > 1 or task.start_time < entered_ms:
        return None
    return entered_ms, task.start_time


class TaskTrace:
    """Starts and ends the spans for the execution and the report of a sampled task."""

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
