"""A step that sends an HTTP request."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from conductor.client.workflow.reference import make_reference, omit_none
from conductor.client.workflow.task.task import TaskInterface
from conductor.client.workflow.task.task_type import TaskType


class HttpMethod(StrEnum):
    """The method of an HTTP request."""

    GET = "GET"
    PUT = "PUT"
    POST = "POST"
    DELETE = "DELETE"
    HEAD = "HEAD"
    OPTIONS = "OPTIONS"


class HttpInput:
    """An HTTP request."""

    def __init__(
        self,
        method: HttpMethod = HttpMethod.GET,
        uri: str | None = None,
        headers: dict[str, list[str]] | None = None,
        accept: str | None = None,
        content_type: str | None = None,
        connection_time_out: int | None = None,
        read_timeout: int | None = None,
        body: Any = None,
    ) -> None:
        self.method = method
        self.uri = uri
        self.headers = headers
        self.accept = accept
        self.content_type = content_type
        self.connection_time_out = connection_time_out
        self.read_timeout = read_timeout
        self.body = body

    def to_dict(self) -> dict[str, Any]:
        """Return the request as the server expects it."""
        return omit_none(
            uri=self.uri,
            method=str(self.method),
            accept=self.accept,
            headers=self.headers,
            content_type=self.content_type,
            connection_time_out=self.connection_time_out,
            read_time_out=self.read_timeout,
            body=self.body,
        )


class HttpTask(TaskInterface):
    """Sends an HTTP request. `http_input` may be a dict. The default method is GET."""

    def __init__(self, task_ref_name: str, http_input: HttpInput | dict[str, Any]) -> None:
        request = {"method": "GET", **http_input} if isinstance(http_input, Mapping) else http_input.to_dict()
        super().__init__(task_ref_name, TaskType.HTTP, input_parameters={"http_request": request})

    def status_code(self) -> Any:
        """Return the expression for the status of the response."""
        return make_reference(self.task_reference_name, "output.response.statusCode")

    def headers(self, json_path: str | None = None) -> Any:
        """Return the expression for the headers of the response or one of them."""
        return make_reference(self.task_reference_name, "output.response.headers", json_path)

    def body(self, json_path: str | None = None) -> Any:
        """Return the expression for the body of the response or a part of it."""
        return make_reference(self.task_reference_name, "output.response.body", json_path)
