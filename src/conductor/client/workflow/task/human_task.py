"""A step that a person completes."""

from __future__ import annotations

from enum import StrEnum

from conductor.client.workflow.task.task import TaskInterface
from conductor.client.workflow.task.task_type import TaskType


class AssignmentCompletionStrategy(StrEnum):
    """The action when no assigned person has answered in time."""

    LEAVE_OPEN = "LEAVE_OPEN"
    TERMINATE = "TERMINATE"


class TriggerType(StrEnum):
    """The event that triggers an action for a human task."""

    ASSIGNED = "ASSIGNED"
    PENDING = "PENDING"
    IN_PROGRESS = "IN_PROGRESS"
    COMPLETED = "COMPLETED"
    TIMED_OUT = "TIMED_OUT"
    ASSIGNEE_CHANGED = "ASSIGNEE_CHANGED"


class HumanTask(TaskInterface):
    """Waits until a person completes it, with a form on servers that support forms."""

    def __init__(
        self,
        task_ref_name: str,
        display_name: str | None = None,
        form_template: str | None = None,
        form_version: int = 0,
        assignment_completion_strategy: AssignmentCompletionStrategy = AssignmentCompletionStrategy.LEAVE_OPEN,
    ) -> None:
        definition = {
            "assignmentCompletionStrategy": str(assignment_completion_strategy),
            "displayName": display_name,
            "userFormTemplate": {"name": form_template, "version": form_version},
        }
        inputs = {"__humanTaskDefinition": definition}
        super().__init__(task_ref_name, TaskType.HUMAN, input_parameters=inputs)
