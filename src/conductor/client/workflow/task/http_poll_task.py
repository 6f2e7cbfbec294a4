"""A step that repeats an HTTP request until its response meets a condition."""

from __future__ import annotations

from typing import Any

from conductor.client.workflow.reference import omit_none
from conductor.client.workflow.task.http_task import HttpInput, HttpMethod
from conductor.client.workflow.task.task import TaskInterface
from conductor.client.workflow.task.task_type import TaskType


class HttpPollInput(HttpInput):
    """The request of an HTTP poll, its interval and its end condition."""

    def __init__(
        self,
        termination_condition: str | None = None,
        max_poll_count: int = 100,
        polling_interval: int = 100,
        polling_strategy: str = "FIXED",
        method: HttpMethod = HttpMethod.GET,
        uri: str | None = None,
        headers: dict[str, list[str]] | None = None,
        accept: str | None = None,
        content_type: str | None = None,
        connection_time_out: int | None = None,
        read_timeout: int | None = None,
        body: Any = None,
    ) -> None:
        super().__init__(method, uri, headers, accept, content_type, connection_time_out, read_timeout, body)
        self.termination_condition = termination_condition
        self.max_poll_count = max_poll_count
        self.polling_interval = polling_interval
        self.polling_strategy = polling_strategy

    def to_dict(self) -> dict[str, Any]:
        """Return the request as the server expects it."""
        return super().to_dict() | omit_none(
            termination_condition=self.termination_condition,
            polling_interval=self.polling_interval,
            max_poll_count=self.max_poll_count,
            polling_strategy=self.polling_strategy,
        )


class HttpPollTask(TaskInterface):
    """Repeats an HTTP request until its response meets a condition, on servers that support it."""

    def __init__(self, task_ref_name: str, http_input: HttpPollInput) -> None:
        request = {"http_request": http_input.to_dict()}
        super().__init__(task_ref_name, TaskType.HTTP_POLL, input_parameters=request)
