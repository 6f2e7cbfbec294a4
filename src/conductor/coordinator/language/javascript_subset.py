"""Evaluate simple conditions of loops, switches and event handlers exactly as JavaScript does, without an engine.

Most conditions compare fields of the data with constants. This module parses literals, `$.ref['iteration']`,
arithmetic, comparisons, `&&`, `||`, `!`, `? :`, parentheses, `if (...) { ... } else { ... }` and a
`(function () { ... return ...; })()` around all of it. There are no calls, assignments or loops, so each evaluation
ends soon.

The results never differ from those of an engine. This module implements only the common conversions of values. Any
other text, and any data on which the result is not certain, raises `EngineNeeded`; `system/script_runner.py` then
evaluates the condition.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import NamedTuple

from conductor.protocol.json_types import Json

#: The data that a condition reads: in the condition, `$` stands for this object.
Data = Mapping[str, Json]
#: A JavaScript value: None is null, `UNDEFINED` is undefined. A number is an int if it is whole and below `MAX_SAFE`,
#: else a finite float.
Value = Json
Evaluate = Callable[[Data], Value]


class _Completion(NamedTuple):
    """The value of a statement, and whether `return` ended the function with it."""

    value: Value
    returned: bool


#: Runs a statement. Returns None if the statement has no value.
Run = Callable[[Data], _Completion | None]
#: A binary operation on two values.
Operation = Callable[[Value, Value], Value]

#: Conditions above these limits need the engine. The parser is recursive, so nesting is limited.
MAX_DEPTH = 50
#: A chain of operators is evaluated recursively, so the number of tokens is limited.
MAX_TOKENS = 400
#: The maximum number of characters of a condition, comments included.
MAX_LENGTH = 64 * 1024
#: The maximum number of characters of a text that a condition builds.
MAX_TEXT = 64 * 1024
#: JavaScript's whole numbers are exact below this number.
MAX_SAFE = 2**53


class ConditionError(ValueError):
    """A condition that fails on its data."""


class EngineNeeded(ConditionError):
    """A condition that only a JavaScript engine can evaluate."""


class _Undefined:
    def __repr__(self) -> str:
        return "undefined"


UNDEFINED = _Undefined()


def evaluate(text: str, data: Data) -> Value:
    """Return the value of a condition, with `$` standing for `data`. Raises ConditionError."""
    value = parse(text)(data)
    if isinstance(value, Mapping | list) or (isinstance(value, float) and value.is_integer()):
        raise EngineNeeded("only the engine can convert the value of the condition to JSON")
    return None if value is UNDEFINED else value


def is_true(value: Value) -> bool:
    """Return whether a value lets a loop continue: true or a number above zero, as in Conductor."""
    return value if isinstance(value, bool) else isinstance(value, int | float) and value > 0


def parse(text: str) -> Evaluate:
    """Parse a condition; results are cached. Raises EngineNeeded, which says what is not supported."""
    parsed = _parse(text)
    if isinstance(parsed, EngineNeeded):
        raise parsed.with_traceback(None)
    return parsed


@lru_cache(maxsize=256)
def _parse(text: str) -> Evaluate | EngineNeeded:
    try:
        return _Parser(text).parse_program()
    except EngineNeeded as error:
        return error


# -- tokens


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
      | (?P<unsupported>--|\+\+)
      | (?P<sign>===|!==|==|!=|<=|>=|&&|\|\||[-+*/%<>!?:;.,(){}\[\]])""",
    re.VERBOSE | re.DOTALL,
)
_LINE_END = re.compile("[\n\r\u2028\u2029]")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_LITERALS: dict[str, Value] = {"true": True, "false": False, "null": None, "undefined": UNDEFINED}
#: Binary operators by precedence, the lowest first.
_LEVELS = (("||",), ("&&",), ("==", "!=", "===", "!=="), ("<", "<=", ">", ">="), ("+", "-"), ("*", "/", "%"))


def _split_tokens(text: str) -> list[_Token]:
    if len(text) > MAX_LENGTH:
        raise EngineNeeded(f"a condition has more than {MAX_LENGTH} characters; compute it in a task")
    tokens: list[_Token] = []
    at = 0
    while at < len(text):
        found = _TOKENS.match(text, at)
        if found is not None and found.lastgroup == "unclosed":
            raise EngineNeeded(f"the comment at '{text[at : at + 20]}' is not closed")
        if found is None or found.lastgroup == "unsupported":
            raise EngineNeeded(f"'{text[at : at + 20]}' is not understood in a condition")
        if found.lastgroup != "space":
            tokens.append(_Token(str(found.lastgroup), found.group(), at))
        if len(tokens) > MAX_TOKENS:
            raise EngineNeeded(f"a condition has more than {MAX_TOKENS} words and signs; compute it in a task")
        at = found.end()
    return [*tokens, _Token("end", "", at)]


# -- parser


class _Parser:
    """Parses by recursive descent. Each method returns a function that evaluates the part it has parsed."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = _split_tokens(text)
        self.position = 0
        self.depth = 0
        self.in_function = False

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
                raise self.problem(f"'{text}' is expected")

    def problem(self, what: str = "not understood") -> EngineNeeded:
        found = self.text[self.token.at : self.token.at + 30] or "the end"
        return EngineNeeded(f"condition '{self.text}': {what} at '{found}'")

    @contextmanager
    def nested(self) -> Iterator[None]:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise EngineNeeded(f"a condition is nested more than {MAX_DEPTH} deep")
        yield
        self.depth -= 1

    def parse_program(self) -> Evaluate:
        """Parse statements, which may be the body of a function that is called at once."""
        self.in_function = [token.text for token in self.tokens[:5]] == ["(", "function", "(", ")", "{"]
        if self.in_function:
            self.position = 5
        run = self.parse_statements()
        if self.in_function:
            self.expect("}")
            self.expect(*(")()" if self.token.text == ")" else "())"))
            self.accept(";")
        if self.token.kind != "end":
            raise self.problem()
        in_function = self.in_function

        def evaluate_program(data: Data) -> Value:
            completion = run(data)
            return UNDEFINED if completion is None or (in_function and not completion.returned) else completion.value

        return evaluate_program

    def parse_statements(self) -> Run:
        runs: list[Run] = []
        while self.token.kind != "end" and self.token.text != "}":
            if not self.accept(";"):
                runs.append(self.parse_statement())

        def run_all(data: Data) -> _Completion | None:
            last = None
            for run in runs:
                last = run(data) or last
                if last is not None and last.returned:
                    break
            return last

        return run_all

    def parse_statement(self) -> Run:
        if self.accept("if"):
            return self.parse_if()
        if self.accept("{"):
            with self.nested():
                run = self.parse_statements()
                self.expect("}")
            return run
        returned = self.in_function and self.accept("return") is not None
        if returned and _LINE_END.search(self.text, self.tokens[self.position - 1].at, self.token.at):
            raise self.problem("line break after 'return'")  # JavaScript ends the statement at the line break
        value = self.parse_ternary()
        if self.token.text != "}" and self.token.kind != "end":
            self.expect(";")
        return lambda data: _Completion(value(data), returned)

    def parse_if(self) -> Run:
        with self.nested():
            self.expect("(")
            condition = self.parse_ternary()
            self.expect(")")
            then = self.parse_statement()
            otherwise = self.parse_statement() if self.accept("else") else None

        def run(data: Data) -> _Completion | None:
            chosen = then if to_boolean(condition(data)) else otherwise
            return (chosen(data) if chosen else None) or _Completion(UNDEFINED, False)

        return run

    def parse_ternary(self) -> Evaluate:
        with self.nested():
            condition = self.parse_binary(0)
            if not self.accept("?"):
                return condition
            then = self.parse_ternary()
            self.expect(":")
            otherwise = self.parse_ternary()
        return lambda data: then(data) if to_boolean(condition(data)) else otherwise(data)

    def parse_binary(self, level: int) -> Evaluate:
        if level == len(_LEVELS):
            return self.parse_unary()
        left = self.parse_binary(level + 1)
        while sign := self.accept(*_LEVELS[level]):
            left = _combine(sign, left, self.parse_binary(level + 1))
        return left

    def parse_unary(self) -> Evaluate:
        sign = self.accept("!", "-", "+")
        if sign is None:
            return self.parse_member()
        with self.nested():
            operand = self.parse_unary()
        match sign:
            case "!":
                return lambda data: not to_boolean(operand(data))
            case "-":
                return lambda data: _normalize_number(-to_number(operand(data)))
            case _:
                return lambda data: _normalize_number(to_number(operand(data)))

    def parse_member(self) -> Evaluate:
        value = self.parse_primary()
        while True:
            if self.accept("."):
                if self.token.kind != "name":
                    raise self.problem("a name is expected")
                key: Evaluate = _constant(self.token.text)
                self.position += 1
            elif self.accept("["):
                key = self.parse_ternary()
                self.expect("]")
            elif self.token.text == "(" and self.token.kind == "sign":
                raise self.problem("function calls are not supported")
            else:
                return value
            value = _read_property(value, key, self.text)

    def parse_primary(self) -> Evaluate:
        token = self.token
        if self.accept("("):
            value = self.parse_ternary()
            self.expect(")")
            return value
        self.position += 1
        match token.kind:
            case "number":
                return _constant(_normalize_number(float(token.text)))
            case "string":
                return _constant(re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), token.text[1:-1]))
            case "name" if token.text in _LITERALS:
                return _constant(_LITERALS[token.text])
            case "name" if token.text == "$":
                return lambda data: data
        self.position -= 1
        raise self.problem()


def _constant(value: Value) -> Evaluate:
    return lambda _: value


# -- JavaScript's conversions

#: A text that JavaScript and Python convert to the same number.
_DECIMAL = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?")
#: The start of a text that JavaScript certainly converts to NaN. `I` is missing, because `Infinity` is a number.
_NOT_A_NUMBER = re.compile(r"[A-HJ-Za-z_]")
_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")
#: Names that every object inherits: members of Object.prototype, and the methods of Java's maps.
INHERITED = frozenset(
    {
        *("__defineGetter__", "__defineSetter__", "__lookupGetter__", "__lookupSetter__", "__proto__", "constructor"),
        *("hasOwnProperty", "isPrototypeOf", "propertyIsEnumerable", "toLocaleString", "toString", "valueOf"),
        *("clear", "containsKey", "containsValue", "entrySet", "equals", "forEach", "get", "getOrDefault", "isEmpty"),
        *("keySet", "put", "putAll", "putIfAbsent", "remove", "size", "values"),
    }
)


def to_boolean(value: Value) -> bool:
    """Return `Boolean(value)`: empty objects and lists are true."""
    return isinstance(value, Mapping | list) or (value is not UNDEFINED and bool(value))


def to_number(value: Value) -> int | float:
    """Return `Number(value)`."""
    if isinstance(value, int | float):
        return value
    if value is UNDEFINED:
        return math.nan
    if value is None or value == "":
        return 0
    if isinstance(value, str) and _DECIMAL.fullmatch(value):
        return _normalize_number(float(value))
    if isinstance(value, str) and _NOT_A_NUMBER.match(value):
        return math.nan
    raise EngineNeeded("only the engine can compute with a value in the condition that is not a plain number")


def _to_string(value: Value) -> str:
    """Return `String(value)`."""
    if isinstance(value, str):
        return value
    if value is None or value is UNDEFINED:
        return "null" if value is None else "undefined"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    raise EngineNeeded("only the engine can convert a fraction, a list or an object in the condition to text")


def _normalize_number(value: float) -> int | float:
    """Return a number in the form that `Value` describes."""
    if isinstance(value, int) and abs(value) < MAX_SAFE:
        return int(value)
    try:
        value = float(value)
    except OverflowError:
        value = math.inf
    if not math.isfinite(value):
        raise EngineNeeded("a number in the condition is infinite or NaN, which only the engine can handle")
    return int(value) if value.is_integer() and abs(value) < MAX_SAFE else value


# -- JavaScript's operations


def _read_property(value: Evaluate, key: Evaluate, text: str) -> Evaluate:
    def read(data: Data) -> Value:
        owner, name = value(data), _to_string(key(data))
        if owner is None or owner is UNDEFINED:
            raise ConditionError(f"condition '{text}' reads '{name}' of {_to_string(owner)}")
        found = _member(owner, name)
        is_number = isinstance(found, int | float) and not isinstance(found, bool)
        return _normalize_number(found) if is_number else found

    return read


def _member(owner: Value, name: str) -> Value:
    if isinstance(owner, Mapping):
        if name not in owner and name in INHERITED:
            raise EngineNeeded(f"'{name}' is a function of JavaScript or Java")
        return owner.get(name, UNDEFINED)
    # JavaScript counts characters above U+FFFF twice, so only ASCII texts are indexed here.
    if isinstance(owner, list) or (isinstance(owner, str) and owner.isascii()):
        if name == "length":
            return len(owner)
        if _INDEX.fullmatch(name):
            return owner[int(name)] if int(name) < len(owner) else UNDEFINED
    raise EngineNeeded(f"'{name}' may be a JavaScript property that only the engine knows")


def _combine(sign: str, left: Evaluate, right: Evaluate) -> Evaluate:
    if sign == "&&":
        return lambda data: right(data) if to_boolean(value := left(data)) else value
    if sign == "||":
        return lambda data: value if to_boolean(value := left(data)) else right(data)
    apply = _OPERATIONS[sign]
    return lambda data: apply(left(data), right(data))


def _add(left: Value, right: Value) -> Value:
    if isinstance(left, str) or isinstance(right, str):
        texts = _to_string(left), _to_string(right)
        if len(texts[0]) + len(texts[1]) > MAX_TEXT:
            raise EngineNeeded(f"the condition builds a text of more than {MAX_TEXT} characters")
        return "".join(texts)
    return _normalize_number(to_number(left) + to_number(right))


def _arithmetic(compute: Operation) -> Operation:
    def apply(left: Value, right: Value) -> Value:
        try:
            return _normalize_number(compute(to_number(left), to_number(right)))
        except (ArithmeticError, ValueError):  # a division by zero, or an overflow
            raise EngineNeeded(
                "a number in the condition is infinite or NaN, which only the engine can handle"
            ) from None

    return apply


def _comparison(compare: Operation) -> Operation:
    def apply(left: Value, right: Value) -> Value:
        if isinstance(left, str) and isinstance(right, str):
            # JavaScript compares texts by their UTF-16 code units.
            return compare(left.encode("utf-16-be"), right.encode("utf-16-be"))
        return compare(to_number(left), to_number(right))

    return apply


def _type(value: Value) -> type:
    """Return a Python type that stands for the JavaScript type of a value."""
    if isinstance(value, Mapping | list):
        return object
    return float if isinstance(value, int) and not isinstance(value, bool) else type(value)


def _strictly_equal(left: Value, right: Value) -> bool:
    if _type(left) is not _type(right):
        return False
    if _type(left) is object:
        raise EngineNeeded("the condition compares lists or objects")
    return bool(left == right)


def _loosely_equal(left: Value, right: Value) -> bool:
    missing = (left is None or left is UNDEFINED, right is None or right is UNDEFINED)
    if any(missing):
        return all(missing)
    if _type(left) is _type(right):
        return _strictly_equal(left, right)
    return bool(to_number(left) == to_number(right))


_OPERATIONS: dict[str, Operation] = {
    "+": _add,
    "-": _arithmetic(operator.sub),
    "*": _arithmetic(operator.mul),
    "/": _arithmetic(operator.truediv),
    "%": _arithmetic(math.fmod),
    "<": _comparison(operator.lt),
    "<=": _comparison(operator.le),
    ">": _comparison(operator.gt),
    ">=": _comparison(operator.ge),
    "==": _loosely_equal,
    "!=": lambda left, right: not _loosely_equal(left, right),
    "===": _strictly_equal,
    "!==": lambda left, right: not _strictly_equal(left, right),
}
