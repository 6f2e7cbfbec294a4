"""Dependencies: parameters `Annotated[Db, Depends(get_db)]` that a provider fills instead of the task input."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from conductor.client.worker.conversion.type_hints import Unresolved, resolve_hints
from conductor.client.worker.parameters import UserFunction, list_open_parameters, unwrap_function

Scope = Literal["process", "task"]
_SCOPES = typing.get_args(Scope)
_HOW = "write Annotated[TheType, Depends(provider)]"
#: The replacement of each provider, for tests.
_overrides: dict[Any, UserFunction] = {}


class DependencyError(ValueError):
    """A dependency cannot be resolved: a cycle, an unknown scope, or a parameter of a provider without a value."""


@dataclass(frozen=True)
class Depends:
    """Names the provider of a parameter inside `Annotated`. Such a parameter is not an input of the task.

    Args:
        provider: A function, sync or async, that returns the value, or yields it once and cleans up afterwards. Its
            own parameters may be dependencies too.
        scope: With `process`, the value is created once per worker process before its first poll. With `task`, it is
            created for each task and cleaned up when the function has returned.

    Example:
        async def get_db() -> AsyncIterator[Db]:
            async with connect() as db:
                yield db

        @worker_task("order")
        async def order(number: int, db: Annotated[Db, Depends(get_db)]) -> dict: ...
    """

    provider: UserFunction
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
                f"Depends({self.name}): {self.provider!r} is not hashable: name a function or a hashable object"
            ) from None

    @property
    def name(self) -> str:
        """The name of the provider."""
        return get_name(self.provider)


class Need:
    """A provider that has to be called, and its own dependencies."""

    def __init__(self, depends: Depends, provider: UserFunction, needs: Mapping[str, Need]) -> None:
        #: The dependency in the annotation. `provider` is the provider that it names, or a test's replacement.
        self.depends = depends
        self.provider = provider
        self.needs = needs


@contextmanager
def override_dependency(provider: UserFunction, replacement: UserFunction) -> Iterator[None]:
    """Call `replacement` instead of `provider` inside the block. For tests.

    The replacement applies to handlers and runners of this process that start inside the block, and to
    `Worker.execute`. It does not apply to the processes of a TaskHandler.

    Example:
        with override_dependency(get_db, lambda: FakeDb()):
            result = worker.execute(task)
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
    """Return the name of a provider or a lifespan."""
    return getattr(provider, "__qualname__", None) or repr(provider)


def find_dependencies(
    parameters: Sequence[inspect.Parameter], hints: Mapping[str, Any], owner: str
) -> dict[str, Depends]:
    """Return the dependencies among the parameters by name.

    Raises:
        DependencyError: A dependency is not written as `Annotated[TheType, Depends(provider)]`.
    """
    found: dict[str, Depends] = {}
    for parameter in parameters:
        where = f"parameter '{parameter.name}' of {owner}"
        if isinstance(parameter.default, Depends):
            raise DependencyError(f"{where} has Depends(...) as its default: {_HOW}")
        depends = _find_depends(hints.get(parameter.name), where)
        if depends is None:
            continue
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise DependencyError(f"{where} cannot be passed by name and so cannot be provided: remove its / or *")
        found[parameter.name] = depends
    return found


def _find_depends(hint: Any, where: str) -> Depends | None:
    if isinstance(hint, Unresolved) and "Depends(" in hint.text:
        raise DependencyError(f"the annotation {hint.text} of {where} cannot be resolved: a name in it is not defined")
    if typing.get_origin(hint) is not typing.Annotated:
        return None
    metadata = typing.get_args(hint)[1:]
    if Depends in metadata:
        raise DependencyError(f"{where} has Depends without a provider: {_HOW}")
    found = [item for item in metadata if isinstance(item, Depends)]
    if len(found) > 1:
        raise DependencyError(f"{where} has {len(found)} providers: {' and '.join(item.name for item in found)}")
    return found[0] if found else None


def resolve_needs(injected: Mapping[str, Depends]) -> dict[str, Need]:
    """Return the providers that have to be called for these dependencies.

    Raises:
        DependencyError: A dependency cannot be resolved.
    """
    return {name: _resolve_need(depends, ()) for name, depends in injected.items()}


def _resolve_need(depends: Depends, above: tuple[Depends, ...]) -> Need:
    path = [*above, depends]
    if depends.provider in [one.provider for one in above]:
        raise DependencyError(f"these providers depend on each other: {' → '.join(one.name for one in path)}")
    if above and (above[-1].scope, depends.scope) == ("process", "task"):
        raise DependencyError(
            f"{above[-1].name} is created once per process and cannot use {depends.name}, which is created for each "
            "task: give both the same scope"
        )
    provider = _overrides.get(depends.provider, depends.provider)
    needs = {name: _resolve_need(inner, tuple(path)) for name, inner in _find_provider_dependencies(provider).items()}
    return Need(depends, provider, needs)


def _find_provider_dependencies(provider: UserFunction) -> dict[str, Depends]:
    owner = get_name(provider)
    try:
        parameters = list_open_parameters(provider)
    except ValueError:  # classes that are implemented in C may have no signature
        return {}
    annotated = provider.__init__ if isinstance(provider, type) else unwrap_function(provider)  # type: ignore[misc]
    injected = find_dependencies(parameters, resolve_hints(annotated), owner)
    for parameter in parameters:
        optional = parameter.default is not parameter.empty or parameter.kind in (
            parameter.VAR_POSITIONAL,
            parameter.VAR_KEYWORD,
        )
        if not optional and parameter.name not in injected:
            raise DependencyError(f"parameter '{parameter.name}' of {owner} has no value: {_HOW}, or give it a default")
    return injected
