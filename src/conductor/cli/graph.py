"""Draws the graph of a workflow as lines of text: each task with its state, and counts for wide forks and loops.

A definition is nested (sequence, fork, switch, loop), so its drawing is a recursion over blocks: a block is a list of
lines, and a nested block is indented.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from conductor.cli.workflow_details import base_reference_in
from conductor.common.text import escape
from conductor.protocol.statuses import TERMINAL_TASK_STATUSES, TaskStatus
from conductor.protocol.views import TaskAttempt, WorkflowDetails
from conductor.protocol.why_waiting import format_duration

#: A fork with more branches shows only half this number of branches: those with the lowest `_RANK`.
SHOWN_BRANCHES = 6
#: Deeper nesting is cut off, because a terminal has no room for it.
MAX_DEPTH = 30
#: Shorter durations are not shown. Most tasks that the server itself processes are shorter.
NOTABLE_MS = 50
#: The narrowest column that text is wrapped into.
MIN_WIDTH = 20

#: Status → sign and style. The sign distinguishes the statuses without colour.
SIGNS = {
    "RUNNING": ("◐", "cyan"),
    "IN_PROGRESS": ("◐", "cyan"),
    "SCHEDULED": ("○", "yellow"),
    "PAUSED": ("‖", "yellow"),
    "COMPLETED": ("✓", "green"),
    "COMPLETED_WITH_ERRORS": ("✓", "yellow"),
    "SKIPPED": ("»", "dim"),
    "FAILED": ("✕", "bold red"),
    "FAILED_WITH_TERMINAL_ERROR": ("✕", "bold red"),
    "TIMED_OUT": ("◷", "bold red"),
    "TERMINATED": ("■", "dim"),
    "CANCELED": ("■", "dim"),
}
#: Rank of each state: a state with a lower rank needs more attention. The state of a branch is the state of its task
#: with the lowest rank. Branches with low ranks are shown first.
_RANK = {
    "FAILED_WITH_TERMINAL_ERROR": 0,
    "FAILED": 0,
    "TIMED_OUT": 0,
    "IN_PROGRESS": 1,
    "SCHEDULED": 2,
    "CANCELED": 3,
    "COMPLETED_WITH_ERRORS": 4,
    "COMPLETED": 5,
    "SKIPPED": 6,
}
_NOT_REACHED = ("·", "dim")


class Line(NamedTuple):
    """A line of output: its first prefix, the prefix of wrapped lines, and the text."""

    lead: str
    hang: str
    text: Text


Block = list[Line]
Definition = dict[str, Any]


def draw(execution: WorkflowDetails) -> Block:
    """Return the graph of a workflow as lines of text."""
    definition = execution.workflow.get("workflowDefinition") or {}
    return _Drawing(definition, execution.tasks).sequence(_tasks(definition.get("tasks")), None, 0)


def print_lines(console: Console, block: Block) -> None:
    """Print the lines, wrapped to the width of a terminal; elsewhere unwrapped."""
    for line in block:
        room = max(MIN_WIDTH, console.width - max(cell_len(line.lead), cell_len(line.hang)))
        pieces = line.text.wrap(console, room) if console.is_terminal else [line.text]
        for number, piece in enumerate(pieces):
            piece.rstrip()
            lead = Text(line.hang if number else line.lead, style="dim")
            console.print(lead + piece, soft_wrap=True)


def sign(status: str | None) -> tuple[str, str]:
    """Return the sign of a status and its style. A status of None means that the task was not reached."""
    return _NOT_REACHED if status is None else SIGNS.get(status, ("?", ""))


def tally(statuses: Iterable[str | None]) -> str:
    """Return the number of tasks in each status, such as "180 ✓ completed, 15 ◐ in progress"."""
    counts = Counter(statuses)
    ordered = sorted(counts, key=lambda one: _RANK.get(one or "", 9))
    return ", ".join(f"{counts[one]:,} {sign(one)[0]} {_to_words(one)}" for one in ordered)


def _to_words(status: str | None) -> str:
    return "not reached" if status is None else escape(status).lower().replace("_", " ")


def _tasks(value: Any) -> list[Definition]:
    """Return the tasks of a list in a definition, skipping entries that are not tasks."""
    return [task for task in value if isinstance(task, dict)] if isinstance(value, list) else []


def _ref(task: Definition) -> str:
    return str(task.get("taskReferenceName") or task.get("name") or "?")


def _nested_lists(task: Definition) -> Iterator[list[Definition]]:
    cases = task.get("decisionCases")
    for branch in [*(cases.values() if isinstance(cases, dict) else ()), task.get("defaultCase"), task.get("loopOver")]:
        yield _tasks(branch)
    for branch in task.get("forkTasks") or ():
        yield _tasks(branch)


def _walk(tasks: list[Definition], depth: int = 0) -> Iterator[Definition]:
    for task in tasks:
        yield task
        if depth < MAX_DEPTH:
            for inner in _nested_lists(task):
                yield from _walk(inner, depth + 1)


class _Drawing:
    """Draws a definition with the states of its tasks."""

    def __init__(self, definition: Definition, steps: Sequence[TaskAttempt]) -> None:
        self._known = {_ref(task) for task in _walk(_tasks(definition.get("tasks")))}
        self._dynamic = {
            _ref(task) for task in _walk(_tasks(definition.get("tasks"))) if task.get("type") == "FORK_JOIN_DYNAMIC"
        }
        self._by_ref: dict[str, list[TaskAttempt]] = {}
        for step in sorted(steps, key=lambda one: one.seq):
            self._by_ref.setdefault(base_reference_in(step.ref, self._known), []).append(step)

    def sequence(self, tasks: list[Definition], suffix: str | None, depth: int) -> Block:
        """Return the lines of tasks in sequence.

        Inside a loop, the reference names of the current iteration end in `suffix`.
        """
        if depth > MAX_DEPTH:
            return [Line("", "", Text("… and more inside", style="dim"))]
        return [line for task in tasks for line in self._block(task, suffix, depth)]

    def _attempts(self, ref: str, suffix: str | None) -> list[TaskAttempt]:
        """Return the attempts at a task in the current iteration; outside loops, all attempts."""
        found = self._by_ref.get(ref, [])
        return found if suffix is None else [step for step in found if step.ref == ref + suffix]

    def _block(self, task: Definition, suffix: str | None, depth: int) -> Block:
        match task.get("type") or "SIMPLE":
            case "FORK_JOIN":
                return self._fork(task, suffix, depth)
            case "FORK_JOIN_DYNAMIC":
                return self._dynamic_fork(task, suffix)
            case "SWITCH" | "DECISION":
                return self._switch(task, suffix, depth)
            case "DO_WHILE":
                return self._loop(task, suffix, depth)
        return [self._node(task, suffix)]

    def _node(self, task: Definition, suffix: str | None, more: str = "") -> Line:
        ref, kind = _ref(task), str(task.get("type") or "SIMPLE")
        name = str(task.get("name") or "")
        about = (name if name != ref else "") if kind == "SIMPLE" else kind
        return _line(ref, self._attempts(ref, suffix), about, more)

    def _fork(self, task: Definition, suffix: str | None, depth: int) -> Block:
        branches = [_tasks(branch) for branch in task.get("forkTasks") or ()]
        states = [self._state(branch, suffix) for branch in branches]
        drawn = [
            self.sequence(branches[at], suffix, depth + 1) or [Line("", "", Text("nothing", style="dim"))]
            for at in _choose_branches(states)
        ]
        return [self._node(task, suffix, f"{len(branches)} branches"), *_draw_branches(drawn, states)]

    def _state(self, branch: list[Definition], suffix: str | None) -> str | None:
        """Return the state of a branch, which is the state of its task with the lowest rank."""
        newest = [found[-1].status for task in _walk(branch) if (found := self._attempts(_ref(task), suffix))]
        return min(newest, key=lambda status: _RANK.get(status, 9), default=None)

    def _dynamic_fork(self, task: Definition, suffix: str | None) -> Block:
        forked = self._find_forked(task, suffix)
        states: list[str | None] = [attempts[-1].status for attempts in forked]
        drawn = [[_line(forked[at][-1].ref, forked[at], _about(forked[at][-1]))] for at in _choose_branches(states)]
        return [self._node(task, suffix, f"{len(forked):,} forked" if forked else ""), *_draw_branches(drawn, states)]

    def _find_forked(self, task: Definition, suffix: str | None) -> list[list[TaskAttempt]]:
        """Return the tasks that a dynamic fork created, each with its attempts.

        These tasks are not in the definition, and were scheduled between this dynamic fork and the next one.
        """
        mine = self._attempts(_ref(task), suffix)
        if not mine:
            return []
        begins = sorted(step.seq for ref in self._dynamic for step in self._by_ref.get(ref, ()))
        ends = next((seq for seq in begins if seq > mine[-1].seq), None)
        found: dict[str, list[TaskAttempt]] = {}
        for base, steps in self._by_ref.items():
            if base in self._known:
                continue
            for step in steps:
                found.setdefault(step.ref, []).append(step)
        first = mine[-1].seq
        return [steps for steps in found.values() if first < steps[0].seq and (ends is None or steps[0].seq < ends)]

    def _switch(self, task: Definition, suffix: str | None, depth: int) -> Block:
        found = self._attempts(_ref(task), suffix)
        chosen = found[-1].chosen if found else None
        defined = task.get("decisionCases")
        cases = {str(name): _tasks(inner) for name, inner in (defined if isinstance(defined, dict) else {}).items()}
        taken = chosen if chosen in cases else ("default" if chosen is not None else None)
        ways = [*cases.items(), ("default", _tasks(task.get("defaultCase")))]
        drawn = []
        untaken = [(name, inner) for name, inner in ways if taken is not None and name != taken]
        for name, inner in ways:
            if taken is None or name == taken:
                head = Line(
                    "",
                    "",
                    Text(escape(name) + ":" + ("" if inner else " nothing to do"), style="bold" if taken else ""),
                )
                drawn.append([head, *self.sequence(inner, suffix, depth + 1)])
        if untaken:
            drawn.append(
                [Line("", "  ", Text(f"not taken: {_list_names([name for name, _ in untaken])}", style="dim"))]
            )
        more = f"→ {escape(chosen)}" if chosen is not None else ""
        return [self._node(task, suffix, more), *_join_blocks(drawn)]

    def _loop(self, task: Definition, suffix: str | None, depth: int) -> Block:
        body = _tasks(task.get("loopOver"))
        around, of = suffix or "", self._attempts(_ref(task), suffix)
        newest = max([of[-1].iteration if of else 0, *self._iterations_seen(body, around)])
        more = f"iteration {newest:,}" if newest else ""
        inner = self.sequence(body, f"{around}__{newest}" if newest else around or None, depth + 1)
        return [self._node(task, suffix, more), *_indent(inner, "↻ ", "↻ ")]

    def _iterations_seen(self, body: list[Definition], around: str) -> Iterator[int]:
        for task in body:
            start = f"{_ref(task)}{around}__"
            for step in self._by_ref.get(_ref(task), ()):
                number = step.ref.removeprefix(start)
                if step.ref.startswith(start) and number.isdecimal():
                    yield int(number)


def _line(ref: str, attempts: list[TaskAttempt], about: str, more: str = "") -> Line:
    newest = attempts[-1] if attempts else None
    mark, style = sign(newest.status if newest else None)
    text = Text.assemble((f"{mark} ", style), (escape(ref), style if newest is None else "bold"))
    if about:
        text.append(f"  {escape(about)}", "dim")
    if more:
        text.append(f"  {more}")
    if newest is None:
        text.append("  not reached", "dim")
        return Line("", "    ", text)
    text.append(f"  {_to_words(newest.status)}", style)
    if len(attempts) > 1:
        text.append(f"  {len(attempts):,} attempts")
    for part in _parts(newest):
        text.append(f"  {part}")
    return Line("", "    ", text)


def _parts(step: TaskAttempt) -> Iterator[str]:
    """Yield the duration, the sub-workflow, and the reason of a wait or failure, of the latest attempt."""
    if step.ended_ms and step.started_ms and step.ended_ms - step.started_ms >= NOTABLE_MS:
        yield format_duration(step.ended_ms - step.started_ms)
    if step.sub_workflow_id:
        yield f"sub-workflow {escape(step.sub_workflow_id)}"
    if step.waiting is not None and step.status not in TERMINAL_TASK_STATUSES:
        yield escape(step.waiting.sentence)
    elif step.reason and step.status != TaskStatus.COMPLETED:
        yield escape(" ".join(step.reason.split()))


def _about(step: TaskAttempt) -> str:
    if step.type != "SIMPLE":
        return step.type
    return step.name if step.name != step.ref else ""


def _choose_branches(states: list[str | None]) -> list[int]:
    """Return the indexes of the branches to show.

    A fork of at most `SHOWN_BRANCHES` branches shows all. A larger fork shows half as many: those with the lowest rank.
    """
    if len(states) <= SHOWN_BRANCHES:
        return list(range(len(states)))
    ranked = sorted(range(len(states)), key=lambda at: _RANK.get(states[at] or "", 9))
    return ranked[: SHOWN_BRANCHES // 2]


def _draw_branches(drawn: list[Block], states: list[str | None]) -> Block:
    """Return the lines of the shown branches of a fork, and a line that counts the hidden branches."""
    left = len(states) - len(drawn)
    if left:
        folded = Text(f"… {left:,} more branches; all {len(states):,}: {tally(states)}", style="dim")
        return _join_blocks([*drawn, [Line("", "  ", folded)]])
    return _join_blocks(drawn)


def _join_blocks(blocks: list[Block]) -> Block:
    lines: Block = []
    for number, block in enumerate(blocks, 1):
        is_last = number == len(blocks)
        lines += _indent(block, "└─ " if is_last else "├─ ", "   " if is_last else "│  ")
    return lines


def _indent(block: Block, first: str, rest: str) -> Block:
    return [
        Line((first if number == 0 else rest) + line.lead, rest + line.hang, line.text)
        for number, line in enumerate(block)
    ]


def _list_names(names: list[str], limit: int = 5) -> str:
    more = f" and {len(names) - limit:,} more" if len(names) > limit else ""
    return escape(", ".join(names[:limit])) + more
