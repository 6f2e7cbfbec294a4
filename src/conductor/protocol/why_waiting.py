"""Why a task or a workflow waits: one sentence, made of facts.

Who knows the facts says them here: the coordinator from its rows, a client of a plain Conductor server from its REST
API. A fact that nobody knows is left out, and the sentence says less. What is asked for is `why_task` or
`why_workflow`; both answer with a `Waiting`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from conductor.protocol.statuses import TERMINAL_TASK_STATUSES, TERMINAL_WORKFLOW_STATUSES
from conductor.protocol.wire import PROCESS_DEATH

#: A queue that nobody has polled for this long has no workers. (A parked poll lasts five seconds.)
UNPOLLED_MS = 10_000
#: The longest part of a reason that fits into a sentence.
MAX_REASON_CHARS = 160
#: At most so many names are listed.
MAX_NAMES = 3

Kind = Literal[
    "unpolled",  # no worker polls this queue
    "domain",  # workers poll, but in another domain
    "crashed",  # its worker process died, and it is to run again
    "failed",  # ended badly: out of retries, or nothing to retry
    "concurrency",  # as many as allowed are being worked on
    "rate",  # as many as allowed have started lately
    "paused",  # the workflow is paused
    "turn",  # as many workflows as allowed run with its key
    "retry",  # the next attempt is due later
    "callback",  # handed back by its worker until later
    "delay",  # starts later, as the definition says
    "signal",  # waits for somebody to complete it
    "until",  # waits until a time
    "leased",  # a worker has it
    "busy",  # its workers have their hands full
    "queued",  # in the queue, and workers poll
    "sub_workflow",  # waits for another workflow
    "join",  # waits for other tasks
    "loop",  # the rounds of a loop go on
    "running",  # the server is about to move it
    "done",  # ended well
]

#: Which of several reasons speaks for the whole workflow: the one that somebody must do something about, first.
_ORDER: tuple[Kind, ...] = (
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
    "until",
    "queued",
    "leased",
    "sub_workflow",
    "join",
    "loop",
    "running",
    "done",
)
RESUME = "Resume it to let it go on."
DEADLY = "Find out why its process died: the worker's log and the kernel's log (out of memory?) say more. Then retry."
_FOR_A_WORKER = "waits for a worker: "
_URGENT: frozenset[Kind] = frozenset({"failed", "unpolled", "domain"})


class QueueFacts(Struct, kw_only=True, frozen=True):
    """What is known of the queue a task waits in."""

    name: str
    domain: str = ""
    #: Whether the server's own workers take from it, and nobody else can.
    of_server: bool = False
    #: Tasks that can be polled now.
    ready: int | None = None
    #: Tasks of this queue that workers have.
    in_hand: int = 0
    #: Polls that are parked here now.
    parked: int = 0
    last_poll_ms: int | None = None
    last_worker: str | None = None
    #: Since when polls are remembered; None: since ever.
    polls_known_since_ms: int | None = None
    #: Other domains of the same task type whose workers poll now; "" is none.
    polled_domains: Sequence[str] = ()
    concurrent_limit: int = 0
    #: Tasks of this type, in all domains, that workers have.
    in_progress: int = 0
    rate_limit: int = 0
    rate_window_ms: int = 0
    #: When the next one may start; None: now.
    rate_opens_ms: int | None = None


class TaskFacts(Struct, kw_only=True, frozen=True):
    """What is known of one task."""

    ref: str
    #: SIMPLE, WAIT, JOIN, …
    type: str
    status: str
    task_id: str | None = None
    workflow_status: str = "RUNNING"
    retry_count: int = 0
    retry_limit: int = 0
    #: Why it ended; of an attempt that is to come: why the one before ended, or why it was given back.
    reason: str | None = None
    worker_id: str | None = None
    started_ms: int | None = None
    lease_until_ms: int | None = None
    #: When its worker was last heard of.
    heard_ms: int | None = None
    #: When it can be polled, or a WAIT is over.
    due_at_ms: int | None = None
    ready_since_ms: int | None = None
    #: Whether a worker has handed it back.
    handed_back: bool = False
    #: A JOIN: what it still waits for. A DO_WHILE: what is open inside.
    waits_for: Sequence[str] = ()
    #: A DO_WHILE: its round.
    round: int = 0
    sub_workflow_id: str | None = None
    sub_workflow_status: str | None = None
    queue: QueueFacts | None = None


class TurnFacts(Struct, kw_only=True, frozen=True):
    """What is known of the line in which a workflow waits to begin (`rateLimitConfig`)."""

    name: str
    key: str
    limit: int
    running: int
    #: Workflows that wait before it.
    before: int


class Waiting(Struct, kw_only=True, frozen=True, rename="camel", omit_defaults=True):
    """The answer: what kind of waiting, the sentence, and what to do about it where somebody must."""

    kind: Kind
    sentence: str
    #: What to do; None where waiting is right.
    remedy: str | None = None
    #: Whether it goes on only if somebody does something.
    urgent: bool = False
    task_id: str | None = None
    ref: str | None = None
    #: When it moves by itself at the latest, if that is known.
    until_ms: int | None = None


def why_task(task: TaskFacts, now_ms: int) -> Waiting:
    """Why this task waits, or how it ended."""
    kind, sentence, remedy, until_ms = _reason(task, now_ms)
    return Waiting(
        kind=kind,
        sentence=sentence,
        remedy=remedy,
        urgent=kind in _URGENT,
        task_id=task.task_id,
        ref=task.ref,
        until_ms=until_ms,
    )


def why_workflow(
    status: str,
    tasks: Iterable[TaskFacts],
    now_ms: int,
    reason: str | None = None,
    *,
    turn: TurnFacts | None = None,
) -> Waiting:
    """Why a workflow waits: the word of its most telling open task, or of the failed one that ended it."""
    said = [why_task(task, now_ms) for task in tasks]
    if status in TERMINAL_WORKFLOW_STATUSES:
        return _ended(status, said, reason)
    going_on = [one for one in said if one.kind not in ("failed", "done")]
    if status == "PAUSED":
        held = sum(one.kind == "leased" for one in going_on)
        also = f"; {_count(held, 'task')} in workers' hands will be finished" if held else ""
        return Waiting(kind="paused", sentence=f"paused: nothing more is scheduled{also}", remedy=RESUME)
    if turn is not None:
        return Waiting(kind="turn", sentence=_of_turn(turn))
    if not going_on:
        return Waiting(kind="running", sentence="runs: the next step is about to be taken")
    first = min(going_on, key=lambda one: _ORDER.index(one.kind))
    alike = sum(one.kind == first.kind for one in going_on) - 1
    more = f" (and {alike:,} more like it)" if alike else ""
    return Waiting(
        kind=first.kind,
        sentence=f"{first.ref} {first.sentence}{more}",
        remedy=first.remedy,
        urgent=first.urgent,
        task_id=first.task_id,
        ref=first.ref,
        until_ms=first.until_ms,
    )


def _ended(status: str, said: list[Waiting], reason: str | None) -> Waiting:
    if status == "COMPLETED":
        return Waiting(kind="done", sentence="completed")
    failed = next((one for one in said if one.kind == "failed"), None)
    if status == "TERMINATED" or failed is None:
        what = {"TERMINATED": "was terminated", "TIMED_OUT": "timed out"}.get(status, "failed")
        return Waiting(
            kind="failed", sentence=what + _because(reason), remedy="Restart it, or retry from where it stopped."
        )
    return Waiting(
        kind="failed",
        sentence=f"{failed.ref} {failed.sentence}",
        remedy=failed.remedy,
        urgent=True,
        task_id=failed.task_id,
        ref=failed.ref,
    )


def _of_turn(turn: TurnFacts) -> str:
    of = f"{turn.name} with key {turn.key}" if turn.key else turn.name
    before = f", and {_count(turn.before, 'other')} come first" if turn.before else ""
    return f"waits for its turn: {turn.running:,} of {of} run, {turn.limit:,} may at once{before}"


_Reason = tuple[Kind, str, str | None, int | None]


def _reason(task: TaskFacts, now_ms: int) -> _Reason:
    if task.status in TERMINAL_TASK_STATUSES:
        return _of_ended(task)
    match task.type:
        case "JOIN" | "EXCLUSIVE_JOIN":
            names = _names(task.waits_for)
            if not names and task.workflow_status == "PAUSED":
                return "paused", "is held: its workflow is paused", RESUME, None
            return "join", f"joins on {names}" if names else "joins: all that it waits for has ended", None, None
        case "DO_WHILE":
            names = _names(task.waits_for)
            if not names and task.workflow_status == "PAUSED":
                return "paused", f"is held in round {task.round or 1}: its workflow is paused", RESUME, None
            return "loop", f"is in round {task.round or 1}" + (f", at {names}" if names else ""), None, None
        case "SUB_WORKFLOW" if task.sub_workflow_id or task.due_at_ms is None:
            return "sub_workflow", _of_sub_workflow(task), None, None
        case "WAIT" | "HUMAN" | "WAIT_FOR_WEBHOOK" | "YIELD":
            return _of_wait(task, now_ms)
    if task.queue is not None and task.queue.of_server and not _is_later(task, now_ms):
        said = "is being carried out by the server" if task.lease_until_ms else "waits for the server to carry it out"
        return "running", said, None, None
    if task.lease_until_ms is not None or (task.status == "IN_PROGRESS" and task.worker_id):
        return "leased", _of_lease(task, now_ms), None, task.lease_until_ms
    if _is_later(task, now_ms):
        return _of_later(task, now_ms)
    if _names_death(task.reason):
        said = f"waits to run again{_because(task.reason)}"
        if task.queue is not None and not _is_polled(task.queue, now_ms) and not task.queue.in_hand:
            said += f"; {_unpolled(task.queue, now_ms)}"
        return "crashed", said, DEADLY, None
    if task.queue is not None:
        return _of_queue(task, task.queue, now_ms)
    return "running", "is being carried out by the server", None, None


def _of_ended(task: TaskFacts) -> _Reason:
    because = _because(task.reason)
    match task.status:
        case "COMPLETED" | "SKIPPED" | "COMPLETED_WITH_ERRORS":
            return "done", task.status.lower().replace("_", " "), None, None
        case "CANCELED":
            return "failed", f"was cancelled{because}", None, None
        case "FAILED_WITH_TERMINAL_ERROR" if _names_death(task.reason):
            return "failed", f"failed for good, without more retries{because}", DEADLY, None
        case "FAILED_WITH_TERMINAL_ERROR":
            remedy = "The worker said that trying again is useless: correct the input or the worker, then retry."
            return "failed", f"failed for good, without retries{because}", remedy, None
    remedy = DEADLY if _names_death(task.reason) else "Correct what made it fail, then retry."
    verb = "timed out" if task.status == "TIMED_OUT" else "failed"
    if task.retry_limit and task.retry_count >= task.retry_limit:
        # One that somebody asked for is beyond those that are made by themselves.
        of = f" of {task.retry_limit + 1}" if task.retry_count == task.retry_limit else ""
        attempts = f"attempt {task.retry_count + 1}{of}"
        return (
            "failed",
            f"is out of retries: {attempts} {verb}{because}",
            remedy,
            None,
        )
    return "failed", f"{verb}{because}", remedy, None


def _of_sub_workflow(task: TaskFacts) -> str:
    if task.sub_workflow_id is None:
        return "waits for its sub-workflow to start"
    status = f", which is {task.sub_workflow_status}" if task.sub_workflow_status else ""
    return f"waits for sub-workflow {task.sub_workflow_id}{status}"


def _of_wait(task: TaskFacts, now_ms: int) -> _Reason:
    if task.due_at_ms is not None:
        return "until", f"waits until {_moment(task.due_at_ms, now_ms)}", None, task.due_at_ms
    who = "a person" if task.type == "HUMAN" else "somebody"
    return "signal", f"waits for {who} to complete it", "Complete or fail it by its form, or by its task's id.", None


def _of_lease(task: TaskFacts, now_ms: int) -> str:
    said = f"is being worked on by {task.worker_id or 'a worker that gives no name'}"
    if task.started_ms:
        said += f" for {span(now_ms - task.started_ms)}"
    if task.heard_ms is not None:
        said += f", last heard of {span(now_ms - task.heard_ms)} ago"
    if task.lease_until_ms is not None:
        left_ms = task.lease_until_ms - now_ms
        said += f"; its lease ends in {span(left_ms)}" if left_ms > 0 else "; its lease has ended"
    return said


def _is_later(task: TaskFacts, now_ms: int) -> bool:
    return task.due_at_ms is not None and task.due_at_ms > now_ms


def _of_later(task: TaskFacts, now_ms: int) -> _Reason:
    due_ms = task.due_at_ms or now_ms
    moment = _moment(due_ms, now_ms)
    if task.handed_back:
        return "callback", f"was handed back by its worker until {moment}", None, due_ms
    if task.retry_count:
        of = f" of {task.retry_limit}" if task.retry_count <= task.retry_limit else ""
        return "retry", f"waits for retry {task.retry_count}{of} at {moment}{_because(task.reason)}", None, due_ms
    return "delay", f"starts at {moment}, as its definition says", None, due_ms


def _of_queue(task: TaskFacts, queue: QueueFacts, now_ms: int) -> _Reason:
    named = f"queue {queue.name}" + (f" in domain {queue.domain}" if queue.domain else "")
    if not _is_polled(queue, now_ms) and not queue.in_hand:
        if queue.polled_domains:
            return _of_domain(queue, named)
        return (
            "unpolled",
            _FOR_A_WORKER + _unpolled(queue, now_ms),
            f"Start a worker that polls {queue.name}"
            + (f" with domain {queue.domain}." if queue.domain else ", without a domain."),
            None,
        )
    if queue.concurrent_limit and queue.in_progress >= queue.concurrent_limit:
        said = f"is held back by the limit of {queue.concurrent_limit} at once: {queue.in_progress} are being worked on"
        return "concurrency", said, None, None
    if queue.rate_limit and queue.rate_opens_ms is not None:
        said = f"is held back by the limit of {queue.rate_limit} in {span(queue.rate_window_ms)}"
        return (
            "rate",
            f"{said}; the next may start at {_moment(queue.rate_opens_ms, now_ms)}",
            None,
            queue.rate_opens_ms,
        )
    if not _is_polled(queue, now_ms):
        ago = "" if queue.last_poll_ms is None else f" and have not polled for {span(now_ms - queue.last_poll_ms)}"
        said = f"waits for a free worker: those of {named} have {_count(queue.in_hand, 'task')} in hand{ago}"
        return "busy", said, None, None
    others = "" if queue.ready is None or queue.ready <= 1 else f" with {_count(queue.ready - 1, 'other')}"
    since = "" if task.ready_since_ms is None else f" for {span(now_ms - task.ready_since_ms)}"
    return "queued", f"waits in {named}{others}{since}; workers poll it", None, None


def _is_polled(queue: QueueFacts, now_ms: int) -> bool:
    recently = queue.last_poll_ms is not None and now_ms - queue.last_poll_ms <= UNPOLLED_MS
    return bool(queue.parked) or recently


def _of_domain(queue: QueueFacts, named: str) -> _Reason:
    polled = " and ".join(f"domain {domain}" if domain else "no domain" for domain in queue.polled_domains[:MAX_NAMES])
    remedy = (
        f"Start a worker of {queue.name} with domain {queue.domain}, or start workflows without taskToDomain."
        if queue.domain
        else f"Start a worker of {queue.name} without a domain, or name the domain in taskToDomain."
    )
    said = f"nobody polls {named}; workers of {queue.name} poll in {polled}"
    return "domain", _FOR_A_WORKER + said, remedy, None


def _unpolled(queue: QueueFacts, now_ms: int) -> str:
    where = queue.name + (f" in domain {queue.domain}" if queue.domain else "")
    if queue.last_poll_ms is not None:
        by = f" (last: {queue.last_worker})" if queue.last_worker else ""
        return f"nobody has polled {where} for {span(now_ms - queue.last_poll_ms)}{by}"
    if queue.polls_known_since_ms is not None:
        return f"nobody has polled {where} since the server started {span(now_ms - queue.polls_known_since_ms)} ago"
    return f"nobody has ever polled {where}"


def queue_problem(queue: QueueFacts, now_ms: int) -> Waiting | None:
    """Why the tasks of a queue wait, if it is because no worker takes them."""
    found = why_task(TaskFacts(ref=queue.name, type="SIMPLE", status="SCHEDULED", queue=queue), now_ms)
    return replace(found, sentence=found.sentence.removeprefix(_FOR_A_WORKER)) if found.urgent else None


def span(length_ms: int) -> str:
    """A length of time as people say it: 0.4 s, 14 s, 12 min, 3 h 10 min, 2 d."""
    seconds = max(0, length_ms) / 1000
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


def _moment(at_ms: int, now_ms: int) -> str:
    """A time of day in UTC, with its date if it is not near, and how far off it is."""
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    shown = at.strftime("%H:%M:%S" if at_ms - now_ms < 86_400_000 else "%Y-%m-%d %H:%M")
    return f"{shown} UTC ({'in ' + span(at_ms - now_ms) if at_ms > now_ms else 'now'})"


def _names_death(reason: str | None) -> bool:
    return reason is not None and reason.startswith(PROCESS_DEATH)


def _because(reason: str | None) -> str:
    text = " ".join((reason or "").split())
    if not text:
        return ""
    return f": {text if len(text) <= MAX_REASON_CHARS else text[: MAX_REASON_CHARS - 1] + '…'}"


def _names(names: Sequence[str]) -> str:
    shown = ", ".join(names[:MAX_NAMES])
    return f"{shown} and {len(names) - MAX_NAMES:,} more" if len(names) > MAX_NAMES else shown


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
