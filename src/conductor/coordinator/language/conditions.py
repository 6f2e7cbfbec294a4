"""The conditions of loops and switches: the part of JavaScript that people write there, evaluated safely.

Understood are literals, `$.ref['iteration']`, arithmetic, comparisons, `&&`, `||`, `!`, `? :`, parentheses,
`if (...) { ... } else { ... }`, `return`, and a `(function () { ... })()` around all of it. There are no calls,
no assignments and no loops, so a condition always ends. Anything else is a script, and runs where scripts run.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple

from conductor.coordinator.limits import MAX_VALUE_BYTES

#: Evaluates to a JavaScript value: None is null, `UNDEFINED` is what is not there.
Evaluate = Callable[[Mapping[str, Any]], Any]
#: A statement's effect: None if it came to no value, else (value, whether it was returned).
Run = Callable[[Mapping[str, Any]], tuple[Any, bool] | None]

#: Parentheses and blocks deeper than this are refused rather than overflowing the stack.
MAX_DEPTH = 50
#: So are longer ones: a chain of operators is evaluated one inside the other.
MAX_TOKENS = 400
#: So are those with more characters, comments included.
MAX_LENGTH = 64 * 1024


class ConditionError(ValueError):
    """A condition that is not understood, or that cannot be evaluated on the data it met."""


class _Undefined:
    def __repr__(self) -> str:
        return "undefined"


UNDEFINED = _Undefined()


@lru_cache(maxsize=256)
def understood(text: str) -> bool:
    """Whether a condition can be evaluated here; any other is a script."""
    try:
        parse(text)
    except ConditionError:
        return False
    return True


def evaluate(text: str, data: Mapping[str, Any]) -> Any:
    """The value of a condition, with `$` standing for `data`. Raises ConditionError."""
    value = parse(text)(data)
    return None if value is UNDEFINED else value


def is_true(value: Any) -> bool:
    """Whether a value lets a loop go on: true, or a number above zero, as Conductor has it."""
    return value if isinstance(value, bool) else isinstance(value, int | float) and value > 0


@lru_cache(maxsize=256)
def parse(text: str) -> Evaluate:
    """Read a condition once. Raises ConditionError, saying what is not understood."""
    return _Parser(text).program()


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


_TOKENS = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*.*?\*/)
      | (?P<unclosed>/\*)
      | (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
      | (?P<string>'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")
      | (?P<name>[A-Za-z_$][\w$]*)
      | (?P<sign>===|!==|==|!=|<=|>=|&&|\|\||[-+*/%<>!?:;.,(){}\[\]])""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "0": "\0"}
_LITERALS: dict[str, Any] = {"true": True, "false": False, "null": None, "undefined": UNDEFINED}
#: Binary operators, those that bind least first.
_LEVELS = (("||",), ("&&",), ("==", "!=", "===", "!=="), ("<", "<=", ">", ">="), ("+", "-"), ("*", "/", "%"))


def _tokens(text: str) -> list[_Token]:
    if len(text) > MAX_LENGTH:
        raise ConditionError(f"a condition has more than {MAX_LENGTH} characters; compute it in a task")
    tokens: list[_Token] = []
    at = 0
    while at < len(text):
        found = _TOKENS.match(text, at)
        if found is not None and found.lastgroup == "unclosed":
            raise ConditionError(f"the comment at '{text[at : at + 20]}' is not closed")
        if found is None:
            raise ConditionError(f"'{text[at : at + 20]}' is not understood in a condition")
        if found.lastgroup != "space":
            tokens.append(_Token(str(found.lastgroup), found.group(), at))
        if len(tokens) > MAX_TOKENS:
            raise ConditionError(f"a condition has more than {MAX_TOKENS} words and signs; compute it in a task")
        at = found.end()
    return [*tokens, _Token("end", "", at)]


class _Parser:
    """Recursive descent over the tokens; every method returns a function that evaluates what it has read."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = _tokens(text)
        self.position = 0
        self.depth = 0

    # -- reading

    @property
    def token(self) -> _Token:
        return self.tokens[self.position]

    def accept(self, *texts: str) -> str | None:
        token = self.token
        if token.kind in ("sign", "name") and token.text in texts:
            self.position += 1
            return token.text
        return None

    def expect(self, text: str) -> None:
        if self.accept(text) is None:
            raise self.problem(f"'{text}' expected")

    def problem(self, what: str = "not understood") -> ConditionError:
        found = self.text[self.token.at : self.token.at + 30] or "the end"
        return ConditionError(f"condition '{self.text}': {what} at '{found}'")

    def deeper(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise ConditionError(f"a condition is nested more than {MAX_DEPTH} deep")

    # -- statements

    def program(self) -> Evaluate:
        wrapped = self.function_wrapper()
        run = self.statements("}" if wrapped else "")
        if wrapped:
            for closing in "})()" if wrapped == "()" else "}())":
                self.expect(closing)
            self.accept(";")
        if self.token.kind != "end":
            raise self.problem()
        return lambda data: _outcome(run(data), returned_only=bool(wrapped))

    def function_wrapper(self) -> str | None:
        """`(function () {`, or nothing."""
        start = self.position
        if self.accept("(") and self.accept("function"):
            if self.token.kind == "name":
                self.position += 1
            for opening in "(){":
                self.expect(opening)
            return "()" if self.closes_before_call() else "call"
        self.position = start
        return None

    def closes_before_call(self) -> bool:
        """`})()` rather than `}())`."""
        tail = [token.text for token in self.tokens if token.kind != "end" and token.text != ";"]
        return tail[-4:] == ["}", ")", "(", ")"]

    def statements(self, closing: str) -> Run:
        runs: list[Run] = []
        while self.token.kind != "end" and not (closing and self.token.text == closing):
            if not self.accept(";"):
                runs.append(self.statement())
        return lambda data: _run_all(runs, data)

    def statement(self) -> Run:
        if self.accept("if"):
            return self.if_statement()
        if self.accept("{"):
            return self.block()
        returned = self.accept("return") is not None
        value = self.ternary()
        if self.token.text != "}" and self.token.kind != "end":
            self.expect(";")
        return lambda data: (value(data), returned)

    def block(self) -> Run:
        self.deeper()
        run = self.statements("}")
        self.expect("}")
        self.depth -= 1
        return run

    def if_statement(self) -> Run:
        self.deeper()
        self.expect("(")
        condition = self.ternary()
        self.expect(")")
        then = self.statement()
        self.accept(";")
        otherwise = self.statement() if self.accept("else") else None
        self.depth -= 1

        def run(data: Mapping[str, Any]) -> tuple[Any, bool] | None:
            if truthy(condition(data)):
                return then(data)
            return otherwise(data) if otherwise else None

        return run

    # -- expressions

    def ternary(self) -> Evaluate:
        self.deeper()
        condition = self.binary(0)
        if self.accept("?"):
            then = self.ternary()
            self.expect(":")
            otherwise = self.ternary()
            self.depth -= 1
            return lambda data: then(data) if truthy(condition(data)) else otherwise(data)
        self.depth -= 1
        return condition

    def binary(self, level: int) -> Evaluate:
        if level == len(_LEVELS):
            return self.unary()
        left = self.binary(level + 1)
        while sign := self.accept(*_LEVELS[level]):
            left = _combine(sign, left, self.binary(level + 1))
        return left

    def unary(self) -> Evaluate:
        sign = self.accept("!", "-", "+")
        if sign is None:
            return self.member()
        self.deeper()
        operand = self.unary()
        self.depth -= 1
        match sign:
            case "!":
                return lambda data: not truthy(operand(data))
            case "-":
                return lambda data: -_number(operand(data))
            case _:
                return lambda data: _number(operand(data))

    def member(self) -> Evaluate:
        value = self.primary()
        while True:
            if self.accept("."):
                if self.token.kind != "name":
                    raise self.problem("a name expected")
                key: Evaluate = _constant(self.token.text)
                self.position += 1
            elif self.accept("["):
                key = self.ternary()
                self.expect("]")
            elif self.token.text == "(" and self.token.kind == "sign":
                raise self.problem("function calls are not supported")
            else:
                return value
            value = _property(value, key, self.text)

    def primary(self) -> Evaluate:
        token = self.token
        if self.accept("("):
            value = self.ternary()
            self.expect(")")
            return value
        if token.kind in ("number", "string") or token.text in _LITERALS:
            self.position += 1
            return _constant(_literal(token))
        if token.text == "$":
            self.position += 1
            return lambda data: data
        raise self.problem()


def _literal(token: _Token) -> Any:
    if token.kind == "name":
        return _LITERALS[token.text]
    if token.kind == "string":
        return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), token.text[1:-1], flags=re.DOTALL)
    return _number(int(token.text)) if token.text.isdigit() and len(token.text) < 20 else float(token.text)


def _constant(value: Any) -> Evaluate:
    return lambda data: value  # noqa: ARG005 - same shape as every other part


def _run_all(runs: list[Run], data: Mapping[str, Any]) -> tuple[Any, bool] | None:
    last = None
    for run in runs:
        outcome = run(data)
        if outcome is not None and outcome[1]:
            return outcome
        last = outcome or last
    return last


def _outcome(outcome: tuple[Any, bool] | None, *, returned_only: bool) -> Any:
    """A function's value is what it returns; a script's is that of its last statement."""
    if outcome is None or (returned_only and not outcome[1]):
        return UNDEFINED
    return outcome[0]


# -- JavaScript's rules


def truthy(value: Any) -> bool:
    """As JavaScript has it: empty objects and lists are true."""
    if isinstance(value, float) and math.isnan(value):
        return False
    return isinstance(value, Mapping | list) or bool(value is not UNDEFINED and value)


def _property(value: Evaluate, key: Evaluate, text: str) -> Evaluate:
    def read(data: Mapping[str, Any]) -> Any:
        owner, name = value(data), key(data)
        if owner is None or owner is UNDEFINED:
            raise ConditionError(f"condition '{text}' reads '{_text(name)}' of {_text(owner)}")
        return _member(owner, name)

    return read


def _member(owner: Any, name: Any) -> Any:
    if isinstance(owner, Mapping):
        return owner.get(_text(name), UNDEFINED)
    if isinstance(owner, list | str):
        if name == "length":
            return len(owner)
        index = _number(name)
        return owner[int(index)] if index == index // 1 and 0 <= index < len(owner) else UNDEFINED
    return UNDEFINED


def _combine(sign: str, left: Evaluate, right: Evaluate) -> Evaluate:
    if sign == "&&":
        return lambda data: right(data) if truthy(value := left(data)) else value
    if sign == "||":
        return lambda data: value if truthy(value := left(data)) else right(data)
    apply = _OPERATIONS[sign]
    return lambda data: apply(left(data), right(data))


def _number(value: Any) -> int | float:
    if value is None:
        return 0
    if isinstance(value, int):
        # Beyond this JavaScript counts in doubles too. Exact numbers would grow without end.
        return int(value) if abs(value) < 2**53 else _double(value)
    if isinstance(value, float):
        return value
    if isinstance(value, str):
        try:
            return float(value) if value.strip() else 0
        except ValueError:
            return math.nan
    return math.nan


def _double(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        value = _number(value)
        if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return str(int(Decimal(repr(value))))  # the shortest digits that mean this number, as JavaScript has it
    return "null" if value is None else str(value)


def _add(left: Any, right: Any) -> Any:
    if isinstance(left, str | Mapping | list) or isinstance(right, str | Mapping | list):
        texts = _text(left), _text(right)
        if len(texts[0]) + len(texts[1]) > MAX_VALUE_BYTES:
            raise ConditionError("a condition puts together a text that is too large")
        return "".join(texts)
    return _arithmetic(lambda a, b: a + b)(left, right)


def _arithmetic(operation: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def apply(left: Any, right: Any) -> Any:
        try:
            return _number(operation(_number(left), _number(right)))
        except OverflowError:
            return math.inf

    return apply


def _divide(left: Any, right: Any) -> Any:
    if right:
        result = left / right
        return int(result) if result.is_integer() else result
    return math.nan if not left or math.isnan(left) else math.copysign(math.inf, left)


def _remainder(left: Any, right: Any) -> Any:
    if not right or math.isinf(left) or math.isnan(left):
        return math.nan
    return int(math.fmod(left, right)) if isinstance(left, int) and isinstance(right, int) else math.fmod(left, right)


def _compare(operation: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def apply(left: Any, right: Any) -> bool:
        if isinstance(left, str) and isinstance(right, str):
            return operation(left, right)
        return operation(_number(left), _number(right))

    return apply


def _strictly_equal(left: Any, right: Any) -> bool:
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, int | float) and isinstance(right, int | float):
        return left == right
    if isinstance(left, Mapping | list) or isinstance(right, Mapping | list):
        return left is right
    return type(left) is type(right) and bool(left == right)


def _loosely_equal(left: Any, right: Any) -> bool:
    missing = (left is None or left is UNDEFINED, right is None or right is UNDEFINED)
    if any(missing):
        return all(missing)
    if isinstance(left, int | float) != isinstance(right, int | float) or isinstance(left, bool) != isinstance(
        right, bool
    ):
        return bool(_number(left) == _number(right))
    return _strictly_equal(left, right)


_OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+": _add,
    "-": _arithmetic(lambda a, b: a - b),
    "*": _arithmetic(lambda a, b: a * b),
    "/": _arithmetic(_divide),
    "%": _arithmetic(_remainder),
    "<": _compare(lambda a, b: a < b),
    "<=": _compare(lambda a, b: a <= b),
    ">": _compare(lambda a, b: a > b),
    ">=": _compare(lambda a, b: a >= b),
    "==": _loosely_equal,
    "!=": lambda a, b: not _loosely_equal(a, b),
    "===": _strictly_equal,
    "!==": lambda a, b: not _strictly_equal(a, b),
}
