"""What the functions of a process are given: made once for all of them, or for each task, and cleaned up."""

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
from conductor.client.worker.parameters import is_coroutine_function, unwrap
from conductor.client.worker.signature import read_signature

T = TypeVar("T")
#: Has something awaited, and gives what came of it.
_Wait = Callable[[Awaitable[Any]], Awaitable[Any]]

logger = logging.getLogger(__name__)


class StartError(RuntimeError):
    """Something that the workers need could not be set up, so they cannot start; the text says what, and why."""


class _Values:
    """Values that live equally long, each made once. Leaving it cleans them up, the last one first."""

    def __init__(self, known: Mapping[Any, Any], wait: _Wait) -> None:
        self._known = dict(known)
        self._wait = wait
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *failure: Any) -> bool | None:
        return await self._stack.__aexit__(*failure)

    async def make(self, need: Need) -> Any:
        """The value, made now unless it is there."""
        if need.asked not in self._known:
            self._known[need.asked] = await self._made(need)
        return self._known[need.asked]

    async def _made(self, need: Need) -> Any:
        made = need.provider(**{name: await self.make(inner) for name, inner in need.needs.items()})
        function = unwrap(need.provider)
        if inspect.isgeneratorfunction(function):
            return self._entered(made if hasattr(made, "__enter__") else contextmanager(lambda: made)())
        if inspect.isasyncgenfunction(function):
            return await self._async_entered(
                made if hasattr(made, "__aenter__") else asynccontextmanager(lambda: made)()
            )
        return await self._wait(made) if inspect.isawaitable(made) else made

    def _entered(self, context: Any) -> Any:
        value = context.__enter__()

        async def leave(*failure: Any) -> None:  # nothing returned: a provider cannot turn a failure into a success
            context.__exit__(*failure)

        self._stack.push_async_exit(leave)
        return value

    async def _async_entered(self, context: Any) -> Any:
        value = await self._wait(context.__aenter__())

        async def leave(*failure: Any) -> None:
            await self._wait(context.__aexit__(*failure))

        self._stack.push_async_exit(leave)
        return value


class Resources:
    """The lifespans of a process, and what its functions ask for. Use it as `async with`.

    All that is made once per process is made on entering, in order, and cleaned up on leaving, in reverse. What cannot
    be made is a StartError; what cannot be cleaned up is logged, and the others still are.
    """

    def __init__(
        self, lifespans: Iterable[Callable[..., Any]] = (), functions: Iterable[Callable[..., Any]] = ()
    ) -> None:
        # Read here: what depends on itself is an error before anything is started.
        first = resolve_needs({get_name(lifespan): Depends(lifespan) for lifespan in lifespans})
        asked = [resolve_needs(read_signature(function).injected) for function in functions]
        self._first = [
            *first.values(),
            *(need for needs in asked for each in needs.values() for need in _of_process(each)),
        ]
        self._values: dict[Any, Any] = {}
        self._leave: list[tuple[str, _Values]] = []
        self._loop: asyncio.AbstractEventLoop | None = None

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        for need in self._first:
            await self._set_up(need)
        return self

    async def _set_up(self, need: Need) -> None:
        for inner in need.needs.values():
            await self._set_up(inner)
        if need.asked in self._values:
            return
        # One at a time, so that one that fails at its end does not reach into the others.
        values = _Values(self._values, _on_this_loop)
        try:
            self._values[need.asked] = await values.make(need)
        except Exception as error:
            await self._tear_down()
            reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            module = getattr(need.asked.provider, "__module__", "?")
            raise StartError(f"{need.asked.name} of module {module} could not be set up: {reason}") from error
        except BaseException:
            await self._tear_down()
            raise
        self._leave.append((need.asked.name, values))

    async def __aexit__(self, *_: object) -> None:
        await self._tear_down()

    async def _tear_down(self) -> None:
        while self._leave:
            name, values = self._leave.pop()
            try:
                await values.__aexit__(None, None, None)
            except Exception:
                logger.error("%s could not be cleaned up", name, exc_info=True)
        self._values.clear()

    def inject(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, with the parameters filled in that are no input. One that has none comes back as it is."""
        needs = resolve_needs(read_signature(function).injected)
        once = {name: self._values[need.asked] for name, need in needs.items() if need.asked.scope == "process"}
        each = {name: need for name, need in needs.items() if name not in once}
        filled = functools.partial(function, **once) if once else function
        if not each:
            return filled
        if is_coroutine_function(function):
            return functools.partial(self._call_on_loop, filled, each)
        return functools.partial(self._call_in_thread, filled, each)

    async def _call_on_loop(
        self, function: Callable[..., Any], needs: Mapping[str, Need], /, *args: Any, **kwargs: Any
    ) -> Any:
        return await self._call(function, needs, _on_this_loop, args, kwargs)

    def _call_in_thread(
        self, function: Callable[..., Any], needs: Mapping[str, Need], /, *args: Any, **kwargs: Any
    ) -> Any:
        return _without_loop(self._call(function, needs, self._on_the_loop, args, kwargs))

    async def _call(
        self, function: Callable[..., Any], needs: Mapping[str, Need], wait: _Wait, args: Any, kwargs: dict[str, Any]
    ) -> Any:
        async with _Values(self._values, wait) as values:
            for name, need in needs.items():
                kwargs[name] = await values.make(need)
            value = function(*args, **kwargs)
            return await wait(value) if inspect.isawaitable(value) else value

    async def _on_the_loop(self, work: Awaitable[Any]) -> Any:
        """For threads: the loop awaits it, and the thread waits for that. So a coroutine in a thread never rests."""
        assert self._loop is not None  # noqa: S101
        return asyncio.run_coroutine_threadsafe(_on_this_loop(work), self._loop).result()


def inject_per_call(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function for a call without a handler: what it asks for is made for that call, and cleaned up after it."""
    resolve_needs(read_signature(function).injected)  # what cannot be provided is an error of this line
    is_coroutine = is_coroutine_function(function)

    async def work(args: Any, kwargs: Any) -> Any:
        async with Resources(functions=[function]) as resources:
            call = resources.inject(function)
            return await (call(*args, **kwargs) if is_coroutine else asyncio.to_thread(call, *args, **kwargs))

    def call(*args: Any, **kwargs: Any) -> Any:
        return work(args, kwargs) if is_coroutine else BackgroundEventLoop().run_coroutine(work(args, kwargs))

    return call


def _of_process(need: Need) -> list[Need]:
    """What of it can be made before there is a task."""
    if need.asked.scope == "process":
        return [need]
    return [found for inner in need.needs.values() for found in _of_process(inner)]


async def _on_this_loop(work: Awaitable[Any]) -> Any:
    return await work


def _without_loop(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never rests to its end, here."""
    try:
        work.send(None)
    except StopIteration as end:
        value: T = end.value
        return value
    raise RuntimeError("a coroutine in a thread waits for a loop that is not there")
