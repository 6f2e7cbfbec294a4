"""Explains in one sentence why a task or a workflow waits.

The caller collects the facts: the coordinator from its rows, a client of a Conductor server from the REST API. The
sentence leaves out facts that are unknown. The entry points are `explain_waiting_task` and `explain_waiting_workflow`;
both return a `Waiting`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from conductor.protocol.statuses import TERMINAL_TASK_STATUSES, TERMINAL_WORKFLOW_STATUSES, TaskStatus, WorkflowStatus
from conductor.protocol.steps import StepKind
from conductor.protocol.wire import PROCESS_DEATH

#: A queue without a poll for this long has no workers, because a long poll lasts at most five seconds.
UNPOLLED_MS = 10_000
#: A reason is cut to this length when it becomes part of a sentence.
MAX_REASON_CHARS = 160
#: A sentence lists at most this many names.
MAX_NAMES = 3

Kind = Literal[
    "unpolled",  # no worker polls this queue
    "domain",  # workers poll, but in another domain
    "crashed",  # the task's worker process died, and the task will run again
    "failed",  # the task or workflow ended without success, and is not retried
    "concurrency",  # the task definition's limit of concurrent tasks is reached
    "rate",  # the task definition's rate limit is reached
    "paused",  # the workflow is paused
    "turn",  # the limit of concurrent workflows is reached
    "retry",  # the next attempt is due later
    "callback",  # the task's worker postponed it
    "delay",  # the task's start delay is not over
    "steps",  # the task waits in its durable steps
    "signal",  # the task waits for a signal or a person
    "until",  # the task waits until a set time
    "leased",  # a worker runs the task
    "busy",  # all workers of the queue are busy
    "queued",  # the task is in the queue, and workers poll it
    "sub_workflow",  # the task waits for its sub-workflow
    "join",  # a JOIN waits for other tasks
    "loop",  # a loop waits for the tasks of its current iteration
    "running",  # the server is about to process the task
    "done",  # the task or workflow ended successfully
]

#: Priority of the kinds: the first one among the open tasks explains the workflow. Kinds that need a person come first.
_PRIORITY: tuple[Kind, ...] = (
    "failed",
    "unpolled",
    "domain",
    "crashed",
    "paused",
    "turn",
    "signal",
    "concurrency",
    "rate",
    "busy",
    "retry",
    "callback",
    "delay",
    "steps",
    "until",
    "queued",
    "leased",
    "sub_workflow",
    "join",
    "loop",
    "running",
    "done",
)
#: The reason of a workflow whose task has failed. Each sub-workflow around it adds a closing quote.
_TASK_FAILURE = re.compile(r"Task \S+ failed with status: \w+ and reason: '(.*?)'*", re.DOTALL)
_URGENT: frozenset[Kind] = frozenset({"failed", "unpolled", "domain"})
#: The remedy if all workers of a queue are busy.
MORE_WORKERS = "If this lasts, raise thread_count of the worker, or start another worker."
#: The remedy if the server failed a task because of the definition or the input.
START_AGAIN = "A retry cannot help: correct the definition or the input, then start the workflow again."
_RESUME = "Resume the workflow to continue."
_FIND_CRASH = (
    "Find out why its process died (see the worker's log, and the kernel's log if memory ran out), then retry."
)
_FOR_A_WORKER = "waits for a worker: "


class QueueFacts(Struct, kw_only=True, frozen=True):
    """The facts about the queue of a task."""

    name: str
    domain: str = ""
    #: Whether only the server's own workers poll this queue.
    of_server: bool = False
    #: Tasks that can be polled now.
    ready: int | None = None
    #: Tasks of this queue that workers hold.
    held: int = 0
    #: Parked polls.
    parked: int = 0
    last_poll_ms: int | None = None
    last_worker: str | None = None
    #: Polls before this time are unknown; None if all polls are known.
    polls_known_since_ms: int | None = None
    #: Other domains of the same task type that workers poll now; "" stands for no domain.
    polled_domains: Sequence[str] = ()
    concurrent_limit: int = 0
    #: Tasks of this type that workers hold, in all domains.
    in_progress: int = 0
    rate_limit: int = 0
    rate_window_ms: int = 0
    #: When the rate limit allows the next task; None if it allows one now.
    rate_opens_ms: int | None = None


class StepFacts(Struct, kw_only=True, frozen=True):
    """The facts about a durable step that waits."""

    name: str
    #: SLEEP, MESSAGE or WORKFLOW.
    kind: str
    since_ms: int
    due_at_ms: int | None = None
    workflow_id: str | None = None


#: The task types whose failures come from the definition or the input, because no worker runs them.
_COMPUTED_BY_SERVER = frozenset(
    [
        "DECISION",
        "DO_WHILE",
        "EXCLUSIVE_JOIN",
        "FORK_JOIN",
        "FORK_JOIN_DYNAMIC",
        "INLINE",
        "JOIN",
        "JSON_JQ_TRANSFORM",
        "LAMBDA",
        "SET_VARIABLE",
        "START_WORKFLOW",
        "SUB_WORKFLOW",
        "SWITCH",
        "TERMINATE",
    ]
)
#: The task types that wait for an answer of a person or another program.
_ANSWERED_FROM_OUTSIDE = frozenset(["HUMAN", "WAIT", "WAIT_FOR_WEBHOOK", "YIELD"])


class TaskFacts(Struct, kw_only=True, frozen=True):
    """The facts about one task."""

    ref: str
    #: SIMPLE, WAIT, JOIN, …
    type: str
    status: str
    task_id: str | None = None
    workflow_status: str = WorkflowStatus.RUNNING
    retry_count: int = 0
    retry_limit: int = 0
    #: Why an ended task ended. For an open task: why its worker gave it up, or why the attempt before it ended.
    reason: str | None = None
    worker_id: str | None = None
    started_ms: int | None = None
    lease_until_ms: int | None = None
    #: The worker's last poll or heartbeat.
    heard_ms: int | None = None
    #: When the task can be polled; for a WAIT, when it ends.
    due_at_ms: int | None = None
    ready_since_ms: int | None = None
    #: Whether a worker postponed the task.
    postponed: bool = False
    #: For a JOIN, the tasks that have not ended. For a DO_WHILE, the open tasks of its iteration.
    waits_for: Sequence[str] = ()
    #: The current iteration of a DO_WHILE.
    iteration: int = 0
    sub_workflow_id: str | None = None
    sub_workflow_status: str | None = None
    #: The waits of a task that its durable steps have suspended.
    waiting_steps: Sequence[StepFacts] = ()
    queue: QueueFacts | None = None


class TurnFacts(Struct, kw_only=True, frozen=True):
    """The facts about a workflow that waits because of a limit on concurrent workflows (`rateLimitConfig`)."""

    name: str
    key: str
    limit: int
    running: int
    #: Number of workflows that start before this one.
    before: int


class Waiting(Struct, kw_only=True, frozen=True, rename="camel", omit_defaults=True):
    """Why a task or a workflow waits, or how it ended."""

    kind: Kind
    sentence: str
    #: The action that a person should take; None if nothing needs to be done.
    remedy: str | None = None
    #: Whether the task or workflow cannot continue until a person acts.
    urgent: bool = False
    task_id: str | None = None
    ref: str | None = None
    #: When the task or workflow continues by itself, if that time is known.
    until_ms: int | None = None


class _Reason(NamedTuple):
    kind: Kind
    sentence: str
    remedy: str | None = None
    until_ms: int | None = None


def explain_waiting_task(task: TaskFacts, now_ms: int) -> Waiting:
    """Explain why a task waits, or how it ended."""
    kind, sentence, remedy, until_ms = _explain(task, now_ms)
    return Waiting(
        kind=kind,
        sentence=sentence,
        remedy=remedy,
        urgent=kind in _URGENT,
        task_id=task.task_id,
        ref=task.ref,
        until_ms=until_ms,
    )


def explain_waiting_workflow(
    status: str,
    tasks: Iterable[TaskFacts],
    now_ms: int,
    reason: str | None = None,
    *,
    turn: TurnFacts | None = None,
) -> Waiting:
    """Explain why a workflow waits, or how it ended.

    Args:
        status: The workflow's status.
        tasks: Its open tasks; of an ended workflow, the task that made it fail.
        now_ms: The current time.
        reason: The workflow's own reason for its end.
        turn: The rate-limit turn that it waits for.
    """
    explained = [explain_waiting_task(task, now_ms) for task in tasks]
    if status in TERMINAL_WORKFLOW_STATUSES:
        return _explain_ended_workflow(status, explained, reason)
    open_tasks = [task for task in explained if task.kind not in ("failed", "done")]
    if status == WorkflowStatus.PAUSED:
        running = sum(task.kind == "leased" for task in open_tasks)
        finishing = f"; {_count(running, 'running task')} will be finished" if running else ""
        return Waiting(kind="paused", sentence=f"paused: no further task is scheduled{finishing}", remedy=_RESUME)
    if turn is not None:
        workflows = f"{turn.name} with key {turn.key}" if turn.key else turn.name
        limit = f"the limit of {turn.limit:,} concurrent workflows {workflows} is reached ({turn.running:,} running)"
        ahead = f"; {turn.before:,} ahead of it" if turn.before else ""
        return Waiting(kind="turn", sentence=f"waits for its turn: {limit}{ahead}")
    if not open_tasks:
        return Waiting(kind="running", sentence="is running: the next task is about to be scheduled")
    first = min(open_tasks, key=lambda task: _PRIORITY.index(task.kind))
    similar = sum(task.kind == first.kind for task in open_tasks) - 1
    more = f" (and {similar:,} more like it)" if similar else ""
    return replace(first, sentence=f"{first.ref} {first.sentence}{more}")


def explain_by_sub_workflow(outer: Waiting, workflow_id: str, name: str, inner: Waiting, levels: int) -> Waiting:
    """Return the explanation of a workflow whose cause is in a sub-workflow that it waits for, or that failed.

    Args:
        outer: The explanation of the workflow itself.
        workflow_id: The id of the innermost sub-workflow.
        name: The name of that sub-workflow.
        inner: The explanation of that sub-workflow.
        levels: How many levels below the workflow that sub-workflow is.
    """
    depth = f", {levels} levels below" if levels > 1 else ""
    verb = "failed in" if outer.kind == "failed" else "waits for"
    sentence = f"{outer.ref} {verb} sub-workflow {name} ({workflow_id}){depth}: {inner.sentence}"
    return replace(outer, sentence=sentence, remedy=inner.remedy, urgent=inner.urgent, until_ms=inner.until_ms)


def _explain_ended_workflow(status: str, tasks: list[Waiting], reason: str | None) -> Waiting:
    if status == WorkflowStatus.COMPLETED:
        return Waiting(kind="done", sentence="completed")
    failed = next((task for task in tasks if task.kind == "failed"), None)
    if status == WorkflowStatus.TERMINATED or failed is None:
        verb = {"TERMINATED": "was terminated", "TIMED_OUT": "timed out"}.get(status, "failed")
        remedy = "Restart it, or retry from where it stopped."
        return Waiting(kind="failed", sentence=verb + _because(reason), remedy=remedy)
    return replace(failed, sentence=f"{failed.ref} {failed.sentence}", urgent=True)


def _explain(task: TaskFacts, now_ms: int) -> _Reason:
    if task.status in TERMINAL_TASK_STATUSES:
        return _explain_ended_task(task)
    match task.type:
        case "JOIN" | "EXCLUSIVE_JOIN" | "DO_WHILE":
            return _explain_join_or_loop(task)
        case "SUB_WORKFLOW" if task.sub_workflow_id:
            status = f", which is {task.sub_workflow_status}" if task.sub_workflow_status else ""
            return _Reason("sub_workflow", f"waits for sub-workflow {task.sub_workflow_id}{status}")
        case "SUB_WORKFLOW" if task.due_at_ms is None:
            return _Reason("sub_workflow", "waits for its sub-workflow to start")
        case "WAIT" | "HUMAN" | "WAIT_FOR_WEBHOOK" | "YIELD" if task.due_at_ms is not None:
            return _Reason("until", f"waits until {_format_time(task.due_at_ms, now_ms)}", until_ms=task.due_at_ms)
        case "WAIT" | "HUMAN" | "WAIT_FOR_WEBHOOK" | "YIELD":
            signal = "a person to complete it" if task.type == "HUMAN" else "a signal to complete it"
            return _Reason("signal", f"waits for {signal}", "Complete or fail it in the web UI, or by its task id.")
        case "PULL_WORKFLOW_MESSAGES":
            remedy = "Send one in the web UI, or with `conductor-worker workflow send`."
            return _Reason("signal", "waits for a message to the workflow", remedy)
    is_due_later = task.due_at_ms is not None and task.due_at_ms > now_ms
    if task.queue is not None and task.queue.of_server and not is_due_later:
        processed = "is being processed by the server" if task.lease_until_ms else "waits for the server to process it"
        return _Reason("running", processed)
    if task.lease_until_ms is not None or (task.status == TaskStatus.IN_PROGRESS and task.worker_id):
        return _Reason("leased", _describe_lease(task, now_ms), until_ms=task.lease_until_ms)
    if task.waiting_steps and task.ready_since_ms is None:
        return _explain_steps(task.waiting_steps, now_ms)
    if is_due_later:
        return _explain_later(task, now_ms)
    if _is_process_death(task.reason):
        sentence = f"waits to run again{_because(task.reason)}"
        if task.queue is not None and not _has_workers(task.queue, now_ms):
            sentence += f"; {_describe_unpolled(task.queue, now_ms)}"
        return _Reason("crashed", sentence, _FIND_CRASH)
    if task.queue is not None:
        return _explain_queue(task, task.queue, now_ms)
    return _Reason("running", "is being processed by the server")


def _explain_ended_task(task: TaskFacts) -> _Reason:
    because = _because(task.reason)
    match task.status:
        case "COMPLETED" | "SKIPPED" | "COMPLETED_WITH_ERRORS":
            return _Reason("done", task.status.lower().replace("_", " "))
        case "CANCELED":
            return _Reason("failed", f"was cancelled{because}")
        case "FAILED_WITH_TERMINAL_ERROR" if _is_process_death(task.reason):
            return _Reason("failed", f"failed for good, without more retries{because}", _FIND_CRASH)
        case "FAILED_WITH_TERMINAL_ERROR":
            if task.type in _COMPUTED_BY_SERVER:
                remedy = START_AGAIN
            elif task.type in _ANSWERED_FROM_OUTSIDE:
                remedy = "Retry the workflow to wait for another answer, or correct the input of the step."
            else:
                remedy = "The worker reported that a retry cannot help: correct the input or the worker, then retry."
            return _Reason("failed", f"failed for good, without retries{because}", remedy)
    remedy = _FIND_CRASH if _is_process_death(task.reason) else "Correct the cause of the failure, then retry."
    verb = "timed out" if task.status == TaskStatus.TIMED_OUT else "failed"
    if task.retry_limit and task.retry_count >= task.retry_limit:
        # A manual retry can exceed the limit; "attempt 5 of 4" would be confusing.
        of = f" of {task.retry_limit + 1}" if task.retry_count == task.retry_limit else ""
        return _Reason("failed", f"is out of retries: attempt {task.retry_count + 1}{of} {verb}{because}", remedy)
    return _Reason("failed", f"{verb}{because}", remedy)


def _explain_join_or_loop(task: TaskFacts) -> _Reason:
    names = _list_names(task.waits_for)
    is_loop = task.type == "DO_WHILE"
    iteration = f" in iteration {task.iteration or 1}" if is_loop else ""
    if not names and task.workflow_status == WorkflowStatus.PAUSED:
        return _Reason("paused", f"is held{iteration}: its workflow is paused", _RESUME)
    if is_loop:
        return _Reason("loop", f"is{iteration}, at {names}" if names else f"is{iteration}")
    return _Reason("join", f"joins on {names}" if names else "joins: all its tasks have ended")


def _describe_lease(task: TaskFacts, now_ms: int) -> str:
    worker = task.worker_id or "a worker without a name"
    if task.started_ms:
        sentence = f"has been running on {worker} for {format_duration(now_ms - task.started_ms)}"
    else:
        sentence = f"is running on {worker}"
    if task.heard_ms is not None:
        sentence += f", last contact {format_duration(now_ms - task.heard_ms)} ago"
    if task.lease_until_ms is not None:
        left_ms = task.lease_until_ms - now_ms
        sentence += f"; its lease expires in {format_duration(left_ms)}" if left_ms > 0 else "; its lease has expired"
    return sentence


def _explain_later(task: TaskFacts, now_ms: int) -> _Reason:
    due_ms = task.due_at_ms or now_ms
    due = _format_time(due_ms, now_ms)
    if task.postponed:
        return _Reason("callback", f"was postponed by its worker until {due}", until_ms=due_ms)
    if task.retry_count:
        of = f" of {task.retry_limit}" if task.retry_count <= task.retry_limit else ""
        retry = f"waits for retry {task.retry_count}{of} at {due}{_because(task.reason)}"
        return _Reason("retry", retry, until_ms=due_ms)
    return _Reason("delay", f"starts at {due}, after its start delay", until_ms=due_ms)


def _explain_steps(steps: Sequence[StepFacts], now_ms: int) -> _Reason:
    due_ms = min((step.due_at_ms for step in steps if step.due_at_ms is not None), default=None)
    sentence = describe_wait(steps[0], now_ms)
    if len(steps) > 1:
        sentence += f" (and {_count(len(steps) - 1, 'more wait')})"
    waits_for_person = any(step.kind == StepKind.MESSAGE for step in steps)
    remedy = "Send the message to the workflow." if waits_for_person else None
    return _Reason("steps", sentence, remedy, due_ms)


def describe_wait(step: StepFacts, now_ms: int) -> str:
    """Describe what a durable step waits for."""
    since = format_duration(now_ms - step.since_ms)
    until = f", at most until {_format_time(step.due_at_ms, now_ms)}" if step.due_at_ms is not None else ""
    match step.kind:
        case StepKind.SLEEP:
            return f"sleeps until {_format_time(step.due_at_ms or now_ms, now_ms)}"
        case StepKind.MESSAGE:
            return f"waits for message {step.name} since {since}{until}"
    return f"waits for workflow {step.workflow_id or step.name} since {since}"


def _explain_queue(task: TaskFacts, queue: QueueFacts, now_ms: int) -> _Reason:
    in_domain = f" in domain {queue.domain}" if queue.domain else ""
    if not _has_workers(queue, now_ms) and queue.polled_domains:
        return _explain_domain(queue)
    if not _has_workers(queue, now_ms):
        with_domain = f" with domain {queue.domain}" if queue.domain else ", without a domain"
        remedy = f"Start a worker that polls {queue.name}{with_domain}."
        return _Reason("unpolled", _FOR_A_WORKER + _describe_unpolled(queue, now_ms), remedy)
    if queue.concurrent_limit and queue.in_progress >= queue.concurrent_limit:
        limit = f"the limit of {queue.concurrent_limit} concurrent tasks is reached"
        return _Reason("concurrency", f"waits: {limit} ({queue.in_progress} running)")
    if queue.rate_limit and queue.rate_opens_ms is not None:
        limit = f"the rate limit of {queue.rate_limit} in {format_duration(queue.rate_window_ms)} is reached"
        opens = _format_time(queue.rate_opens_ms, now_ms)
        return _Reason("rate", f"waits: {limit}; the next task may start at {opens}", until_ms=queue.rate_opens_ms)
    if not _is_polled(queue, now_ms):
        sentence = f"waits for a free worker: those of queue {queue.name}{in_domain} run {_count(queue.held, 'task')}"
        if queue.last_poll_ms is not None:
            sentence += f" and have not polled for {format_duration(now_ms - queue.last_poll_ms)}"
        return _Reason("busy", sentence, MORE_WORKERS)
    others = "" if queue.ready is None or queue.ready <= 1 else f" with {_count(queue.ready - 1, 'other')}"
    since = "" if task.ready_since_ms is None else f" for {format_duration(now_ms - task.ready_since_ms)}"
    is_long = task.ready_since_ms is not None and now_ms - task.ready_since_ms > UNPOLLED_MS
    sentence = f"waits in queue {queue.name}{in_domain}{others}{since}; workers poll it"
    return _Reason("queued", sentence, MORE_WORKERS if is_long and queue.held else None)


def _is_polled(queue: QueueFacts, now_ms: int) -> bool:
    recently = queue.last_poll_ms is not None and now_ms - queue.last_poll_ms <= UNPOLLED_MS
    return bool(queue.parked) or recently


def _has_workers(queue: QueueFacts, now_ms: int) -> bool:
    return _is_polled(queue, now_ms) or queue.held > 0


def _explain_domain(queue: QueueFacts) -> _Reason:
    polled = " and ".join(f"domain {domain}" if domain else "no domain" for domain in queue.polled_domains[:MAX_NAMES])
    in_domain = f" in domain {queue.domain}" if queue.domain else ""
    remedy = (
        f"Start a worker of {queue.name} with domain {queue.domain}, or start workflows without taskToDomain."
        if queue.domain
        else f"Start a worker of {queue.name} without a domain, or name the domain in taskToDomain."
    )
    sentence = f"no worker polls queue {queue.name}{in_domain}; workers of {queue.name} poll in {polled}"
    return _Reason("domain", _FOR_A_WORKER + sentence, remedy)


def _describe_unpolled(queue: QueueFacts, now_ms: int) -> str:
    where = queue.name + (f" in domain {queue.domain}" if queue.domain else "")
    if queue.last_poll_ms is not None:
        by = f" (last: {queue.last_worker})" if queue.last_worker else ""
        return f"no worker has polled {where} for {format_duration(now_ms - queue.last_poll_ms)}{by}"
    if queue.polls_known_since_ms is not None:
        since = format_duration(now_ms - queue.polls_known_since_ms)
        return f"no worker has polled {where} since the server started {since} ago"
    return f"no worker has ever polled {where}"


def find_queue_problem(queue: QueueFacts, now_ms: int) -> Waiting | None:
    """Explain why no worker takes the tasks of a queue; None if workers do."""
    waiting = explain_waiting_task(
        TaskFacts(ref=queue.name, type="SIMPLE", status=TaskStatus.SCHEDULED, queue=queue), now_ms
    )
    return replace(waiting, sentence=waiting.sentence.removeprefix(_FOR_A_WORKER)) if waiting.urgent else None


def format_duration(length_ms: float) -> str:
    """Format a length of time for people: 0.4 s, 14 s, 12 min, 3 h 10 min, 2 d."""
    seconds = max(0.0, length_ms) / 1000
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 120:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    return f"{hours // 24} d"


def _format_time(at_ms: int, now_ms: int) -> str:
    """Format a time in UTC and how far away it is; include the date if the time is more than a day away."""
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    text = at.strftime("%H:%M:%S" if at_ms - now_ms < 86_400_000 else "%Y-%m-%d %H:%M")
    return f"{text} UTC ({'in ' + format_duration(at_ms - now_ms) if at_ms > now_ms else 'now'})"


def _is_process_death(reason: str | None) -> bool:
    return reason is not None and reason.startswith(PROCESS_DEATH)


def find_own_reason(reason: str) -> str:
    """Return the innermost failure reason, without the names and ids of sub-workflows and tasks that Conductor adds."""
    if not reason.startswith(("Sub workflow ", "Task ")):
        return reason
    inner = reason.rpartition(" failure reason: ")[2]
    quoted = _TASK_FAILURE.fullmatch(inner)
    return quoted[1] if quoted else inner


def _because(reason: str | None) -> str:
    text = " ".join(find_own_reason(reason or "").split())
    if not text:
        return ""
    return f": {text if len(text) <= MAX_REASON_CHARS else text[: MAX_REASON_CHARS - 1] + '…'}"


def _list_names(names: Sequence[str]) -> str:
    listed = ", ".join(names[:MAX_NAMES])
    return f"{listed} and {len(names) - MAX_NAMES:,} more" if len(names) > MAX_NAMES else listed


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
