"""What an option is: its name, what it takes, its default, the variables that set it, and how a value is read.

Every option that the environment can set is one `Option`, whether it belongs to a worker or to the connection, so a
value means the same wherever it is written.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")

_TRUE = ("true", "1", "yes", "on")
_FALSE = ("false", "0", "no", "off")
_KIND_NAMES = {int: "an integer", float: "a number", bool: "a boolean", str: "a text"}


class ConfigurationError(ValueError):
    """A setting has a value that is not allowed. One line: which setting, which value, what is allowed."""


def read_boolean(text: str) -> bool:
    """The one meaning of a boolean in a text: true, 1, yes, on or false, 0, no, off, in any case."""
    lowered = text.strip().lower()
    if lowered in _TRUE:
        return True
    if lowered in _FALSE:
        return False
    raise ValueError(text)


def _read_integer(text: str) -> int:
    """A whole number, however it is written: `5.0` is 5."""
    try:
        return int(text)
    except ValueError:
        number = float(text)
    if not number.is_integer():
        raise ValueError(text)
    return int(number)


_READERS: dict[type, Callable[[str], Any]] = {bool: read_boolean, int: _read_integer, float: float, str: str}


@dataclass(slots=True)
class Option:
    """One row of a table of options. An option is declared once, and everything else is derived from it.

    As an attribute of a class it reads as its default until an object, or a subclass, has a value of its own.
    """

    name: str
    #: The value when nothing is given, or a function that makes it. It also tells the type; `None` is for texts.
    default: Any
    help: str
    #: The one environment variable of a connection option. A worker's option has several: see `variables_of`.
    variable: str = ""
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    #: Reads a text of a certain form, or raises ValueError; its docstring says what is allowed.
    form: Callable[[str], str] | None = None
    #: Other spellings of the name.
    aliases: tuple[str, ...] = ()
    #: Whether the option may differ between the workers of one process, and so has variables of a single worker.
    per_worker: bool = True
    #: What the reference shows when the default is computed at run time.
    default_text: str = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else self.default_value()

    def default_value(self) -> Any:
        """The value when nothing is given."""
        return self.default() if callable(self.default) else self.default

    @property
    def kind(self) -> type:
        """bool, int, float or str."""
        return type(self.default) if isinstance(self.default, bool | int | float) else str

    @property
    def can_be_cleared(self) -> bool:
        """Whether "nothing" is a value: then an empty variable takes away what the code gave."""
        return self.default is None or callable(self.default)

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
        if self.form is not None:
            return (self.form.__doc__ or "").rstrip(".")
        return _KIND_NAMES[self.kind] + self._range()

    def _range(self) -> str:
        if self.minimum is None:
            return ""
        return f" of at least {self.minimum}" if self.maximum is None else f" from {self.minimum} to {self.maximum}"

    def parse(self, text: str, where: str) -> Any:
        """The value that a text means, or a ConfigurationError that says where the text was found."""
        try:
            value = _READERS[self.kind](text.strip())
        except (ValueError, OverflowError):
            raise self._refusal(where, text) from None
        return self._bounded(value, where, text)

    def check(self, value: Any, where: str) -> Any:
        """A value given in code, or a ConfigurationError that says where."""
        if self.kind is bool and isinstance(value, str):
            return self.parse(value, where)
        if self.kind is int and isinstance(value, float) and value.is_integer():
            value = int(value)
        if self.kind is float and type(value) is int:
            value = float(value)
        if (type(value) is bool and self.kind is not bool) or not isinstance(value, self.kind):
            raise self._refusal(where, value)
        return self._bounded(value, where, value)

    def _bounded(self, value: Any, where: str, given: Any) -> Any:
        if self.choices:
            value = {choice.lower(): choice for choice in self.choices}.get(value.lower())
            if value is None:
                raise self._refusal(where, given)
        if self.form is not None:
            try:
                value = self.form(value)
            except ValueError:
                raise self._refusal(where, given) from None
        if self.kind is float and not math.isfinite(value):
            raise self._refusal(where, given)
        too_low = self.minimum is not None and value < self.minimum
        too_high = self.maximum is not None and value > self.maximum
        if too_low or too_high:
            raise self._refusal(where, given)
        return value

    def _refusal(self, where: str, given: Any) -> ConfigurationError:
        if self.kind is bool:
            return ConfigurationError(f"{where}: Invalid boolean value: {given} (allowed: {self.allowed})")
        shown = without_password(given) if isinstance(given, str) else given
        return ConfigurationError(f"{where}: {shown!r} is not allowed (allowed: {self.allowed})")


def option(default: Any, help: str, **rest: Any) -> Any:  # noqa: A002
    """Declare an option as an attribute of a class, under the attribute's name. `rest` are fields of `Option`."""
    return Option("", default, help, **rest)


def declared_in(table: type) -> dict[str, Option]:
    """The options that a class declares, by name."""
    return {name: row for name, row in vars(table).items() if isinstance(row, Option)}


def environment_name(worker_name: str) -> str:
    """A worker's name inside an upper-case variable: `process-order` is `PROCESS_ORDER`."""
    return re.sub(r"[^A-Z0-9]", "_", worker_name.upper())


def worker_variables(worker_name: str, option: Option) -> Iterator[str]:
    """The variables that set an option for one worker, the strongest first.

    The last ones have the name as it is written, as programs for conductor-python spell them.
    """
    upper = dict.fromkeys([environment_name(worker_name), worker_name.upper(), worker_name])
    patterns = [f"conductor.worker.{worker_name}.", *(f"CONDUCTOR_WORKER_{name}_" for name in upper)]
    for pattern in [*patterns, f"conductor_worker_{worker_name}_"]:
        yield from _spelled(pattern, option)


def global_variables(option: Option) -> Iterator[str]:
    """The variables that set an option for every worker, the strongest first."""
    for pattern in ("conductor.worker.all.", "CONDUCTOR_WORKER_ALL_", "CONDUCTOR_WORKER_", "conductor_worker_"):
        yield from _spelled(pattern, option)


def _spelled(pattern: str, option: Option) -> Iterator[str]:
    for spelling in option.spellings:
        yield pattern + (spelling.upper() if pattern.startswith("CONDUCTOR") else spelling)


def variables_of(option: Option, worker_name: str, taken: frozenset[str] = frozenset()) -> Iterator[str]:
    """Every variable that may set the option for this worker, the strongest first.

    `taken` are names that mean something for every worker: one called `idle` must not read
    CONDUCTOR_WORKER_IDLE_POLL_TIMEOUT as its own poll_timeout.
    """
    if option.per_worker:
        yield from (variable for variable in worker_variables(worker_name, option) if variable not in taken)
    yield from global_variables(option)


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The most similar of some names, if one is similar at all."""
    import difflib  # needed by those who mistyped, not by those who start

    found = difflib.get_close_matches(name, list(names), n=1)
    return found[0] if found else None


def without_password(url: str) -> str:
    """A URL as it may be printed, also one that is wrong: `http://ada:***@host`."""
    login, at, host = url.rpartition("@")
    scheme, slashes, login = login.rpartition("://")
    user, colon, _ = login.partition(":")
    return f"{scheme}{slashes}{user}:***@{host}" if at and colon else url
