"""A REST endpoint: converts the arguments of a call into a request, and the answer into a value.

`operation` turns endpoints into the methods of the clients, `api.generated_api` into the classes that conductor-python
generates.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote

from conductor.client.http.async_api_client import JSON, AsyncApiClient
from conductor.client.http.errors import ApiException, NotFoundException
from conductor.client.http.models.model import encode
from conductor.protocol.json_types import JsonObject

#: The time limit of a call with `wait_for_seconds` is that time plus this many seconds.
WAIT_GRACE_S = 10.0
#: This text in the message of a 404 means that the server has no such route. If only the requested object is missing, a
#: Conductor server sends another message.
_NO_ROUTE = "No static resource"


class Endpoint:
    """An endpoint of a server, which converts the arguments of a call into a request.

    An argument is the body, fills a placeholder of the path, or becomes a query parameter. Its name on the wire is its
    own name in camelCase, so `workflow_id` fills `{workflowId}`. None and empty texts are left out of the query. Two
    arguments are special: `timeout_s` is the time limit of the call and is not sent; `wait_for_seconds` is sent and
    extends the time limit.

    Args:
        method: GET, POST, PUT or DELETE.
        template: The path below `/api`, with placeholders for its values.
        body: The argument that is the body. None becomes an empty JSON object.
        as_text: The body is a text and not JSON.
        content_type: The content type of the body.
        resend: False for a request that must not reach the server twice.
        only_on: The servers that have this endpoint, for the error message of other servers.
        wire_names: The names on the wire of arguments for which the rule above does not hold.
    """

    def __init__(
        self,
        method: str,
        template: str,
        *,
        body: str = "body",
        as_text: bool = False,
        content_type: str = JSON,
        resend: bool = True,
        only_on: str | None = None,
        wire_names: dict[str, str] | None = None,
    ) -> None:
        self.method = method
        self.template = template
        self._body = body
        self._as_text = as_text
        self._content_type = content_type
        self._resend = resend
        self._only_on = only_on
        self._wire_names = wire_names or {}
        self._in_path = frozenset(re.findall(r"{(\w+)}", template))

    async def send(
        self, client: AsyncApiClient, arguments: JsonObject, returns: Any, only_on: str | None = None
    ) -> Any:
        """Make the call and return the answer.

        Args:
            client: The connections to use.
            arguments: The arguments by name.
            returns: The type of the answer. None ignores the answer.
            only_on: The servers that have this endpoint, unless the endpoint has its own `only_on`.

        Raises:
            NotFoundException: The server has no such object, or no such endpoint.
            ApiException: The server answered with another error.
            TransportError: No answer came.
        """
        path, body, query = self.template, None, {}
        timeout_s = None
        for argument, value in arguments.items():
            name = self._wire_name(argument)
            if argument == self._body:
                body = str(value).encode() if self._as_text else encode({} if value is None else value, argument)
            elif argument == "timeout_s":
                timeout_s = value
            elif name in self._in_path:
                path = path.replace(f"{{{name}}}", quote_segment(value))
            elif value is not None and value != "":  # a server would take an empty `domain` for the name of a domain
                query[name] = value
                if argument == "wait_for_seconds":
                    timeout_s = value + WAIT_GRACE_S
        returns_nothing = returns in (None, type(None))
        try:
            answer = await client.call_for(
                str if returns_nothing else returns,
                self.method,
                path,
                query=query,
                body=body,
                content_type=self._content_type,
                template=self.template,
                timeout_s=timeout_s,
                resend=self._resend,
            )
        except ApiException as error:
            has_no_route = error.status == 405 or (error.status == 404 and _NO_ROUTE in (error.reason or ""))
            server = self._only_on or only_on
            if server is None or not has_no_route:
                raise
            reason = f"this server has no {self.method} {self.template}, which {server} has"
            raise NotFoundException(404, reason, error.body, error.headers, error.request) from error
        return None if returns_nothing else answer

    def _wire_name(self, argument: str) -> str:
        if argument in self._wire_names:
            return self._wire_names[argument]
        return argument if argument in self._in_path else _camel_case(argument)


def quote_segment(value: object) -> str:
    """Return a value quoted as one segment of a path."""
    return quote(str(value), safe="")


def _camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
