"""What kind of server a URL leads to."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

from conductor.client.configuration.configuration import Configuration
from conductor.client.http.async_rest import ConductorError
from conductor.protocol.wire import FEATURE_LEASES

if TYPE_CHECKING:
    from conductor.client.http.async_api_client import AsyncApiClient

#: A task type that nobody works on: polling for it is what a worker does first, and takes nothing.
PROBE = "conductor_worker_doctor"
COORDINATOR = "a coordinator"


class ServerKind(NamedTuple):
    """What answers polls at a URL."""

    kind: str
    version: str

    def __str__(self) -> str:
        return f"{self.kind}, version {self.version}"

    @property
    def is_coordinator(self) -> bool:
        """Whether it grants leases, as only a coordinator does."""
        return self.kind == COORDINATOR


@asynccontextmanager
async def asking(configuration: Configuration) -> AsyncIterator[AsyncApiClient]:
    """Something to ask a server with, and its connections closed afterwards."""
    from conductor.client.http.async_api_client import AsyncApiClient

    api = AsyncApiClient(configuration)
    try:
        yield api
    finally:
        await api.close()


async def ask_server(configuration: Configuration) -> ServerKind:
    """Poll for nothing, as a worker would. Raises ConductorError when that does not work."""
    from conductor.client.http.api.async_task_resource_api import AsyncTaskResourceApi
    from conductor.client.http.async_api_client import AsyncApiClient

    async with AsyncTaskResourceApi(AsyncApiClient(configuration)) as api:
        polled = await api.poll_for_worker(PROBE, worker_id=PROBE, domain=None, count=1, timeout_ms=0)
        kind = COORDINATOR if FEATURE_LEASES in polled.features else "a plain Conductor server"
        try:
            version = await api.api_client.call_for(str, "GET", "/version")
        except ConductorError:
            version = "unknown"
    return ServerKind(kind, version)


def why(error: BaseException) -> str:
    """The error without the request: what was asked says nothing to somebody who did not ask."""
    said = re.sub(r"^[A-Z]+ \S+(:| answered) ", "", str(error)).rstrip(".") or type(error).__name__
    return "; ".join([said, *getattr(error, "__notes__", [])])
