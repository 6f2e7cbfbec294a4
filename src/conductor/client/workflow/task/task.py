"""The base class of steps."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any, Self

from conductor.client.http.models.cache_config import CacheConfig
from conductor.client.http.models.workflow_task import WorkflowTask
from conductor.client.workflow.reference import make_reference, to_plain_value
from conductor.client.workflow.task.task_type import TaskType


class TaskInterface:
    """A step of a workflow. `to_workflow_task` converts it to the form of the server.

    `step.output("field")`, or shorter `step.field`, refers to a field of its output.

    Args:
        task_reference_name: The name of the step, unique in its workflow.
        task_type: The type of the step.
        task_name: The task type whose workers run the step.
        description: A description for readers.
        optional: Continue the workflow if this step fails.
        input_parameters: The inputs: values and `${…}` expressions.
        cache_key: The key under which a server may cache the output.
        cache_ttl_second: The lifetime of the cached output.
    """

    def __init__(
        self,
        task_reference_name: str,
        task_type: TaskType,
        task_name: str | None = None,
        description: str | None = None,
        optional: bool | None = None,
        input_parameters: dict[str, Any] | None = None,
        cache_key: str | None = None,
        cache_ttl_second: int = 0,
    ) -> None:
        self.task_reference_name = task_reference_name
        self.task_type = task_type
        self.name = task_name or task_reference_name
        self.task_name = task_name if task_name is not None else task_type.value
        self.description = description
        self.optional = optional
        self.input_parameters = input_parameters
        self.cache_key = cache_key
        self.cache_ttl_second = cache_ttl_second
        self._expression: str | None = None
        self._evaluator_type: str | None = None
        #: The number of retries of this step. With None, the number in its task definition applies.
        self._retry_count: int | None = None

    @property
    def task_reference_name(self) -> str:
        """The name of the step, unique in its workflow."""
        return self._task_reference_name

    @task_reference_name.setter
    def task_reference_name(self, task_reference_name: str) -> None:
        self._task_reference_name: str = check_type(str, task_reference_name, "task_reference_name")

    @property
    def task_type(self) -> TaskType:
        """The type of the step."""
        return self._task_type

    @task_type.setter
    def task_type(self, task_type: TaskType) -> None:
        self._task_type: TaskType = check_type(TaskType, task_type, "task_type")

    @property
    def name(self) -> str:
        """The task type whose workers run the step."""
        return self._name

    @name.setter
    def name(self, name: str) -> None:
        self._name: str = check_type(str, name, "name")

    @property
    def expression(self) -> str | None:
        """The expression that the step evaluates."""
        return self._expression

    @expression.setter
    def expression(self, expression: str | None) -> None:
        self._expression = expression

    @property
    def evaluator_type(self) -> Any:
        """The language of `expression`."""
        return self._evaluator_type

    @evaluator_type.setter
    def evaluator_type(self, evaluator_type: str | None) -> None:
        self._evaluator_type = evaluator_type

    @property
    def description(self) -> str | None:
        """The description of the task, which has no effect on its execution."""
        return self._description

    @description.setter
    def description(self, description: str | None) -> None:
        self._description = None if description is None else check_type(str, description, "description")

    @property
    def optional(self) -> bool | None:
        """Whether the workflow continues if this step fails."""
        return self._optional

    @optional.setter
    def optional(self, optional: bool | None) -> None:
        self._optional = None if optional is None else check_type(bool, optional, "optional")

    @property
    def input_parameters(self) -> dict[str, Any]:
        """The inputs: values and `${…}` expressions."""
        return self._input_parameters

    @input_parameters.setter
    def input_parameters(self, input_parameters: Any) -> None:
        values = {} if input_parameters is None else input_parameters
        if not isinstance(values, dict):
            if not hasattr(values, "__dict__"):
                raise ValueError(f"the input of a step is a dict, got {values!r}")
            values = vars(values)
        self._input_parameters: dict[str, Any] = deepcopy(values)

    def input_parameter(self, key: str, value: Any) -> Self:
        """Set an input."""
        self._input_parameters[check_type(str, key, "the name of an input")] = deepcopy(value)
        return self

    def cache(self, cache_key: str, cache_ttl_second: int) -> None:
        """Let the server reuse an earlier output with the same key for that many seconds, if it can."""
        self.cache_key = cache_key
        self.cache_ttl_second = cache_ttl_second

    def to_workflow_task(self) -> Any:
        """Return the step as the server expects it: a `WorkflowTask`, or a list of them."""
        cached = self.cache_ttl_second > 0 and self.cache_key is not None
        return WorkflowTask(
            name=self._name,
            task_reference_name=self._task_reference_name,
            type=self._task_type.value,
            description=self._description,
            input_parameters=to_plain_value(self._input_parameters),
            optional=self._optional,
            retry_count=self._retry_count,
            cache_config=CacheConfig(key=self.cache_key, ttl_in_second=self.cache_ttl_second) if cached else None,
            expression=to_plain_value(self._expression),
            evaluator_type=self._evaluator_type,
        )

    def _inside(self) -> list[list[Any]]:
        """Return the lists of steps inside this step."""
        return []

    def output(self, json_path: str | None = None) -> Any:
        """Return the expression for the output or a part of it: `step.output("items[0].price")`."""
        return make_reference(self.task_reference_name, "output", json_path)

    def input(self, json_path: str | None = None, key: str | None = None, value: Any | None = None) -> Any:
        """Return the expression for the input or a part of it. With `key` and `value`, set that input."""
        if key is not None and value is not None:
            self.input_parameters[key] = value
            return self
        return make_reference(self.task_reference_name, "input", json_path)

    def __getattr__(self, name: str) -> Any:
        # Python calls this only for missing attributes. A name with a leading underscore is not a field of the output.
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return make_reference(self.task_reference_name, "output", name)


def get_task_interface_list_as_workflow_task_list(*tasks: Any) -> list[WorkflowTask]:
    """Return the steps as the server expects them, in order."""
    converted: list[WorkflowTask] = []
    for task in tasks:
        one_or_more = task.to_workflow_task()
        converted.extend(one_or_more if isinstance(one_or_more, list) else [one_or_more])
    return converted


def copy_to_list(tasks: Any) -> list[Any]:
    """Return a copy of a step or several steps as a list."""
    return list(deepcopy(tasks)) if isinstance(tasks, Sequence) else [deepcopy(tasks)]


def check_type(type_: type[Any], value: Any, what: str) -> Any:
    """Return the value if it has that type.

    Raises:
        TypeError: The value has another type.
    """
    if not isinstance(value, type_):
        raise TypeError(f"{what} must be a {type_.__name__}, got {value!r}")
    return value
