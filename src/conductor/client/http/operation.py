"""Client methods that are written once, for code with an event loop and for code without one.

A class of operations is a mixin for two clients:

    class SchemaOperations(Operations):
        @endpoint("GET", "/schema/{name}/{version}", schema_name="name")
        async def get_schema(self, schema_name: str, version: int) -> SchemaDef:
            \"\"\"Return one version of a schema.\"\"\"

    class AsyncSchemaClient(SchemaOperations, AsyncClient): ...
    class SchemaClient(SchemaOperations, SyncClient[AsyncSchemaClient]): ...

`await AsyncSchemaClient().get_schema("order", 1)` and `SchemaClient().get_schema("order", 1)` are the same call, and
type checkers know the parameters and the result of both.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine
from types import MethodType
from typing import Any, ClassVar, Concatenate, Generic, ParamSpec, Self, TypeVar, cast, get_type_hints, overload

from conductor.client.background_event_loop import BackgroundEventLoop
from conductor.client.configuration.configuration import Configuration
from conductor.client.http.async_api_client import JSON, AsyncApiClient
from conductor.client.http.endpoint import Endpoint

P = ParamSpec("P")
T = TypeVar("T")

#: An `async def` method. `P` are its parameters without `self`.
CoroutineFunction = Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]


class Operations:
    """Base of the classes that define the operations of two clients: an async one and a blocking one."""

    #: The servers that have the endpoints of this class; None for endpoints of every Conductor server.
    only_on: ClassVar[str | None] = None

    api_client: AsyncApiClient


class AsyncClient(Operations):
    """A client for async code. `async with` closes its connections at the end.

    Args:
        configuration: The server, or an `AsyncApiClient` whose connections are shared. The default is the
            server in the environment variables.
        http_client: Your own `httpx.AsyncClient` for the requests.
    """

    def __init__(
        self, configuration: Configuration | AsyncApiClient | None = None, *, http_client: Any | None = None
    ) -> None:
        self.api_client = make_api_client(configuration, http_client)

    async def close(self) -> None:
        """Close the connections, also for other clients that share them."""
        await self.api_client.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


A = TypeVar("A", bound=AsyncClient)


class SyncClient(Generic[A]):
    """A client for code without an event loop. Any thread may call it; `with` closes its connections at the end.

    Attributes:
        asynchronous: The same client for async code, which makes the calls.

    Args:
        configuration: The server, or an `AsyncApiClient` whose connections are shared. The default is the
            server in the environment variables.
    """

    #: The async client class that `asynchronous` is an instance of. Each subclass sets it.
    async_class: ClassVar[type[AsyncClient]]

    def __init__(self, configuration: Configuration | AsyncApiClient | None = None) -> None:
        self.asynchronous = cast("A", self.async_class(configuration))

    def close(self) -> None:
        """Close the connections, also for other clients that share them."""
        BackgroundEventLoop().run_coroutine(self.asynchronous.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Operation(Generic[P, T]):
    """A method that returns a coroutine on an async client and blocks on a `SyncClient`."""

    def __init__(self, function: CoroutineFunction[P, T]) -> None:
        @functools.wraps(function)
        def block(client: SyncClient[Any], /, *args: P.args, **kwargs: P.kwargs) -> T:
            coroutine: Coroutine[Any, Any, T] = getattr(client.asynchronous, function.__name__)(*args, **kwargs)
            return BackgroundEventLoop().run_coroutine(coroutine)

        self._coroutine_function = function
        self._blocking_function = block

    @overload
    def __get__(self, instance: SyncClient[Any], owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, instance: Operations, owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    @overload
    def __get__(self, instance: None, owner: type) -> Callable[..., Any]: ...
    def __get__(self, instance: object, owner: type) -> Any:
        function = self._blocking_function if issubclass(owner, SyncClient) else self._coroutine_function
        return function if instance is None else MethodType(function, instance)


def operation(function: CoroutineFunction[P, T]) -> Operation[P, T]:
    """Make a coroutine function an operation of both clients. Inside it, `self` is the async client."""
    return Operation(function)


def endpoint(
    method: str,
    template: str,
    *,
    body: str = "body",
    as_text: bool = False,
    content_type: str = JSON,
    resend: bool = True,
    only_on: str | None = None,
    **wire_names: str,
) -> Callable[[CoroutineFunction[P, T]], Operation[P, T]]:
    """Return a decorator that turns a coroutine function without a body into an operation that calls this endpoint.

    The signature of the function defines the request and the type of the answer. For the arguments see `Endpoint`.
    """
    target = Endpoint(
        method,
        template,
        body=body,
        as_text=as_text,
        content_type=content_type,
        resend=resend,
        only_on=only_on,
        wire_names=wire_names,
    )

    def decorate(function: CoroutineFunction[P, T]) -> Operation[P, T]:
        @functools.cache
        def read_signature() -> tuple[inspect.Signature, Any]:
            return inspect.signature(function), get_type_hints(function)["return"]

        @functools.wraps(function)
        async def call(client: Operations, /, *args: P.args, **kwargs: P.kwargs) -> T:
            signature, returns = read_signature()
            bound = signature.bind(client, *args, **kwargs)
            bound.apply_defaults()
            del bound.arguments["self"]
            return cast("T", await target.send(client.api_client, bound.arguments, returns, client.only_on))

        return Operation(call)

    return decorate


def make_api_client(server: Configuration | AsyncApiClient | None, http_client: Any | None = None) -> AsyncApiClient:
    """Return the given client, or a new one for the given Configuration. For None, the environment sets the server."""
    if isinstance(server, AsyncApiClient):
        return server
    return AsyncApiClient(server or Configuration(), http_client=http_client)
