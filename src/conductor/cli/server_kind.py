"""Identifies the kind of server at a URL."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

from conductor.client.configuration.configuration import Configuration
from conductor.client.http.async_rest import ConductorError
from conductor.client.http.errors import AuthorizationException, NotFoundException
from conductor.protocol.wire import FEATURE_LEASES, FEATURES_HEADER, PROBE_TASK_TYPE

if TYPE_CHECKING:
    from conductor.client.http.async_api_client import AsyncApiClient

#: An unused task type. Polling it tests the connection as a worker would, and takes no task.
PROBE = PROBE_TASK_TYPE
COORDINATOR = "a coordinator"


class ServerKind(NamedTuple):
    """The kind and the version of a server."""

    kind: str
    version: str

    def __str__(self) -> str:
        return f"{self.kind}, version {self.version}"

    @property
    def is_coordinator(self) -> bool:
        """Whether the server grants leases, which only a coordinator does."""
        return self.kind == COORDINATOR


@asynccontextmanager
async def open_client(configuration: Configuration) -> AsyncIterator[AsyncApiClient]:
    """Provide an API client and close its connections after the block."""
    from conductor.client.http.async_api_client import AsyncApiClient

    api = AsyncApiClient(configuration)
    try:
        yield api
    finally:
        await api.close()


async def identify_server(configuration: Configuration) -> ServerKind:
    """Return the kind and version of a server. The answer to a poll of an unused task type shows the kind.

    Raises:
        ConductorError: The server cannot be reached, or rejects the key.
    """
    from conductor.client.http.api.async_task_resource_api import AsyncTaskResourceApi
    from conductor.client.http.async_api_client import AsyncApiClient

    async with AsyncTaskResourceApi(AsyncApiClient(configuration)) as api:
        try:
            polled = await api.poll_for_worker(PROBE, worker_id=PROBE, domain=None, count=1, timeout_ms=0)
            features: Collection[str] = polled.features
        except AuthorizationException as error:
            # A coordinator rejects this poll if the key may poll only other task types, or none.
            answer = await api.api_client.call("GET", "/version")
            features = answer.headers.get(FEATURES_HEADER.lower(), "").split(", ")
            if error.status != 403 or FEATURE_LEASES not in features:
                raise
        kind = COORDINATOR if FEATURE_LEASES in features else "a Conductor server"
        try:
            version = await api.api_client.call_for(str, "GET", "/version")
        except ConductorError:
            version = "unknown"
    return ServerKind(kind, version)


def is_unknown_route(error: BaseException) -> bool:
    """Return whether the server has no such route. The usual cause is a wrong path in the URL of the server."""
    return isinstance(error, NotFoundException) and (error.reason or "").startswith("No static resource ")


def describe_error(error: BaseException) -> str:
    """Return the error message without the request line, which means nothing to a user of the command line."""
    message = re.sub(r"^[A-Z]+ \S+(:| answered) ", "", str(error)).rstrip(".") or type(error).__name__
    return "; ".join([message, *getattr(error, "__notes__", [])])
