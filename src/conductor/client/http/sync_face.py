"""Plain calls on an async client: every operation is written once, and this gives it a second, blocking face."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar, cast, overload

from conductor.client.background_event_loop import BackgroundEventLoop
from conductor.client.http.api.async_resource_api import AsyncResourceApi

A = TypeVar("A", bound=AsyncResourceApi)
S = TypeVar("S")
P = ParamSpec("P")
T_co = TypeVar("T_co", covariant=True)


class BlockingMethod(Protocol[P, T_co]):
    """What `blocking` makes, as type checkers see it: the parameters and the result of the async method."""

    @overload
    def __get__(self, instance: None, owner: type) -> BlockingMethod[P, T_co]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> Callable[P, T_co]: ...


def blocking(method: Callable[Concatenate[S, P], Coroutine[Any, Any, T_co]]) -> BlockingMethod[P, T_co]:
    """The same method for a `SyncClient`: it runs on the background event loop, and the caller waits."""

    @functools.wraps(method)
    def call(self: SyncClient[Any], *args: P.args, **kwargs: P.kwargs) -> T_co:
        coroutine = getattr(self.asynchronous, method.__name__)(*args, **kwargs)
        return cast("T_co", BackgroundEventLoop().run_coroutine(coroutine))

    return cast("BlockingMethod[P, T_co]", call)


class SyncClient(Generic[A]):
    """A blocking face of an async client, which is its `asynchronous`. For any thread, but not for an event loop's."""

    def __init__(self, asynchronous: A) -> None:
        self.asynchronous: A = asynchronous

    close = blocking(AsyncResourceApi.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
