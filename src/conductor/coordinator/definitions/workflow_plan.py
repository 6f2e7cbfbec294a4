"""A workflow definition, read once: every task with its place in the flow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

#: Every task type there is; `operators.py` says what each does.
TASK_TYPES = (
    "SIMPLE",
    "SWITCH",
    "DECISION",
    "FORK_JOIN",
    "FORK_JOIN_DYNAMIC",
    "JOIN",
    "EXCLUSIVE_JOIN",
    "DO_WHILE",
    "SUB_WORKFLOW",
    "DYNAMIC",
    "SET_VARIABLE",
    "TERMINATE",
    "WAIT",
    "HUMAN",
    "NOOP",
    "HTTP",
    "INLINE",
    "LAMBDA",
    "JSON_JQ_TRANSFORM",
    "EVENT",
    "START_WORKFLOW",
)
#: Those that workers of the coordinator's own do, and the lane in which a task waits for one of them.
SYSTEM_TASKS = {
    "HTTP": "http",
    "INLINE": "script",
    "LAMBDA": "script",
    "JSON_JQ_TRANSFORM": "script",
    "EVENT": "start",
    "START_WORKFLOW": "start",
}
#: Tasks of the flow that may have to wait there for the value of a script.
OPERATORS_WITH_SCRIPTS = ("SWITCH", "DECISION", "DO_WHILE")
#: All of them: tasks that may wait for a script.
SCRIPT_OPERATORS = frozenset(
    {*OPERATORS_WITH_SCRIPTS, *(kind for kind, lane in SYSTEM_TASKS.items() if lane == "script")}
)
#: In front of the lane, the domain of their queues. No list of domains can name it: its names are stripped of blanks.
SYSTEM_DOMAIN = " system/"
#: Evaluators of a SWITCH whose expression is a condition of ours.
SCRIPT_EVALUATORS = ("javascript", "graaljs")
#: The statuses a TERMINATE may end a workflow with.
TERMINATION_STATUSES = ("COMPLETED", "FAILED", "TERMINATED")


@dataclass(slots=True, eq=False)
class TaskNode:
    """One task of a definition and its neighbours. Made by `WorkflowPlan`; read-only afterwards."""

    ref: str
    type: str
    #: The task definition's name; that of an operator which has none is its type, as in Conductor.
    name: str
    #: The task as the definition has it.
    task: Mapping[str, Any]
    #: The task whose case, branch or loop this one is in.
    parent: TaskNode | None = None
    #: The enclosing DO_WHILE, however deep inside of it.
    loop: TaskNode | None = None
    #: What runs after it in the same sequence.
    next: TaskNode | None = None
    #: Sequences inside it: the cases of a SWITCH, the branches of a FORK_JOIN, the body of a DO_WHILE.
    cases: dict[str, Sequence[TaskNode]] = field(default_factory=dict)
    branches: Sequence[Sequence[TaskNode]] = ()
    body: Sequence[TaskNode] = ()
    #: The FORK_JOIN or FORK_JOIN_DYNAMIC a JOIN belongs to.
    fork: TaskNode | None = None

    @property
    def optional(self) -> bool:
        """Whether the flow goes on after its failure as if nothing had happened."""
        return bool(self.task.get("optional"))

    @property
    def permissive(self) -> bool:
        """Whether the flow goes on after its failure, and the workflow fails at its end."""
        return bool(self.task.get("permissive")) and not self.optional

    @property
    def is_waited_for(self) -> bool:
        """Whether what is inside of it does not lead on to what follows it: a JOIN or the loop itself waits."""
        return self.type in ("FORK_JOIN", "FORK_JOIN_DYNAMIC", "DO_WHILE")

    def is_within(self, loop: TaskNode) -> bool:
        """Whether this runs in the rounds of a loop, however deep."""
        at = self.loop
        while at is not None and at is not loop:
            at = at.loop
        return at is not None


_FIXED_NAMES = {
    "SWITCH": "SWITCH",
    "DECISION": "DECISION",
    "FORK_JOIN": "FORK",
    "FORK_JOIN_DYNAMIC": "FORK",
    "JOIN": "JOIN",
    "EXCLUSIVE_JOIN": "EXCLUSIVE_JOIN",
}
FORKS = ("FORK_JOIN", "FORK_JOIN_DYNAMIC")
#: The case of a SWITCH that no value chose. No `decisionCases` key can be equal to it.
DEFAULT_CASE = "\0default"


class WorkflowPlan:
    """A definition that `validate_definition` has found good, as a graph.

    Make it once per definition and keep it: it holds no state of an execution.
    """

    def __init__(self, definition: Mapping[str, Any]) -> None:
        self.definition = definition
        self.nodes: dict[str, TaskNode] = {}
        self.top = self._sequence(definition["tasks"], None, None)
        self.permissive = [node for node in self.nodes.values() if node.permissive]
        #: Whether there are only tasks for workers, one after the other.
        self.has_only_worker_tasks = all(node.type == "SIMPLE" for node in self.nodes.values())
        #: All that runs in the rounds of a DO_WHILE, however deep.
        self.tasks_in_loop: dict[str, list[TaskNode]] = {}
        for node in self.nodes.values():
            if node.loop:
                self.tasks_in_loop.setdefault(node.loop.ref, []).append(node)

    def _sequence(
        self, tasks: Sequence[Mapping[str, Any]], parent: TaskNode | None, loop: TaskNode | None
    ) -> list[TaskNode]:
        nodes = [self._node(task, parent, loop) for task in tasks]
        for node, following in pairwise(nodes):
            node.next = following
            if following.type == "JOIN" and node.type in FORKS:
                following.fork = node
        return nodes

    def _node(self, task: Mapping[str, Any], parent: TaskNode | None, loop: TaskNode | None) -> TaskNode:
        kind = task_type(task)
        name = _FIXED_NAMES.get(kind) or polled_name(task)
        kind = kind if kind in TASK_TYPES else "SIMPLE"
        node = TaskNode(task["taskReferenceName"], kind, name, task, parent, loop)
        self.nodes[node.ref] = node
        match node.type:
            case "SWITCH" | "DECISION":
                node.cases = {case: self._sequence(tasks or (), node, loop) for case, tasks in _cases(task)}
            case "FORK_JOIN":
                node.branches = [self._sequence(tasks, node, loop) for tasks in inner_sequences(task)]
            case "DO_WHILE":
                node.body = self._sequence(task["loopOver"], node, node)
        return node

    def make_runtime_node(self, task: Mapping[str, Any], kind: str, place: TaskNode) -> TaskNode:
        """A task made at run time: a branch of the dynamic fork `place`, or what the DYNAMIC task `place` is."""
        ref, name = task["taskReferenceName"], _FIXED_NAMES.get(kind) or polled_name(task)
        kind = kind if kind in TASK_TYPES else "SIMPLE"
        if place.type == "FORK_JOIN_DYNAMIC":
            return TaskNode(ref, kind, name, task, parent=place, loop=place.loop)
        return TaskNode(ref, kind, name, task, parent=place.parent, loop=place.loop, next=place.next)

    def base_name(self, ref: str) -> str | None:
        """The reference name as the definition has it, of a task in a round of its loop; None if it has none."""
        while ref not in self.nodes:
            ref, found, number = ref.rpartition("__")
            if not found or not number.isdecimal():
                return None
        return ref

    def next_after(self, node: TaskNode) -> TaskNode | None:
        """What runs once this task is over: the end of a branch or of a loop's body is followed by nothing."""
        at: TaskNode | None = node
        while at is not None and at.next is None:
            # Behind the last task of a case comes what follows the SWITCH; branches and bodies are waited for.
            at = at.parent if at.parent is not None and not at.parent.is_waited_for else None
        return at.next if at is not None else None


def strip_iterations(ref: str) -> Iterator[str]:
    """A reference name without the rounds at its end: `a__2__3` may be round 3 of `a__2`, which is round 2 of `a`."""
    stem, found, number = ref.rpartition("__")
    while found and number.isdecimal():
        yield stem
        stem, found, number = stem.rpartition("__")


def task_type(task: Mapping[str, Any]) -> str:
    """The type of a task; SIMPLE when it names none."""
    return task.get("type") or "SIMPLE"


def polled_name(task: Mapping[str, Any]) -> str:
    """What workers poll for a task: its name, or the type that somebody made up for it."""
    kind = task_type(task)
    return str(task["name"]) if kind in TASK_TYPES else kind


def system_domain(kind: str) -> str:
    """The domain of the queue in which a task of this type waits for one of our own workers.

    A SWITCH or a loop waits there for the value of its script.
    """
    return SYSTEM_DOMAIN + SYSTEM_TASKS.get(kind, "script")


def inner_sequences(task: Mapping[str, Any]) -> list[Sequence[Mapping[str, Any]]]:
    """The sequences inside a task. Only those its type has: what else it carries is nobody's task."""
    match task_type(task):
        case "SWITCH" | "DECISION":
            return [tasks for _, tasks in _cases(task) if tasks]
        case "FORK_JOIN":
            return [tasks for tasks in task["forkTasks"] if tasks]
        case "DO_WHILE":
            return [task["loopOver"]]
    return []


def walk_tasks(tasks: Any) -> Iterator[dict[str, Any]]:
    """Every task of a definition, those inside branches and loops too."""
    for task in tasks or []:
        yield task
        for sequence in inner_sequences(task):
            yield from walk_tasks(sequence)


def _cases(task: Mapping[str, Any]) -> Iterator[tuple[str, Sequence[Mapping[str, Any]]]]:
    yield from (task.get("decisionCases") or {}).items()
    yield DEFAULT_CASE, task.get("defaultCase") or ()
