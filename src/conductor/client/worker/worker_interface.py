"""The base of class-based workers: subclass it, write `execute(task)`, pass an instance as `workers=[...]`."""

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
    """A worker written as a class.

        class Resize(WorkerInterface):
            def execute(self, task: Task) -> dict:      # or `async def`
                return {"width": task.input_data["width"] // 2}

        TaskHandler(workers=[Resize("resize_image")])

    Options are attributes of the object or of its class (`thread_count`, `domain`, `poll_interval_millis`, `paused`,
    …); the environment wins over them, and one that is not set reads as its default. With a list of task types a
    handler runs one worker for each of them.
    """

    def __init__(self, task_definition_name: str | Sequence[str]) -> None:
        names = _listed(task_definition_name)
        for name in names:
            check_task_name(name)
        self.task_definition_name: str = names[0]
        self._further_names = tuple(names[1:])

    @abc.abstractmethod
    def execute(self, task: Task) -> Any:
        """Do the work. Return a TaskResult, a TaskInProgress, a dict, or anything else that JSON can carry."""

    @property
    def poll_interval(self) -> float:
        """The older spelling of `poll_interval_millis`."""
        return self.poll_interval_millis

    @poll_interval.setter
    def poll_interval(self, millis: float) -> None:
        # Any number will do here: it is checked with the other options when the worker starts.
        vars(self)["poll_interval_millis"] = millis

    @property
    def task_definition_names(self) -> list[str]:
        """Every task type that this worker serves."""
        return [self.get_task_definition_name(), *getattr(self, "_further_names", ())]

    def split_by_name(self) -> list[WorkerInterface]:
        """This worker once for each of its task types; the handlers call this."""
        names = self.task_definition_names
        return [self] if len(names) == 1 else [self._named(name) for name in names]

    def _named(self, name: str) -> WorkerInterface:
        worker = copy.copy(self)
        worker.task_definition_name, worker._further_names = name, ()
        return worker

    def get_task_definition_name(self) -> str:
        """The task type that this worker serves."""
        return self.task_definition_name

    def get_identity(self) -> str:
        """The worker id sent with polls and results; made up once per process unless `worker_id` is set."""
        return self.worker_id or process_worker_id()

    def get_domain(self) -> str | None:
        """The domain whose tasks this worker takes; None for the tasks of no domain."""
        return self.domain

    def get_polling_interval_in_seconds(self) -> float:
        """The longest pause between two polls of an idle worker."""
        millis: float = self.poll_interval or OPTIONS["poll_interval_millis"].default
        return millis / 1000

    def get_task_result_from_task(self, task: Task) -> TaskResult:
        """A result with the task's identity filled in, COMPLETED unless changed."""
        return TaskResult(
            task_id=task.task_id,
            workflow_instance_id=task.workflow_instance_id,
            worker_id=self.get_identity(),
            status=TaskResultStatus.COMPLETED,
        )


def _listed(names: object) -> list[Any]:
    return list(names) if isinstance(names, list | tuple) and names else [names]


def check_task_name(name: object, who: str = "a worker") -> None:
    """TypeError for what cannot be the name of a task type, ValueError for a text that no server would take as one."""
    if not (name and isinstance(name, str)):
        raise TypeError(f"{who} needs the name of its task type, got {name!r}")
    if not name.isprintable() or not name.strip():
        raise ValueError(f"{who} needs the name of its task type without control characters, got {name!r}")


#: Where a decorated function keeps the function that was decorated.
PLAIN_FUNCTION = "__conductor_function__"


def undecorate(function: Any) -> Any:
    """What the worker runs: of a decorated function, the one that was decorated. Anything else as it is."""
    return getattr(function, PLAIN_FUNCTION, function)
