"""One option: what it takes, how it is spelled, and how a value for it is read."""

import math
import types
from dataclasses import MISSING, Field, dataclass, field
from typing import Any, Literal, get_args

#: Where an option may be set; `worker` is a Worker object or a class-based worker. `handler` options hold for a whole
#: process and have no worker-specific spelling.
Scope = Literal["decorator", "worker", "env", "cli", "handler"]

_TRUE = ("true", "1", "yes")
_FALSE = ("false", "0", "no")
_KIND_NAMES = {int: "an integer", float: "a number", bool: "a boolean", str: "a text"}


class ConfigurationError(ValueError):
    """A setting has a value that is not allowed. One line: which setting, which value, what is allowed."""


@dataclass(frozen=True, slots=True)
class Option:
    """One row of the table: an option is declared once and everything else is derived from it."""

    name: str
    kind: type
    default: Any
    help: str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    scopes: tuple[Scope, ...] = ("decorator", "worker", "env", "cli")
    #: What the reference shows when the default is computed at run time.
    default_text: str = ""

    @property
    def per_worker(self) -> bool:
        """Whether the option may differ between the workers of one process."""
        return "handler" not in self.scopes

    @property
    def spellings(self) -> tuple[str, ...]:
        """The name and its other spellings, in the order in which they are looked up."""
        return (self.name, *self.aliases)

    @property
    def allowed(self) -> str:
        """What the option takes, for people: `an integer from 1 to 10000`."""
        if self.kind is bool:
            return ", ".join(_TRUE + _FALSE)
        if self.choices:
            return "one of " + ", ".join(self.choices)
        return _KIND_NAMES[self.kind] + self._range()

    def _range(self) -> str:
        if self.minimum is None:
            return ""
        return f" of at least {self.minimum}" if self.maximum is None else f" from {self.minimum} to {self.maximum}"

    def parse(self, text: str, variable: str) -> Any:
        """The value of an environment variable, or a ConfigurationError that names it."""
        text = text.strip()
        if self.kind is bool:
            return self._parse_bool(text, variable)
        try:
            value = self.kind(text)
        except ValueError:
            raise self._refusal(variable, text) from None
        return self._bounded(value, variable, text)

    def check(self, value: Any, where: str) -> Any:
        """A value given in code, or a ConfigurationError that names the worker and the argument."""
        if self.kind is bool and isinstance(value, str):
            return self._parse_bool(value, where)
        if self.kind is int and isinstance(value, float) and value.is_integer():
            value = int(value)
        if self.kind is float and type(value) is int:
            value = float(value)
        if (type(value) is bool and self.kind is not bool) or not isinstance(value, self.kind):
            raise self._refusal(where, value)
        return self._bounded(value, where, value)

    def _parse_bool(self, text: str, where: str) -> bool:
        lowered = text.lower()
        if lowered not in _TRUE + _FALSE:
            raise ConfigurationError(f"{where}: Invalid boolean value: {text} (allowed: {self.allowed})")
        return lowered in _TRUE

    def _bounded(self, value: Any, where: str, given: Any) -> Any:
        if self.choices:
            value = value.upper()
            if value not in self.choices:
                raise self._refusal(where, given)
        if self.kind is float and not math.isfinite(value):
            raise self._refusal(where, given)
        too_low = self.minimum is not None and value < self.minimum
        too_high = self.maximum is not None and value > self.maximum
        if too_low or too_high:
            raise self._refusal(where, given)
        return value

    def _refusal(self, where: str, given: Any) -> ConfigurationError:
        return ConfigurationError(f"{where}: {given!r} is not allowed ({self.name} takes {self.allowed})")


def option(default: Any, help: str, **rest: Any) -> Any:  # noqa: A002
    """Declare an option as a dataclass field; its name and type are the field's."""
    return field(default=default, metadata={"help": help, **rest})


def option_of(declared: Field[Any]) -> Option:
    """The row that a dataclass field declares."""
    assert declared.default is not MISSING  # noqa: S101  # option() always gives one
    return Option(declared.name, _kind(declared.type), declared.default, **declared.metadata)


def _kind(annotation: Any) -> type:
    """The type itself, without `| None`."""
    kinds = [k for k in get_args(annotation) if k is not types.NoneType] or [annotation]
    kind: type = kinds[0]
    return kind
