"""Decides about each task in an answer: execute it, report it without executing it, or ignore it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from conductor.client.http.models.task import Task
from conductor.client.worker.exception import NonRetryableException
from conductor.client.worker.outcome import TaskOutcome, make_error_outcome, make_requeue_outcome
from conductor.common.text import escape
from conductor.protocol.wire import DEFAULT_RESPONSE_TIMEOUT_S, MAX_POLL_COUNT

if TYPE_CHECKING:
    from conductor.client.context.task_context import TaskContext
    from conductor.client.http.api.async_task_resource_api import PollAnswer

#: The most tasks of one answer that are reported without being executed. A correct server sends fewer.
MAX_ANSWERED = MAX_POLL_COUNT
#: The most rejected tasks that one log line names.
MAX_NAMED = 3
MAX_ID_CHARS = 1000
#: The journal stores numbers as signed 64-bit integers.
MAX_NUMBER = 2**63 - 1
#: Timeouts are limited to ten years, which clocks, timers and the journal can represent.
MAX_TIMEOUT_S = 10 * 365 * 24 * 3600

_get_numbers = attrgetter(
    *(
        field.name
        for field in msgspec.structs.fields(Task)
        if field.default_factory is int and field.name != "response_timeout_seconds"
    )
)


class Grant(NamedTuple):
    """A task that the server has granted.

    The lease counts from the moment the request was sent, which is never later than the start of the lease on the
    server.
    """

    task: Task
    sent_at: float
    #: Makes the outcome of a task that the worker reports without executing it; None if the worker executes the task.
    make_outcome: Callable[[TaskContext], TaskOutcome] | None = None

    @property
    def response_timeout_s(self) -> float:
        """The duration of the lease in seconds. If the task's response timeout is not positive, the default applies."""
        given_s = self.task.response_timeout_seconds
        return float(min(given_s, MAX_TIMEOUT_S) if given_s > 0 else DEFAULT_RESPONSE_TIMEOUT_S)


def read_grants(polled: PollAnswer, task_type: str, count: int, sent_at: float) -> tuple[list[Grant], str]:
    """Decide about the tasks in the answer to a poll for `count` tasks.

    Returns:
        The grants, and a text that names rejected tasks; empty if none was rejected.
    """
    rejected: list[str] = []
    good: dict[str, Grant] = {}
    bad: dict[str, Grant] = {}
    for task in polled.tasks:
        problem = _find_foreign(task, task_type) or ("the answer contains it twice" if task.task_id in good else None)
        if problem is not None:
            rejected.append(_describe(task, problem))
        elif (problem := _find_unreadable(task)) is not None:
            bad[task.task_id] = Grant(_copy_ids(task), sent_at, partial(_fail, problem))
            rejected.append(_describe(task, problem))
        elif len(good) < count:
            good[task.task_id] = Grant(task, sent_at)
        elif task.task_id not in bad:
            bad[task.task_id] = Grant(task, sent_at, _requeue)
            rejected.append(_describe(task, f"only {count} tasks were requested"))
    for task, problem in polled.unreadable:
        rejected.append(_describe(task, problem))
        if _is_id(task.task_id) and _is_id(task.workflow_instance_id) and task.task_id not in good:
            bad[task.task_id] = Grant(task, sent_at, partial(_fail, problem))
    return [*good.values(), *list(bad.values())[:MAX_ANSWERED]], _join(rejected) if rejected else ""


def _find_foreign(task: Task, task_type: str) -> str | None:
    """Return why the task is not for this worker, or None."""
    if not _is_id(task.task_id) or not _is_id(task.workflow_instance_id):
        return "it has no valid taskId or no valid workflowInstanceId"
    if task_type in (task.task_type, task.task_def_name) or not (task.task_type or task.task_def_name):
        return None
    return f"its task type is '{task.task_type or task.task_def_name}'"


def _find_unreadable(task: Task) -> str | None:
    """Return why the task cannot be stored in the journal, or None."""
    numbers = _get_numbers(task)
    in_range = min(numbers) >= -MAX_NUMBER and max(numbers) <= MAX_NUMBER
    return None if in_range else "one of its numbers is out of range"


def _is_id(text: str) -> bool:
    return text.isprintable() and 0 < len(text) <= MAX_ID_CHARS


def _copy_ids(task: Task) -> Task:
    """Return a task with only the ids that a report about the unreadable task needs."""
    return Task(
        task_id=task.task_id,
        workflow_instance_id=task.workflow_instance_id,
        task_type=task.task_type,
        task_def_name=task.task_def_name,
        lease_id=task.lease_id,
    )


def _describe(task: Task, problem: str) -> str:
    return escape(f"task '{task.task_id[:100]}': {problem}"[:300])


def _join(rejected: list[str]) -> str:
    more = f"; and {len(rejected) - MAX_NAMED} more" if len(rejected) > MAX_NAMED else ""
    return f"{'; '.join(rejected[:MAX_NAMED])}{more}"


def _fail(problem: str, context: TaskContext) -> TaskOutcome:
    return make_error_outcome(NonRetryableException(f"the worker cannot read the task: {problem}"), context)


def _requeue(context: TaskContext) -> TaskOutcome:
    reason = "the server sent more tasks than the worker requested"
    return make_requeue_outcome(context, reason=reason, callback_after_seconds=0, never_started=True)
