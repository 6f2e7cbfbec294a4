"""Removes the tasks of iterations that a loop does not keep (`keepLastN`).

An iteration can have thousands of tasks, so one decision removes at most `TASKS_PER_DECISION`. The next decision
removes those that are still stored.
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
    """Remove the tasks of an ended iteration. Return whether all of them are removed."""
    suffix = f"{draft.iteration_suffix(loop.loop)}__{number}"
    draft.forget_new([task.task_id for task in draft.new_tasks() if _is_in_iteration(draft.plan, task, loop, suffix)])
    removed = draft.decision.remove
    known = set(removed)
    for task_id in _find_stored_tasks(draft, loop, suffix):
        if task_id in known:  # already removed, because a decision may process a loop more than once
            continue
        if len(removed) >= TASKS_PER_DECISION:
            return False
        removed.append(task_id)
    return True


def _is_in_iteration(plan: WorkflowPlan, task: TaskState, loop: TaskNode, suffix: str) -> bool:
    if task.own is not None and task.own.fork is not None:
        node, base = plan.nodes[task.own.fork], task.own.task["taskReferenceName"]
    else:
        base = plan.base_name(task.ref) or task.ref
        node = plan.nodes[base]
    of_task = task.ref.removeprefix(base)
    return node.is_within(loop) and (of_task == suffix or of_task.startswith(f"{suffix}__"))


def _find_stored_tasks(draft: Draft, loop: TaskNode, suffix: str) -> Iterator[str]:
    """Yield the ids of the stored tasks of an iteration.

    The id of a dynamic fork comes after the ids of its branches, because the branches are found through its input.
    """
    for node in _nodes_inside(draft.plan, loop):
        found = list(draft.state.tasks.named(node.ref + suffix))
        if node.type == "FORK_JOIN_DYNAMIC":
            for ref in dict.fromkeys(ref for _, ref in found):
                yield from _find_stored_branches(draft, ref, ref.removeprefix(node.ref))
        yield from (task_id for task_id, _ in found)


def _nodes_inside(plan: WorkflowPlan, loop: TaskNode) -> Iterator[TaskNode]:
    for node in plan.tasks_in_loop[loop.ref]:
        yield node
        if node.type == "DO_WHILE":
            yield from _nodes_inside(plan, node)


def _find_stored_branches(draft: Draft, fork: str, suffix: str) -> Iterator[str]:
    """Yield the ids of the stored branches of a dynamic fork.

    Branches are created and removed in order, so the stored ones are a contiguous range. The branches before it are
    already removed, and at most `TASKS_PER_DECISION` branches after it were never stored. So a binary search finds the
    start of the range, and a short scan its end.
    """
    tasks = draft.state.tasks
    forked = tasks.latest(fork)
    refs = [ref + suffix for ref in (forked.input.get(FORKED_TASKS) or ())] if forked else []

    def is_stored(index: int) -> bool:
        return tasks.latest(refs[index]) is not None

    last = range(len(refs) - 1, max(-1, len(refs) - 1 - TASKS_PER_DECISION), -1)
    end = next((index + 1 for index in last if is_stored(index)), 0)
    for ref in refs[bisect_left(range(end), True, key=is_stored) : end]:
        yield from (task_id for task_id, _ in tasks.named(ref))
