"""Parts of the API that not every server has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from conductor.client.http.api.async_resource_api import AsyncResourceApi
from conductor.client.http.async_api_client import JSON, QueryValue, encode
from conductor.client.http.endpoint import quote_segment
from conductor.client.http.errors import ApiException, NotFoundException

T = TypeVar("T")

#: What Conductor says when there is no such endpoint at all, other than when there is no such thing.
_NO_ENDPOINT = "No static resource"


class OptionalResourceApi(AsyncResourceApi):
    """Endpoints that some servers have and others have not: then the error says so."""

    #: Who has them, for the message.
    had_by = "Orkes Conductor"

    async def _call(
        self,
        type_: type[T],
        method: str,
        template: str,
        *values: object,
        query: Mapping[str, QueryValue] | None = None,
        body: object = None,
        text: str | None = None,
        timeout_s: float | None = None,
        resend: bool = True,
    ) -> T:
        """One call: the values fill the braces of the template, in order; `body` is sent as JSON, `text` as it is."""
        path = template
        for value in values:
            before, _, rest = path.partition("{")
            path = before + quote_segment(value) + rest.partition("}")[2]
        sent = text.encode() if text is not None else None if body is None else encode(body)
        try:
            return await self.api_client.call_for(
                type_,
                method,
                path,
                query=query,
                body=sent,
                content_type=JSON,
                template=template,
                timeout_s=timeout_s,
                resend=resend,
            )
        except ApiException as error:
            # A route that is there for another verb, or for something of another name, is no route either.
            if error.status != 405 and not (error.status == 404 and _NO_ENDPOINT in (error.reason or "")):
                raise
            said = f"this server has no {method} {template}, which {self.had_by} has"
            raise NotFoundException(404, said, error.body, error.headers, error.request) from error


def untyped(value: Any) -> Any:
    """A dict or model as JSON has it; None as an empty object, which these endpoints want for a body."""
    return {} if value is None else value
