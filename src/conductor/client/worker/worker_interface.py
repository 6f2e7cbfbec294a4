"""The base class of all workers."""

from __future__ import annotations

import abc
import copy
from collections.abc import Sequence
from typing import Any

from conductor.client.http.models.task import Task
from conductor.client.http.models.task_result import TaskResult
from conductor.client.http.models.task_result_status import TaskResultStatus
from conductor.client.worker.worker_config import OPTIONS, WorkerOptions, process_worker_id


class WorkerInterface(WorkerOptions, abc.ABC):
    """A worker that is written as a class.

    Options are attributes of the object or of its class, such as `thread_count`, `domain` or `paused`. The environment
    overrides them. An option that is not set has its default.

    Args:
        task_definition_name: The task type. For a list of task types, a handler runs one worker for each.

    Example:
        class Resize(WorkerInterface):
            def execute(self, task: Task) -> dict:      # or `async def`
                return {"width": task.input_data["width"] // 2}

        TaskHandler(workers=[Resize("resize_image")])
    """

    def __init__(self, task_definition_name: str | Sequence[str]) -> None:
        names: list[Any] = [task_definition_name]
        if isinstance(task_definition_name, list | tuple) and task_definition_name:
            names = list(task_definition_name)
        for name in names:
            check_task_name(name)
        self.task_definition_name: str = names[0]
        self._further_names = tuple(names[1:])

    @abc.abstractmethod
    def execute(self, task: Task) -> Any:
        """Run a task. Return a TaskResult, a TaskInProgress, a dict, or any other value that JSON can represent."""

    @property
    def poll_interval(self) -> float:
        """The older name of `poll_interval_millis`."""
        return self.poll_interval_millis

    @poll_interval.setter
    def poll_interval(self, millis: float) -> None:
        # The value is checked with the other options when the worker starts.
        vars(self)["poll_interval_millis"] = millis

    @property
    def task_definition_names(self) -> list[str]:
        """The task types that this worker serves."""
        return [self.get_task_definition_name(), *getattr(self, "_further_names", ())]

    def split_by_name(self) -> list[WorkerInterface]:
        """Return a worker for each task type. Used by the handlers."""
        names = self.task_definition_names
        return [self] if len(names) == 1 else [self._copy_for(name) for name in names]

    def _copy_for(self, name: str) -> WorkerInterface:
        worker = copy.copy(self)
        worker.task_definition_name, worker._further_names = name, ()
        return worker

    def get_task_definition_name(self) -> str:
        """Return the task type that this worker serves."""
        return self.task_definition_name

    def get_identity(self) -> str:
        """Return the worker id of polls and reports: `worker_id` or a generated one per process."""
        return self.worker_id or process_worker_id()

    def get_domain(self) -> str | None:
        """Return the task domain that this worker polls; None for tasks without a domain."""
        return self.domain

    def get_polling_interval_in_seconds(self) -> float:
        """Return the longest wait between two polls of an idle worker."""
        millis: float = self.poll_interval or OPTIONS["poll_interval_millis"].default
        return millis / 1000

    def get_task_result_from_task(self, task: Task) -> TaskResult:
        """Return a COMPLETED result with the ids of the task."""
        return TaskResult(
            task_id=task.task_id,
            workflow_instance_id=task.workflow_instance_id,
            worker_id=self.get_identity(),
            status=TaskResultStatus.COMPLETED,
        )


def check_task_name(name: object, owner: str = "a worker") -> None:
    """Check the name of a task type.

    Raises:
        TypeError: The name is not a text, or is empty.
        ValueError: The name has control characters or is blank.
    """
    if not (name and isinstance(name, str)):
        raise TypeError(f"{owner} needs the name of its task type, got {name!r}")
    if not name.isprintable() or not name.strip():
        raise ValueError(
            f"{owner} needs a task type name that is not blank and has no control characters, got {name!r}"
        )


#: The attribute in which a decorated function stores the original function.
PLAIN_FUNCTION = "__conductor_function__"


def undecorate(function: Any) -> Any:
    """Return the original function of a decorated one, or the argument itself."""
    return getattr(function, PLAIN_FUNCTION, function)
