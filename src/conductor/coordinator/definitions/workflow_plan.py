"""The graph of a workflow definition: every task with its place in the flow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from conductor.protocol.json_types import Json, JsonObject
from conductor.protocol.statuses import WorkflowStatus

#: All task types; `workflows/operators.py` has the behaviour of each.
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
    "PULL_WORKFLOW_MESSAGES",
    "NOOP",
    "HTTP",
    "INLINE",
    "LAMBDA",
    "JSON_JQ_TRANSFORM",
    "EVENT",
    "START_WORKFLOW",
)
#: The task types that system workers execute, each with the queue in which its tasks wait.
SYSTEM_TASKS = {
    "HTTP": "http",
    "INLINE": "script",
    "LAMBDA": "script",
    "JSON_JQ_TRANSFORM": "script",
    "EVENT": "start",
    "START_WORKFLOW": "start",
}
#: The operators that the decider executes, and that can wait for the value of a script.
OPERATORS_WITH_SCRIPTS = ("SWITCH", "DECISION", "DO_WHILE")
#: All task types that can wait for a script, including those that system workers execute.
SCRIPT_OPERATORS = frozenset(
    {*OPERATORS_WITH_SCRIPTS, *(kind for kind, queue in SYSTEM_TASKS.items() if queue == "script")}
)
#: The domain of a system queue is this prefix and the name of the queue. A client that polls such a domain gets
#: nothing.
SYSTEM_DOMAIN = " system/"
#: Evaluators of a SWITCH whose expression is JavaScript.
SCRIPT_EVALUATORS = ("javascript", "graaljs")
#: The statuses with which a TERMINATE task can end a workflow.
TERMINATION_STATUSES = (WorkflowStatus.COMPLETED, WorkflowStatus.FAILED, WorkflowStatus.TERMINATED)


@dataclass(slots=True, eq=False)
class TaskNode:
    """A task of a definition and its neighbours. `WorkflowPlan` creates it; nothing changes it afterwards."""

    ref: str
    type: str
    #: The name of the task definition. Operators without one have the name of their type, as in Conductor.
    name: str
    #: The JSON of the task in the definition.
    task: Mapping[str, Json]
    #: The task whose case, branch or loop contains this task.
    parent: TaskNode | None = None
    #: The innermost enclosing DO_WHILE.
    loop: TaskNode | None = None
    #: The next task in the same sequence.
    next: TaskNode | None = None
    #: Sequences inside this task: the cases of a SWITCH, the branches of a FORK_JOIN, the body of a DO_WHILE.
    cases: dict[str, Sequence[TaskNode]] = field(default_factory=dict)
    branches: Sequence[Sequence[TaskNode]] = ()
    body: Sequence[TaskNode] = ()
    #: The FORK_JOIN or FORK_JOIN_DYNAMIC that a JOIN belongs to.
    fork: TaskNode | None = None

    @property
    def optional(self) -> bool:
        """Whether the workflow continues after a failure of this task as after a success."""
        return bool(self.task.get("optional"))

    @property
    def permissive(self) -> bool:
        """Whether the workflow continues after a failure of this task, but fails when it reaches its end."""
        return bool(self.task.get("permissive")) and not self.optional

    def is_within(self, loop: TaskNode) -> bool:
        """Return whether this task is inside a loop, at any depth."""
        outer = self.loop
        while outer is not None and outer is not loop:
            outer = outer.loop
        return outer is not None


_FIXED_NAMES = {
    "SWITCH": "SWITCH",
    "DECISION": "DECISION",
    "FORK_JOIN": "FORK",
    "FORK_JOIN_DYNAMIC": "FORK",
    "JOIN": "JOIN",
    "EXCLUSIVE_JOIN": "EXCLUSIVE_JOIN",
}
FORKS = ("FORK_JOIN", "FORK_JOIN_DYNAMIC")
#: The key of the default case of a SWITCH. No key of `decisionCases` is equal to it.
DEFAULT_CASE = "\0default"


class WorkflowPlan:
    """The graph of a valid definition. It never changes, so all workflows of the definition share it."""

    def __init__(self, definition: Mapping[str, Json]) -> None:
        self.definition = definition
        self.nodes: dict[str, TaskNode] = {}
        self.top = self._sequence(definition["tasks"], None, None)
        self.permissive = [node for node in self.nodes.values() if node.permissive]
        #: Whether all tasks are SIMPLE, so that the workflow is a plain sequence of tasks for workers.
        self.has_only_worker_tasks = all(node.type == "SIMPLE" for node in self.nodes.values())
        #: Reference name of a DO_WHILE → the tasks inside it, without those of inner loops.
        self.tasks_in_loop: dict[str, list[TaskNode]] = {}
        for node in self.nodes.values():
            if node.loop:
                self.tasks_in_loop.setdefault(node.loop.ref, []).append(node)

    def _sequence(
        self, tasks: Sequence[Mapping[str, Json]], parent: TaskNode | None, loop: TaskNode | None
    ) -> list[TaskNode]:
        nodes = [self._node(task, parent, loop) for task in tasks]
        for node, following in pairwise(nodes):
            node.next = following
            if following.type == "JOIN" and node.type in FORKS:
                following.fork = node
        return nodes

    def _node(self, task: Mapping[str, Json], parent: TaskNode | None, loop: TaskNode | None) -> TaskNode:
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

    def make_runtime_node(self, task: Mapping[str, Json], kind: str, place: TaskNode) -> TaskNode:
        """Return the node of a task made at run time, by a dynamic fork or a DYNAMIC task at `place`."""
        ref, name = task["taskReferenceName"], _FIXED_NAMES.get(kind) or polled_name(task)
        kind = kind if kind in TASK_TYPES else "SIMPLE"
        if place.type == "FORK_JOIN_DYNAMIC":
            return TaskNode(ref, kind, name, task, parent=place, loop=place.loop)
        return TaskNode(ref, kind, name, task, parent=place.parent, loop=place.loop, next=place.next)

    def base_name(self, ref: str) -> str | None:
        """Return the reference name without the iterations of loops at its end, or None for an unknown task."""
        while ref not in self.nodes:
            ref, found, number = ref.rpartition("__")
            if not found or not number.isdecimal():
                return None
        return ref

    def next_after(self, node: TaskNode) -> TaskNode | None:
        """Return the task that runs after this task, or None at the end of a branch, a loop body or the workflow."""
        while node.next is None:
            # After the last task of a case, the flow continues after the SWITCH. A branch or a loop body ends here,
            # because its JOIN or its loop decides what runs next.
            if node.parent is None or node.parent.type not in ("SWITCH", "DECISION"):
                return None
            node = node.parent
        return node.next


def strip_iterations(ref: str) -> Iterator[str]:
    """Yield a reference name with fewer and fewer iterations at its end: `a__2` and `a` for `a__2__3`."""
    stem, found, number = ref.rpartition("__")
    while found and number.isdecimal():
        yield stem
        stem, found, number = stem.rpartition("__")


def task_type(task: Mapping[str, Json]) -> str:
    """Return the type of a task, SIMPLE by default."""
    return task.get("type") or "SIMPLE"


def polled_name(task: Mapping[str, Json]) -> str:
    """Return the name that workers poll for a task: its name, or its type if that is a custom type."""
    kind = task_type(task)
    return str(task["name"]) if kind in TASK_TYPES else kind


def system_domain(kind: str) -> str:
    """Return the domain of the queue in which a task of this type waits for a system worker.

    A SWITCH or a loop waits there for the value of its script.
    """
    return SYSTEM_DOMAIN + SYSTEM_TASKS.get(kind, "script")


def inner_sequences(task: Mapping[str, Json]) -> list[Sequence[Mapping[str, Json]]]:
    """Return the cases, branches or loop body of a task. Fields that its type does not use are ignored."""
    match task_type(task):
        case "SWITCH" | "DECISION":
            return [tasks for _, tasks in _cases(task) if tasks]
        case "FORK_JOIN":
            return [tasks for tasks in task["forkTasks"] if tasks]
        case "DO_WHILE":
            return [task["loopOver"]]
    return []


def walk_tasks(tasks: Json) -> Iterator[JsonObject]:
    """Return every task of a definition, also inside cases, branches and loops."""
    for task in tasks or []:
        yield task
        for sequence in inner_sequences(task):
            yield from walk_tasks(sequence)


def _cases(task: Mapping[str, Json]) -> Iterator[tuple[str, Sequence[Mapping[str, Json]]]]:
    yield from (task.get("decisionCases") or {}).items()
    yield DEFAULT_CASE, task.get("defaultCase") or ()
