"""An option: name, default, allowed values, environment variables, parsing.

Every option of a worker or of a connection is one `Option`, so code and environment variables follow the same rules.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")

_TRUE = ("true", "1", "yes", "on")
_FALSE = ("false", "0", "no", "off")
_KIND_NAMES = {int: "an integer", float: "a number", bool: "a boolean", str: "a text"}


class ConfigurationError(ValueError):
    """A setting has a value that is not allowed. The message names the setting, the value and the allowed values."""


def parse_boolean(text: str) -> bool:
    """Return the boolean of a text: true, 1, yes, on or false, 0, no, off, in upper or lower case."""
    lowered = text.strip().lower()
    if lowered in _TRUE:
        return True
    if lowered in _FALSE:
        return False
    raise ValueError(text)


def _parse_integer(text: str) -> int:
    """Return the integer of a text; `5.0` is 5."""
    try:
        return int(text)
    except ValueError:
        number = float(text)
    if not number.is_integer():
        raise ValueError(text)
    return int(number)


_PARSERS: dict[type, Callable[[str], Any]] = {bool: parse_boolean, int: _parse_integer, float: float, str: str}


class TextForm(NamedTuple):
    """The format that a text option must have.

    `parse` returns the text or raises ValueError. `description` names the format in error messages.
    """

    parse: Callable[[str], str]
    description: str


@dataclass(slots=True)
class Option:
    """An option. Parsing, documentation, variables and signatures are derived from it.

    As an attribute of a class, an option reads as its default until an object has a value of its own.

    Attributes:
        name: The name in code.
        default: The default, or a function that returns it. The option has the type of the default: bool, int or float.
            With any other default, including None and a function, the option is a text.
        help: What the option does, for the reference.
        variable: The environment variable of a connection option. For a worker's option see `list_variables`.
        minimum: The smallest allowed number.
        maximum: The largest allowed number.
        choices: The allowed texts.
        form: The form of a text that is neither a number nor one of `choices`.
        aliases: Other spellings of the name.
        per_worker: Whether the workers of one process can have different values.
        default_text: The default in the reference, if it is computed at run time.
    """

    name: str
    default: Any
    help: str
    variable: str = ""
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    form: TextForm | None = None
    aliases: tuple[str, ...] = ()
    per_worker: bool = True
    default_text: str = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else self.default_value()

    def default_value(self) -> Any:
        """Return the default, computed if it is a function."""
        return self.default() if callable(self.default) else self.default

    @property
    def kind(self) -> type:
        """The type of the option: bool, int, float or str."""
        return type(self.default) if isinstance(self.default, bool | int | float) else str

    @property
    def can_be_cleared(self) -> bool:
        """Whether the option can be unset. If so, an empty environment variable overrides a value from the code."""
        return self.default is None or callable(self.default)

    @property
    def spellings(self) -> tuple[str, ...]:
        """The name and its aliases, in the order of their precedence."""
        return (self.name, *self.aliases)

    @property
    def allowed(self) -> str:
        """A description of the allowed values, such as `an integer from 1 to 10000`."""
        if self.kind is bool:
            return ", ".join(_TRUE + _FALSE)
        if self.choices:
            return "one of " + ", ".join(self.choices)
        if self.form is not None:
            return self.form.description
        return _KIND_NAMES[self.kind] + self._describe_range()

    def _describe_range(self) -> str:
        if self.minimum is None:
            return ""
        return f" of at least {self.minimum}" if self.maximum is None else f" from {self.minimum} to {self.maximum}"

    def parse(self, text: str, where: str) -> Any:
        """Convert a text to a value of the option, and check it.

        Args:
            text: The text.
            where: The source of the text, for the error message.

        Raises:
            ConfigurationError: The value is not allowed.
        """
        try:
            value = _PARSERS[self.kind](text.strip())
        except (ValueError, OverflowError):
            raise self._error(where, text) from None
        return self._validate(value, where, text)

    def check(self, value: Any, where: str) -> Any:
        """Return a value from the code, converted to the type of the option.

        Args:
            value: The value.
            where: The source of the value, for the error message.

        Raises:
            ConfigurationError: The value is not allowed.
        """
        if self.kind is bool and isinstance(value, str):
            return self.parse(value, where)
        if self.kind is int and isinstance(value, float) and value.is_integer():
            value = int(value)
        if self.kind is float and type(value) is int:
            value = float(value)
        if (type(value) is bool and self.kind is not bool) or not isinstance(value, self.kind):
            raise self._error(where, value)
        return self._validate(value, where, value)

    def _validate(self, value: Any, where: str, given: Any) -> Any:
        if self.choices:
            value = {choice.lower(): choice for choice in self.choices}.get(value.lower())
            if value is None:
                raise self._error(where, given)
        if self.form is not None:
            try:
                value = self.form.parse(value)
            except ValueError:
                raise self._error(where, given) from None
        if self.kind is float and not math.isfinite(value):
            raise self._error(where, given)
        too_low = self.minimum is not None and value < self.minimum
        too_high = self.maximum is not None and value > self.maximum
        if too_low or too_high:
            raise self._error(where, given)
        return value

    def _error(self, where: str, given: Any) -> ConfigurationError:
        if self.kind is bool:
            return ConfigurationError(f"{where}: Invalid boolean value: {given} (allowed: {self.allowed})")
        shown = mask_password(given) if isinstance(given, str) else given
        return ConfigurationError(f"{where}: {shown!r} is not allowed (allowed: {self.allowed})")


def option(default: Any, help: str, **rest: Any) -> Any:  # noqa: A002
    """Return an option, to be assigned to a class attribute with its name. `rest` are further fields of `Option`."""
    return Option("", default, help, **rest)


def list_options(table: type) -> dict[str, Option]:
    """Return the options of a class, by name."""
    return {name: row for name, row in vars(table).items() if isinstance(row, Option)}


def environment_name(worker_name: str) -> str:
    """Return the name of a worker in an upper-case variable: `process-order` becomes `PROCESS_ORDER`."""
    return re.sub(r"[^A-Z0-9]", "_", worker_name.upper())


def list_worker_variables(worker_name: str, option: Option) -> Iterator[str]:
    """Return the variables that set an option for one worker, by precedence.

    The last ones contain the unchanged name of the worker, for programs written for conductor-python.
    """
    upper = dict.fromkeys([environment_name(worker_name), worker_name.upper(), worker_name])
    patterns = [f"conductor.worker.{worker_name}.", *(f"CONDUCTOR_WORKER_{name}_" for name in upper)]
    for pattern in [*patterns, f"conductor_worker_{worker_name}_"]:
        yield from _spell(pattern, option)


def list_global_variables(option: Option) -> Iterator[str]:
    """Return the variables that set an option for every worker, by precedence."""
    for pattern in ("conductor.worker.all.", "CONDUCTOR_WORKER_ALL_", "CONDUCTOR_WORKER_", "conductor_worker_"):
        yield from _spell(pattern, option)


def _spell(pattern: str, option: Option) -> Iterator[str]:
    for spelling in option.spellings:
        yield pattern + (spelling.upper() if pattern.startswith("CONDUCTOR") else spelling)


def list_variables(option: Option, worker_name: str, taken: frozenset[str] = frozenset()) -> Iterator[str]:
    """Return all variables that set an option for a worker, by precedence.

    Args:
        option: The option.
        worker_name: The name of the worker.
        taken: Variables that set another option of every worker. A worker called `idle` must not read
            CONDUCTOR_WORKER_IDLE_POLL_TIMEOUT as its own poll_timeout.
    """
    if option.per_worker:
        yield from (variable for variable in list_worker_variables(worker_name, option) if variable not in taken)
    yield from list_global_variables(option)


def find_nearest(name: str, names: Iterable[str]) -> str | None:
    """Return the most similar of some names, or None if no name is similar."""
    import difflib  # only needed for an error message

    found = difflib.get_close_matches(name, list(names), n=1)
    return found[0] if found else None


def mask_password(url: str) -> str:
    """Return a URL, also an invalid one, with its password masked: `http://ada:***@host`."""
    login, at, host = url.rpartition("@")
    scheme, slashes, login = login.rpartition("://")
    user, colon, _ = login.partition(":")
    return f"{scheme}{slashes}{user}:***@{host}" if at and colon else url
