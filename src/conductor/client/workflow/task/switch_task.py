"""A choice between steps."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Self

from conductor.client.http.models.workflow_task import WorkflowTask
from conductor.client.workflow.task.task import (
    TaskInterface,
    copy_to_list,
    get_task_interface_list_as_workflow_task_list,
)
from conductor.client.workflow.task.task_type import TaskType

#: The input whose value selects the case.
_CASE_INPUT = "switchCaseValue"


class EvaluatorType(StrEnum):
    """The language of the expression of a switch."""

    JAVASCRIPT = "javascript"
    ECMASCRIPT = "graaljs"
    VALUE_PARAM = "value-param"


class SwitchTask(TaskInterface):
    """Continues with the steps of the case whose name is the value of `case_expression`.

    With `use_javascript`, the value is the result of the script, which sees the inputs of the switch as `$.name`.

    Example:
        SwitchTask("how", workflow.input("carrier")).switch_case("post", [stamp]).default_case([call_courier])
    """

    def __init__(self, task_ref_name: str, case_expression: str, use_javascript: bool = False) -> None:
        super().__init__(task_ref_name, TaskType.SWITCH)
        if use_javascript:
            self.evaluator_type = EvaluatorType.ECMASCRIPT.value
            self.expression = case_expression
        else:
            self.evaluator_type = EvaluatorType.VALUE_PARAM.value
            self.expression = _CASE_INPUT
            self.input_parameter(_CASE_INPUT, case_expression)
        self._decision_cases: dict[str, list[Any]] = {}
        self._default_case: list[Any] = []

    def switch_case(self, case_name: str, tasks: list[Any]) -> Self:
        """Set the steps of a case."""
        self._decision_cases[case_name] = copy_to_list(tasks)
        return self

    def default_case(self, tasks: list[Any]) -> Self:
        """Set the steps for all other values."""
        self._default_case = copy_to_list(tasks)
        return self

    def _inside(self) -> list[list[Any]]:
        return [*self._decision_cases.values(), self._default_case]

    def to_workflow_task(self) -> WorkflowTask:
        """Return the switch with its steps as the server expects it."""
        task: WorkflowTask = super().to_workflow_task()
        task.decision_cases = {
            name: get_task_interface_list_as_workflow_task_list(*tasks) for name, tasks in self._decision_cases.items()
        }
        task.default_case = get_task_interface_list_as_workflow_task_list(*self._default_case)
        return task
