"""The tasks of a poll answer, each judged by itself: to be executed, answered for without that, or not ours at all."""

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

#: Of the tasks in one answer that are not executed, this many are answered for; no honest server sends more.
MAX_ANSWERED = MAX_POLL_COUNT
#: A line of the log names this many of the tasks that are refused.
MAX_NAMED = 3
#: An id is at most this long.
MAX_ID_CHARS = 1000
#: The numbers of a server are 64 bits wide at most, with their sign.
MAX_NUMBER = 2**63 - 1

#: Longer timeouts are cut to ten years: clocks, timers and the journal can count to that.
MAX_TIMEOUT_S = 10 * 365 * 24 * 3600

_numbers_of = attrgetter(
    *(
        field.name
        for field in msgspec.structs.fields(Task)
        if field.default_factory is int and field.name != "response_timeout_seconds"
    )
)


class Grant(NamedTuple):
    """A task and the moment from which its lease counts: when the poll was sent, never later than the server's."""

    task: Task
    sent_at: float
    #: Makes what is reported without executing the task; None: it is executed.
    instead: Callable[[TaskContext], TaskOutcome] | None = None

    @property
    def response_timeout_s(self) -> float:
        """Seconds that the lease lasts. A response timeout that is not positive counts as none."""
        given_s = self.task.response_timeout_seconds
        return float(min(given_s, MAX_TIMEOUT_S) if given_s > 0 else DEFAULT_RESPONSE_TIMEOUT_S)


def grants_of(polled: PollAnswer, task_type: str, count: int, sent_at: float) -> tuple[list[Grant], str]:
    """What an answer to a poll for `count` tasks grants, and in a few words what of it is refused."""
    if not polled.unreadable and len(polled.tasks) <= count:  # as almost always
        grants = [
            Grant(task, sent_at)
            for task in polled.tasks
            if _fault_of(task, task_type) is None and _nonsense_in(task) is None
        ]
        if len(grants) == len({grant.task.task_id for grant in grants}) == len(polled.tasks):
            return grants, ""
    refused: list[str] = []
    good: dict[str, Grant] = {}
    bad: dict[str, Grant] = {}
    for task in polled.tasks:
        fault = _fault_of(task, task_type) or ("it came twice" if task.task_id in good else None)
        if fault is not None:
            refused.append(_named(task, fault))
        elif (fault := _nonsense_in(task)) is not None:
            bad[task.task_id] = Grant(_ids_of(task), sent_at, partial(_failure, fault))
            refused.append(_named(task, fault))
        elif len(good) < count:
            good[task.task_id] = Grant(task, sent_at)
        elif task.task_id not in bad:
            bad[task.task_id] = Grant(task, sent_at, _back)
            refused.append(_named(task, f"{count} were asked for"))
    for task, reason in polled.unreadable:
        refused.append(_named(task, reason))
        if _is_id(task.task_id) and _is_id(task.workflow_instance_id) and task.task_id not in good:
            bad[task.task_id] = Grant(task, sent_at, partial(_failure, reason))
    return [*good.values(), *list(bad.values())[:MAX_ANSWERED]], _listed(refused)


def _fault_of(task: Task, task_type: str) -> str | None:
    """Why a task is none of ours, whatever it says."""
    if not _is_id(task.task_id) or not _is_id(task.workflow_instance_id):
        return "it has no taskId or no workflowInstanceId that can be one"
    if task_type in (task.task_type, task.task_def_name) or not (task.task_type or task.task_def_name):
        return None
    return f"it is one of '{task.task_type or task.task_def_name}'"


def _nonsense_in(task: Task) -> str | None:
    """Return why the task cannot be noted in the journal, which holds numbers of 64 bits."""
    numbers = _numbers_of(task)
    in_range = min(numbers) >= -MAX_NUMBER and max(numbers) <= MAX_NUMBER
    return None if in_range else "one of its numbers is out of range"


def _is_id(text: str) -> bool:
    return text.isprintable() and 0 < len(text) <= MAX_ID_CHARS


def _ids_of(task: Task) -> Task:
    """Of a task with nonsense in it, what a report needs."""
    return Task(
        task_id=task.task_id,
        workflow_instance_id=task.workflow_instance_id,
        task_type=task.task_type,
        task_def_name=task.task_def_name,
        lease_id=task.lease_id,
    )


def _named(task: Task, why: str) -> str:
    return escape(f"task '{task.task_id[:100]}': {why}"[:300])


def _listed(refused: list[str]) -> str:
    if not refused:
        return ""
    further = f"; and {len(refused) - MAX_NAMED} more" if len(refused) > MAX_NAMED else ""
    return f"what is not executed: {'; '.join(refused[:MAX_NAMED])}{further}"


def _failure(fault: str, context: TaskContext) -> TaskOutcome:
    return make_error_outcome(NonRetryableException(f"the worker cannot read the task: {fault}"), context)


def _back(context: TaskContext) -> TaskOutcome:
    return make_requeue_outcome(
        context, reason="the worker did not ask for so many tasks", callback_after_seconds=0, never_started=True
    )
