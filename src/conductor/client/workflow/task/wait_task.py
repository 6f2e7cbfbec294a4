"""Steps that wait for a time or for a signal."""

from __future__ import annotations

from conductor.client.workflow.task.task import TaskInterface
from conductor.client.workflow.task.task_type import TaskType


class WaitTask(TaskInterface):
    """Waits until it is completed through the API, or for a number of seconds.

    `wait_until` sets the input of that name, as in conductor-python. Servers ignore it; use `WaitUntilTask`.
    """

    def __init__(self, task_ref_name: str, wait_until: str | None = None, wait_for_seconds: int | None = None) -> None:
        if wait_until is not None and wait_for_seconds is not None:
            raise ValueError(f"{task_ref_name!r} waits either until a time or for a duration, not for both")
        super().__init__(task_ref_name, TaskType.WAIT)
        if wait_until is not None:
            self.input_parameter("wait_until", wait_until)
        if wait_for_seconds is not None:
            self.input_parameter("duration", f"{wait_for_seconds}s")


class WaitForDurationTask(WaitTask):
    """Waits for a number of seconds."""

    def __init__(self, task_ref_name: str, duration_time_seconds: int) -> None:
        super().__init__(task_ref_name, wait_for_seconds=duration_time_seconds)


class WaitUntilTask(WaitTask):
    """Waits until a date and time, such as `2027-01-31 09:00`."""

    def __init__(self, task_ref_name: str, date_time: str) -> None:
        super().__init__(task_ref_name)
        self.input_parameter("until", date_time)
