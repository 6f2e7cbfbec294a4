"""Remove the tasks of rounds that a loop no longer keeps (`keepLastN`).

A round can have thousands of tasks, so one decision removes at most `TASKS_PER_DECISION`. Nothing is remembered
between two decisions: the next one finds in the rows what is left of the round.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from conductor.coordinator.definitions.workflow_plan import TaskNode, WorkflowPlan
from conductor.coordinator.limits import TASKS_PER_DECISION
from conductor.coordinator.workflows.decision import Draft
from conductor.coordinator.workflows.dynamic_tasks import FORKED_TASKS
from conductor.coordinator.workflows.state import TaskState


def remove_iteration(draft: Draft, loop: TaskNode, number: int) -> bool:
    """Remove the tasks of a round that is over. Return whether all of them are removed."""
    rounds = f"{draft.iteration_suffix(loop.loop)}__{number}"
    draft.forget_new([task.task_id for task in draft.new_tasks() if _is_of_round(draft.plan, task, loop, rounds)])
    removed = draft.decision.remove
    known = set(removed)
    for task_id in _stored(draft, loop, rounds):
        if task_id in known:  # a decision may look at a loop more than once
            continue
        if len(removed) >= TASKS_PER_DECISION:
            return False
        removed.append(task_id)
    return True


def _is_of_round(plan: WorkflowPlan, task: TaskState, loop: TaskNode, rounds: str) -> bool:
    if task.own is not None and task.own.fork is not None:
        node, base = plan.nodes[task.own.fork], task.own.task["taskReferenceName"]
    else:
        base = plan.base_name(task.ref) or task.ref
        node = plan.nodes[base]
    of_task = task.ref.removeprefix(base)
    return node.is_within(loop) and (of_task == rounds or of_task.startswith(f"{rounds}__"))


def _stored(draft: Draft, loop: TaskNode, rounds: str) -> Iterator[str]:
    """The ids of a round's stored tasks. The branches of a dynamic fork come before the fork, which names them."""
    for node in _nodes_inside(draft.plan, loop):
        found = list(draft.state.tasks.named(node.ref + rounds))
        if node.type == "FORK_JOIN_DYNAMIC":
            for ref in dict.fromkeys(ref for _, ref in found):
                yield from _branches(draft, ref, ref.removeprefix(node.ref))
        yield from (task_id for task_id, _ in found)


def _nodes_inside(plan: WorkflowPlan, loop: TaskNode) -> Iterator[TaskNode]:
    for node in plan.tasks_in_loop[loop.ref]:
        yield node
        if node.type == "DO_WHILE":
            yield from _nodes_inside(plan, node)


def _branches(draft: Draft, fork: str, rounds: str) -> Iterator[str]:
    """The ids of the stored branches of a dynamic fork.

    Branches are made and removed in their order: removed ones come first, and fewer than `TASKS_PER_DECISION` may come
    last that were forgotten before they were stored. So both ends of the stored ones are found with few lookups.
    """
    tasks = draft.state.tasks
    forked = tasks.latest(fork)
    refs = [ref + rounds for ref in (forked.input.get(FORKED_TASKS) or ())] if forked else []

    def is_stored(index: int) -> bool:
        return tasks.latest(refs[index]) is not None

    last = range(len(refs) - 1, max(-1, len(refs) - 1 - TASKS_PER_DECISION), -1)
    end = next((index + 1 for index in last if is_stored(index)), 0)
    for ref in refs[bisect_left(range(end), True, key=is_stored) : end]:
        yield from (task_id for task_id, _ in tasks.named(ref))
