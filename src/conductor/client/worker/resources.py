"""Creates the values of dependencies and lifespans, per process or per task, and cleans them up."""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any, Self, TypeVar

from conductor.client.background_event_loop import BackgroundEventLoop
from conductor.client.worker.dependencies import Depends, Need, get_name, resolve_needs
from conductor.client.worker.parameters import UserFunction, is_coroutine_function, unwrap
from conductor.client.worker.signature import read_signature

T = TypeVar("T")
#: Awaits an object and returns its result.
_Wait = Callable[[Awaitable[object]], Awaitable[object]]

logger = logging.getLogger(__name__)


class StartError(RuntimeError):
    """A dependency or lifespan could not be set up, so the workers cannot start."""


class _Values:
    """Values of dependencies with the same lifetime. Leaving the context cleans them up in reverse order."""

    def __init__(self, known: Mapping[Depends, object], wait: _Wait) -> None:
        self._known = dict(known)
        self._wait = wait
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *failure: Any) -> bool | None:
        return await self._stack.__aexit__(*failure)

    async def make(self, need: Need) -> object:
        """Return the value of a dependency. Create it on first use."""
        if need.depends not in self._known:
            self._known[need.depends] = await self._create(need)
        return self._known[need.depends]

    async def _create(self, need: Need) -> object:
        created = need.provider(**{name: await self.make(inner) for name, inner in need.needs.items()})
        function = unwrap(need.provider)
        if inspect.isgeneratorfunction(function):
            return self._enter(created if hasattr(created, "__enter__") else contextmanager(lambda: created)())
        if inspect.isasyncgenfunction(function):
            is_context = hasattr(created, "__aenter__")
            return await self._enter_async(created if is_context else asynccontextmanager(lambda: created)())
        return await self._wait(created) if inspect.isawaitable(created) else created

    def _enter(self, context: Any) -> object:
        value = context.__enter__()

        async def leave(*failure: object) -> None:  # returns None, because a true value would suppress the error
            context.__exit__(*failure)

        self._stack.push_async_exit(leave)
        return value

    async def _enter_async(self, context: Any) -> object:
        value = await self._wait(context.__aenter__())

        async def leave(*failure: object) -> None:
            await self._wait(context.__aexit__(*failure))

        self._stack.push_async_exit(leave)
        return value


class Resources:
    """The lifespans of a process and the dependencies of its functions, as an async context manager.

    Entering creates the values of the process in order. Leaving cleans them up in reverse order; errors are logged.

    Raises:
        DependencyError: A dependency cannot be resolved.
        StartError: A value cannot be created.
    """

    def __init__(self, lifespans: Iterable[UserFunction] = (), functions: Iterable[UserFunction] = ()) -> None:
        # Dependencies are resolved here, so that a cycle raises before any provider is called.
        self._needs = list(resolve_needs({get_name(lifespan): Depends(lifespan) for lifespan in lifespans}).values())
        for function in functions:
            for need in resolve_needs(read_signature(function).injected).values():
                self._needs += _list_process_needs(need)
        self._values: dict[Depends, object] = {}
        self._leave: list[tuple[str, _Values]] = []
        self._loop: asyncio.AbstractEventLoop | None = None

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        for need in self._needs:
            await self._set_up(need)
        return self

    async def _set_up(self, need: Need) -> None:
        for inner in need.needs.values():
            await self._set_up(inner)
        if need.depends in self._values:
            return
        # Each value has its own `_Values`, so that an error in its cleanup does not affect other values.
        values = _Values(self._values, _await)
        try:
            self._values[need.depends] = await values.make(need)
        except Exception as error:
            await self._tear_down()
            reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            module = getattr(need.depends.provider, "__module__", "?")
            raise StartError(f"{need.depends.name} of module {module} could not be set up: {reason}") from error
        except BaseException:
            await self._tear_down()
            raise
        self._leave.append((need.depends.name, values))

    async def __aexit__(self, *_: object) -> None:
        await self._tear_down()

    async def _tear_down(self) -> None:
        while self._leave:
            name, values = self._leave.pop()
            try:
                await values.__aexit__(None, None, None)
            except Exception:
                logger.error("Resource could not be cleaned up: %s", name, exc_info=True)
        self._values.clear()

    def inject(self, function: UserFunction) -> UserFunction:
        """Return the function with its dependencies passed. A function without dependencies is returned as it is."""
        needs = resolve_needs(read_signature(function).injected)
        of_process = {
            name: self._values[need.depends] for name, need in needs.items() if need.depends.scope == "process"
        }
        of_task = {name: need for name, need in needs.items() if name not in of_process}
        filled = functools.partial(function, **of_process) if of_process else function
        if not of_task:
            return filled
        if is_coroutine_function(function):
            return functools.partial(self._call_on_loop, filled, of_task)
        return functools.partial(self._call_in_thread, filled, of_task)

    async def _call_on_loop(
        self, function: UserFunction, needs: Mapping[str, Need], /, *args: object, **kwargs: object
    ) -> object:
        return await self._call(function, needs, _await, args, kwargs)

    def _call_in_thread(
        self, function: UserFunction, needs: Mapping[str, Need], /, *args: object, **kwargs: object
    ) -> object:
        return _run_without_loop(self._call(function, needs, self._await_on_loop, args, kwargs))

    async def _call(
        self,
        function: UserFunction,
        needs: Mapping[str, Need],
        wait: _Wait,
        args: tuple[object, ...],
        kwargs: dict[str, object],
    ) -> object:
        async with _Values(self._values, wait) as values:
            for name, need in needs.items():
                kwargs[name] = await values.make(need)
            value = function(*args, **kwargs)
            return await wait(value) if inspect.isawaitable(value) else value

    async def _await_on_loop(self, work: Awaitable[object]) -> object:
        """Await an object on the event loop, and return its result.

        This thread blocks, so the calling coroutine never suspends.
        """
        assert self._loop is not None  # noqa: S101
        return asyncio.run_coroutine_threadsafe(_await(work), self._loop).result()


def inject_per_call(function: UserFunction) -> UserFunction:
    """Return the function for calls outside a handler. Each call creates its dependencies and cleans them up."""
    resolve_needs(read_signature(function).injected)  # raises DependencyError now and not in a later call
    is_coroutine = is_coroutine_function(function)

    async def work(args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        async with Resources(functions=[function]) as resources:
            call = resources.inject(function)
            return await (call(*args, **kwargs) if is_coroutine else asyncio.to_thread(call, *args, **kwargs))

    def call(*args: object, **kwargs: object) -> object:
        return work(args, kwargs) if is_coroutine else BackgroundEventLoop().run_coroutine(work(args, kwargs))

    return call


def _list_process_needs(need: Need) -> list[Need]:
    """Return the dependencies of scope `process`, which are created before the first task."""
    if need.depends.scope == "process":
        return [need]
    return [found for inner in need.needs.values() for found in _list_process_needs(inner)]


async def _await(work: Awaitable[object]) -> object:
    return await work


def _run_without_loop(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never suspends, and return its result. No event loop is needed."""
    try:
        work.send(None)
    except StopIteration as end:
        value: T = end.value
        return value
    raise RuntimeError("a coroutine was suspended in a thread without an event loop")
