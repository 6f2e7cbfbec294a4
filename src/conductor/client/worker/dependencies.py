"""What a function is given besides a task's input: `Annotated[Db, Depends(get_db)]`, and what that needs in turn."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from conductor.client.worker.conversion.type_hints import Unresolved, resolve_hints
from conductor.client.worker.parameters import list_open_parameters, unwrap_function

Scope = Literal["process", "task"]
_SCOPES = typing.get_args(Scope)
_HOW = "write Annotated[TheType, Depends(provider)]"
#: Provider → what stands in for it, while somebody tests.
_overrides: dict[Any, Callable[..., Any]] = {}


class DependencyError(ValueError):
    """What a function asks for cannot be given to it: a circle, an unknown scope, a parameter that nobody fills."""


@dataclass(frozen=True)
class Depends:
    """Says who provides a parameter, inside of `Annotated`. Such a parameter is no input of the task.

        async def get_db() -> AsyncIterator[Db]:
            async with connect() as db:
                yield db

        @worker_task("order")
        async def order(number: int, db: Annotated[Db, Depends(get_db)]) -> dict: ...

    Args:
        provider: A function, sync or async, that returns the value; or yields it once, and cleans up after that. Its
            own parameters may be provided in the same way.
        scope: `process`: made once per worker process, before its first poll. `task`: made for each task, and cleaned
            up when the function has returned.
    """

    provider: Callable[..., Any]
    scope: Scope = "process"

    def __post_init__(self) -> None:
        if not callable(self.provider):
            raise DependencyError(f"Depends({self.provider!r}) needs a function that provides the value")
        if self.scope not in _SCOPES:
            known = " or ".join(map(repr, _SCOPES))
            raise DependencyError(f"Depends({self.name}, scope={self.scope!r}): the scope is {known}")
        try:
            hash(self.provider)
        except TypeError:
            raise DependencyError(
                f"Depends({self.name}): {self.provider!r} has no hash, so nobody can tell whether it has been called"
            ) from None

    @property
    def name(self) -> str:
        """The provider, as people know it."""
        return get_name(self.provider)


class Need:
    """One provider to be called, and what it needs itself."""

    def __init__(self, asked: Depends, provider: Callable[..., Any], needs: Mapping[str, Need]) -> None:
        #: What the value is known by: the provider that was asked for, even if another stands in for it.
        self.asked = asked
        self.provider = provider
        self.needs = needs


@contextmanager
def override_dependency(provider: Callable[..., Any], replacement: Callable[..., Any]) -> Iterator[None]:
    """Inside of the block `replacement` is called in place of `provider`, by whatever is started there. For tests.

        with override_dependency(get_db, lambda: FakeDb()):
            result = worker.execute(task)

    It holds for handlers and runners of this process that start inside of the block, and for `Worker.execute`. It does
    not travel to the processes of a TaskHandler.
    """
    before = _overrides.get(provider)
    _overrides[provider] = replacement
    try:
        yield
    finally:
        if before is None:
            del _overrides[provider]
        else:
            _overrides[provider] = before


def get_name(provider: Any) -> str:
    """A provider or a lifespan, as people know it."""
    return getattr(provider, "__qualname__", None) or repr(provider)


def find_dependencies(
    parameters: Sequence[inspect.Parameter], hints: Mapping[str, Any], owner: str
) -> dict[str, Depends]:
    """The parameters that somebody provides, by name. Raises DependencyError for those that are written wrongly."""
    found: dict[str, Depends] = {}
    for parameter in parameters:
        where = f"parameter '{parameter.name}' of {owner}"
        if isinstance(parameter.default, Depends):
            raise DependencyError(f"{where} has Depends(...) as its default: {_HOW}")
        depends = _depends_in(hints.get(parameter.name), where)
        if depends is None:
            continue
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise DependencyError(f"{where} cannot be given by name, and so not be provided: take away its / or *")
        found[parameter.name] = depends
    return found


def _depends_in(hint: Any, where: str) -> Depends | None:
    if isinstance(hint, Unresolved) and "Depends(" in hint.text:
        raise DependencyError(f"the annotation {hint.text} of {where} cannot be resolved: a name in it is not there")
    if typing.get_origin(hint) is not typing.Annotated:
        return None
    metadata = typing.get_args(hint)[1:]
    if Depends in metadata:
        raise DependencyError(f"{where} says Depends and not whose: {_HOW}")
    found = [item for item in metadata if isinstance(item, Depends)]
    if len(found) > 1:
        raise DependencyError(f"{where} has {len(found)} providers: {' and '.join(item.name for item in found)}")
    return found[0] if found else None


def resolve_needs(injected: Mapping[str, Depends]) -> dict[str, Need]:
    """What must be made for these parameters. Raises DependencyError where that cannot be."""
    return {name: _need(depends, ()) for name, depends in injected.items()}


def _need(asked: Depends, above: tuple[Depends, ...]) -> Need:
    path = [*above, asked]
    if asked.provider in [one.provider for one in above]:
        raise DependencyError(f"these depend on each other: {' → '.join(one.name for one in path)}")
    if above and (above[-1].scope, asked.scope) == ("process", "task"):
        raise DependencyError(
            f"{above[-1].name} is made once per process and cannot use {asked.name}, which is made for each task: "
            "give both the same scope"
        )
    provider = _overrides.get(asked.provider, asked.provider)
    needs = {name: _need(inner, tuple(path)) for name, inner in _injected_into(provider).items()}
    return Need(asked, provider, needs)


def _injected_into(provider: Callable[..., Any]) -> dict[str, Depends]:
    owner = get_name(provider)
    try:
        parameters = list_open_parameters(provider)
    except ValueError:  # a class of C code that does not tell
        return {}
    annotated = provider.__init__ if isinstance(provider, type) else unwrap_function(provider)  # type: ignore[misc]
    injected = find_dependencies(parameters, resolve_hints(annotated), owner)
    for parameter in parameters:
        optional = parameter.default is not parameter.empty or parameter.kind in (
            parameter.VAR_POSITIONAL,
            parameter.VAR_KEYWORD,
        )
        if not optional and parameter.name not in injected:
            raise DependencyError(f"nobody gives {owner} its parameter '{parameter.name}': {_HOW}, or a default")
    return injected
