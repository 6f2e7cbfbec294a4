"""The base of class-based workers: subclass it, write `execute(task)`, pass an instance as `workers=[...]`."""

from __future__ import annotations

import abc
from typing import Any

from conductor.client.http.models.task import Task
from conductor.client.http.models.task_result import TaskResult
from conductor.client.http.models.task_result_status import TaskResultStatus
from conductor.client.worker.worker_config import OPTIONS, process_worker_id


class WorkerInterface(abc.ABC):
    """A worker written as a class.

        class Resize(WorkerInterface):
            def execute(self, task: Task) -> dict:      # or `async def`
                return {"width": task.input_data["width"] // 2}

        TaskHandler(workers=[Resize("resize_image")])

    Options are attributes (`thread_count`, `domain`, `poll_interval_millis`, …); the environment wins over them.
    """

    def __init__(self, task_definition_name: str) -> None:
        if not (task_definition_name and isinstance(task_definition_name, str)):
            raise TypeError(f"a worker needs the name of its task type, got {task_definition_name!r}")
        self.task_definition_name = task_definition_name

    @abc.abstractmethod
    def execute(self, task: Task) -> Any:
        """Do the work. Return a TaskResult, a TaskInProgress, a dict, or anything else that JSON can carry."""

    def get_task_definition_name(self) -> str:
        """The task type that this worker serves."""
        return self.task_definition_name

    def get_identity(self) -> str:
        """The worker id sent with polls and results; made up once per process unless `worker_id` is set."""
        chosen: str | None = getattr(self, "worker_id", None)
        return chosen or process_worker_id()

    def get_domain(self) -> str | None:
        """The domain whose tasks this worker takes; None for the tasks of no domain."""
        return getattr(self, "domain", None)

    def get_polling_interval_in_seconds(self) -> float:
        """The longest pause between two polls of an idle worker."""
        millis: float = getattr(self, "poll_interval_millis", None) or OPTIONS["poll_interval_millis"].default
        return millis / 1000

    def get_task_result_from_task(self, task: Task) -> TaskResult:
        """A result with the task's identity filled in, COMPLETED unless changed."""
        return TaskResult(
            task_id=task.task_id,
            workflow_instance_id=task.workflow_instance_id,
            worker_id=self.get_identity(),
            status=TaskResultStatus.COMPLETED,
        )
