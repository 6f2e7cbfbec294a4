"""Evaluate simple conditions of loops, switches and event handlers exactly as JavaScript does, without an engine.

Most conditions compare fields of the data with constants. This module parses literals, `$.ref['iteration']`,
arithmetic, comparisons, `&&`, `||`, `!`, `? :`, parentheses, `if (...) { ... } else { ... }` and a
`(function () { ... return ...; })()` around all of it. There are no calls, assignments or loops, so each evaluation
ends soon.

JavaScript converts values in many ways. Only the common conversions are here. Any other text, and any data on which the
result is not certain, raises `EngineNeeded`: the condition is then a script for `system/script_runner.py`.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

#: Evaluates to a JavaScript value: None is null, `UNDEFINED` is undefined. Numbers are an int if they are whole and
#: below `MAX_SAFE`, else a finite float.
Evaluate = Callable[[Mapping[str, Any]], Any]
#: The completion of a statement: None if it is empty, else (value, whether `return` gave it).
Run = Callable[[Mapping[str, Any]], tuple[Any, bool] | None]

#: Parentheses and blocks that are nested deeper need the engine: the parser is recursive.
MAX_DEPTH = 50
#: So do conditions with more tokens: a chain of operators is evaluated recursively.
MAX_TOKENS = 400
#: So do conditions with more characters, comments included.
MAX_LENGTH = 64 * 1024
#: So do conditions that concatenate a longer text.
MAX_TEXT = 64 * 1024
#: JavaScript's whole numbers are exact below this one.
MAX_SAFE = 2**53


class ConditionError(ValueError):
    """A condition that fails on its data."""


class EngineNeeded(ConditionError):
    """A condition whose value only a JavaScript engine can tell."""


class _Undefined:
    def __repr__(self) -> str:
        return "undefined"


UNDEFINED = _Undefined()


def evaluate(text: str, data: Mapping[str, Any]) -> Any:
    """Return the value of a condition, with `$` standing for `data`. Raises ConditionError."""
    value = parse(text)(data)
    if isinstance(value, Mapping | list) or (isinstance(value, float) and value.is_integer()):
        raise EngineNeeded("the value of the condition is written as JSON by the engine")
    return None if value is UNDEFINED else value


def is_true(value: Any) -> bool:
    """Return whether a value lets a loop go on: true, or a number above zero, as in Conductor."""
    return value if isinstance(value, bool) else isinstance(value, int | float) and value > 0


def parse(text: str) -> Evaluate:
    """Parse a condition once. Raises EngineNeeded, which says what is not understood here."""
    parsed = _parse(text)
    if isinstance(parsed, EngineNeeded):
        raise parsed.with_traceback(None)
    return parsed


@lru_cache(maxsize=256)
def _parse(text: str) -> Evaluate | EngineNeeded:
    try:
        return _Parser(text).program()
    except EngineNeeded as error:
        return error


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


_TOKENS = re.compile(
    r"""(?P<space>[ \t\n\r]+|//[^\n\r\u2028\u2029]*|/\*.*?\*/)
      | (?P<unclosed>/\*)
      | (?P<number>(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![\w$.]))
      | (?P<string>'(?:[^'\\\n\r]|\\['"\\nrtbf])*'|"(?:[^"\\\n\r]|\\['"\\nrtbf])*")
      | (?P<name>[A-Za-z_$][A-Za-z0-9_$]*)
      | (?P<refused>--|\+\+)
      | (?P<sign>===|!==|==|!=|<=|>=|&&|\|\||[-+*/%<>!?:;.,(){}\[\]])""",
    re.VERBOSE | re.DOTALL,
)
_LINE_END = re.compile("[\n\r\u2028\u2029]")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_LITERALS: dict[str, Any] = {"true": True, "false": False, "null": None, "undefined": UNDEFINED}
#: Binary operators, those that bind least first.
_LEVELS = (("||",), ("&&",), ("==", "!=", "===", "!=="), ("<", "<=", ">", ">="), ("+", "-"), ("*", "/", "%"))


def _tokens(text: str) -> list[_Token]:
    if len(text) > MAX_LENGTH:
        raise EngineNeeded(f"a condition has more than {MAX_LENGTH} characters; compute it in a task")
    tokens: list[_Token] = []
    at = 0
    while at < len(text):
        found = _TOKENS.match(text, at)
        if found is not None and found.lastgroup == "unclosed":
            raise EngineNeeded(f"the comment at '{text[at : at + 20]}' is not closed")
        if found is None or found.lastgroup == "refused":
            raise EngineNeeded(f"'{text[at : at + 20]}' is not understood in a condition")
        if found.lastgroup != "space":
            tokens.append(_Token(str(found.lastgroup), found.group(), at))
        if len(tokens) > MAX_TOKENS:
            raise EngineNeeded(f"a condition has more than {MAX_TOKENS} words and signs; compute it in a task")
        at = found.end()
    return [*tokens, _Token("end", "", at)]


class _Parser:
    """Parses by recursive descent; each method returns a function that evaluates the part it has parsed."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = _tokens(text)
        self.position = 0
        self.depth = 0
        self.in_function = False

    # -- tokens

    @property
    def token(self) -> _Token:
        return self.tokens[self.position]

    def accept(self, *texts: str) -> str | None:
        token = self.token
        if token.kind in ("sign", "name") and token.text in texts:
            self.position += 1
            return token.text
        return None

    def expect(self, *texts: str) -> None:
        for text in texts:
            if self.accept(text) is None:
                raise self.problem(f"'{text}' expected")

    def problem(self, what: str = "not understood") -> EngineNeeded:
        found = self.text[self.token.at : self.token.at + 30] or "the end"
        return EngineNeeded(f"condition '{self.text}': {what} at '{found}'")

    def deeper(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise EngineNeeded(f"a condition is nested more than {MAX_DEPTH} deep")

    # -- statements

    def program(self) -> Evaluate:
        self.in_function = [token.text for token in self.tokens[:5]] == ["(", "function", "(", ")", "{"]
        if self.in_function:
            self.position = 5
        run = self.statements()
        if self.in_function:
            self.expect("}")
            self.expect(*(")()" if self.token.text == ")" else "())"))
            self.accept(";")
        if self.token.kind != "end":
            raise self.problem()
        in_function = self.in_function

        def value(data: Mapping[str, Any]) -> Any:
            """The value that a function returns, or that the last statement of a script has."""
            completion = run(data)
            return UNDEFINED if completion is None or (in_function and not completion[1]) else completion[0]

        return value

    def statements(self) -> Run:
        runs: list[Run] = []
        while self.token.kind != "end" and self.token.text != "}":
            if not self.accept(";"):
                runs.append(self.statement())

        def run_all(data: Mapping[str, Any]) -> tuple[Any, bool] | None:
            last = None
            for run in runs:
                last = run(data) or last
                if last is not None and last[1]:
                    break
            return last

        return run_all

    def statement(self) -> Run:
        if self.accept("if"):
            return self.if_statement()
        if self.accept("{"):
            self.deeper()
            run = self.statements()
            self.expect("}")
            self.depth -= 1
            return run
        returned = self.in_function and self.accept("return") is not None
        if returned:
            before = self.tokens[self.position - 1]
            if _LINE_END.search(self.text, before.at, self.token.at):
                raise self.problem("a line ends after 'return'")  # JavaScript ends the statement there
        value = self.ternary()
        if self.token.text != "}" and self.token.kind != "end":
            self.expect(";")
        return lambda data: (value(data), returned)

    def if_statement(self) -> Run:
        self.deeper()
        self.expect("(")
        condition = self.ternary()
        self.expect(")")
        then = self.statement()
        otherwise = self.statement() if self.accept("else") else None
        self.depth -= 1

        def run(data: Mapping[str, Any]) -> tuple[Any, bool] | None:
            chosen = then if truthy(condition(data)) else otherwise
            return (chosen(data) if chosen else None) or (UNDEFINED, False)

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
                return lambda data: _number(-to_number(operand(data)))
            case _:
                return lambda data: _number(to_number(operand(data)))

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
        self.position += 1
        match token.kind:
            case "number":
                return _constant(_number(float(token.text)))
            case "string":
                return _constant(re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), token.text[1:-1]))
            case "name" if token.text in _LITERALS:
                return _constant(_LITERALS[token.text])
            case "name" if token.text == "$":
                return lambda data: data
        self.position -= 1
        raise self.problem()


def _constant(value: Any) -> Evaluate:
    return lambda _: value


# -- JavaScript's rules

#: A text that is a number, and one that is certainly none; JavaScript reads some others as numbers too.
_DECIMAL = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?")
_NOT_A_NUMBER = re.compile(r"[A-HJ-Za-z_]")
_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")
#: Names that every object inherits: those of Object.prototype, and Java's methods of maps.
INHERITED = frozenset(
    {
        *("__defineGetter__", "__defineSetter__", "__lookupGetter__", "__lookupSetter__", "__proto__", "constructor"),
        *("hasOwnProperty", "isPrototypeOf", "propertyIsEnumerable", "toLocaleString", "toString", "valueOf"),
        *("clear", "containsKey", "containsValue", "entrySet", "equals", "forEach", "get", "getOrDefault", "isEmpty"),
        *("keySet", "put", "putAll", "putIfAbsent", "remove", "size", "values"),
    }
)


def truthy(value: Any) -> bool:
    """Return what `Boolean(value)` is in JavaScript: empty objects and lists are true."""
    return isinstance(value, Mapping | list) or (value is not UNDEFINED and bool(value))


def _number(value: float) -> int | float:
    """Return a number as evaluations have it."""
    if isinstance(value, int) and abs(value) < MAX_SAFE:
        return int(value)
    try:
        value = float(value)
    except OverflowError:
        value = math.inf
    if not math.isfinite(value):
        raise EngineNeeded("a number of the condition is not finite")
    return int(value) if value.is_integer() and abs(value) < MAX_SAFE else value


def to_number(value: Any) -> int | float:
    """Return what `Number(value)` is in JavaScript."""
    if isinstance(value, int | float):
        return value
    if value is UNDEFINED:
        return math.nan
    if value is None or value == "":
        return 0
    if isinstance(value, str) and _DECIMAL.fullmatch(value):
        return _number(float(value))
    if isinstance(value, str) and _NOT_A_NUMBER.match(value):
        return math.nan
    raise EngineNeeded("the condition computes with a value that is not a plain number")


def _text(value: Any) -> str:
    """Return what `String(value)` is in JavaScript."""
    if isinstance(value, str):
        return value
    if value is None or value is UNDEFINED:
        return "null" if value is None else "undefined"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    raise EngineNeeded("the condition writes a fraction, a list or an object as a text")


def _property(value: Evaluate, key: Evaluate, text: str) -> Evaluate:
    def read(data: Mapping[str, Any]) -> Any:
        owner, name = value(data), _text(key(data))
        if owner is None or owner is UNDEFINED:
            raise ConditionError(f"condition '{text}' reads '{name}' of {_text(owner)}")
        found = _member(owner, name)
        is_number = isinstance(found, int | float) and not isinstance(found, bool)
        return _number(found) if is_number else found

    return read


def _member(owner: Any, name: str) -> Any:
    if isinstance(owner, Mapping):
        if name not in owner and name in INHERITED:
            raise EngineNeeded(f"'{name}' is a function of JavaScript or Java")
        return owner.get(name, UNDEFINED)
    # JavaScript counts the characters beyond U+FFFF twice.
    if isinstance(owner, list) or (isinstance(owner, str) and owner.isascii()):
        if name == "length":
            return len(owner)
        if _INDEX.fullmatch(name):
            return owner[int(name)] if int(name) < len(owner) else UNDEFINED
    raise EngineNeeded(f"'{name}' may be a function of JavaScript")


def _combine(sign: str, left: Evaluate, right: Evaluate) -> Evaluate:
    if sign == "&&":
        return lambda data: right(data) if truthy(value := left(data)) else value
    if sign == "||":
        return lambda data: value if truthy(value := left(data)) else right(data)
    apply = _OPERATIONS[sign]
    return lambda data: apply(left(data), right(data))


def _add(left: Any, right: Any) -> Any:
    if isinstance(left, str) or isinstance(right, str):
        texts = _text(left), _text(right)
        if len(texts[0]) + len(texts[1]) > MAX_TEXT:
            raise EngineNeeded(f"the condition makes a text of more than {MAX_TEXT} characters")
        return "".join(texts)
    return _number(to_number(left) + to_number(right))


def _arithmetic(operation: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def apply(left: Any, right: Any) -> Any:
        try:
            return _number(operation(to_number(left), to_number(right)))
        except (ArithmeticError, ValueError):  # a division by zero, or what is too large
            raise EngineNeeded("a number of the condition is not finite") from None

    return apply


def _compare(operation: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def apply(left: Any, right: Any) -> bool:
        if isinstance(left, str) and isinstance(right, str):
            # JavaScript orders texts by their UTF-16 units.
            return operation(left.encode("utf-16-be"), right.encode("utf-16-be"))
        return operation(to_number(left), to_number(right))

    return apply


def _type(value: Any) -> type:
    """Return one Python type for each type of JavaScript."""
    if isinstance(value, Mapping | list):
        return object
    return float if isinstance(value, int) and not isinstance(value, bool) else type(value)


def _strictly_equal(left: Any, right: Any) -> bool:
    if _type(left) is not _type(right):
        return False
    if _type(left) is object:
        raise EngineNeeded("the condition compares lists or objects")
    return bool(left == right)


def _loosely_equal(left: Any, right: Any) -> bool:
    missing = (left is None or left is UNDEFINED, right is None or right is UNDEFINED)
    if any(missing):
        return all(missing)
    if _type(left) is _type(right):
        return _strictly_equal(left, right)
    return bool(to_number(left) == to_number(right))


_OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+": _add,
    "-": _arithmetic(operator.sub),
    "*": _arithmetic(operator.mul),
    "/": _arithmetic(operator.truediv),
    "%": _arithmetic(math.fmod),
    "<": _compare(operator.lt),
    "<=": _compare(operator.le),
    ">": _compare(operator.gt),
    ">=": _compare(operator.ge),
    "==": _loosely_equal,
    "!=": lambda a, b: not _loosely_equal(a, b),
    "===": _strictly_equal,
    "!==": lambda a, b: not _strictly_equal(a, b),
}
