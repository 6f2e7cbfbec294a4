"""The sentences of the sources and of the documentation, and mechanical rules for them."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

#: Patterns that rarely occur in a clear sentence.
RULES = {
    "a word for people": re.compile(r"\b(who|whoever|whom|nobody|somebody|everybody|anybody)\b", re.I),
    "no number": re.compile(r"\bso (many|much|long|few)\b(?! (as|that))|\bthis much\b", re.I),
    "no subject": re.compile(r"^(It|They|One|Those|These|What|Who|The same|Its|Their|Of)\b"),
    "not idiomatic": re.compile(
        r"\b(inside of|for ever|a task more|is no [a-z]+er|run already|besides it|of ours|of theirs|behind a task)\b",
        re.I,
    ),
    "what … what": re.compile(r"\bwhat\b.*\bwhat\b", re.I),
}
_LOG_METHODS = {"debug", "info", "warning", "error", "critical", "exception", "log"}
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


class Sentence(NamedTuple):
    path: Path
    line: int
    text: str

    def broken_rules(self) -> list[str]:
        return [rule for rule, pattern in RULES.items() if pattern.search(self.text)]


def sentences_of_python(path: Path) -> Iterator[Sentence]:
    """Yield the comments, docstrings, log messages and error messages of a Python file."""
    source = path.read_text(encoding="utf-8")
    for line, text in (*_comments(source), *_docstrings_and_messages(ast.parse(source))):
        if len(text.split()) > 2 and not text.startswith(("type:", "noqa", "ruff:")):
            yield Sentence(path, line, text)


def _comments(source: str) -> Iterator[tuple[int, str]]:
    """Yield blocks of comments. Consecutive lines are one block."""
    block: list[str] = []
    first = last = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        if block and token.start[0] != last + 1:
            yield first, " ".join(block)
            block = []
        first = first if block else token.start[0]
        last = token.start[0]
        block.append(token.string.lstrip("#: ").strip())
    if block:
        yield first, " ".join(block)


def _docstrings_and_messages(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, _DOCUMENTED) and (docstring := ast.get_docstring(node)):
            yield node.body[0].lineno, " ".join(docstring.split())
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _LOG_METHODS:
            for argument in node.args[:2]:
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    yield node.lineno, argument.value
        elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
            yield node.lineno, ast.unparse(node.exc.args[0])


def sentences_of_markdown(path: Path) -> Iterator[Sentence]:
    """Yield the sentences of a page, without headings, code blocks and the targets of links."""
    fenced = False
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        elif not fenced and not line.startswith("    ") and not line.lstrip().startswith(("#", "<", "![", ":::")):
            text = re.sub(r"\]\([^)]*\)", "]", line).strip("|*->+ ")
            for part in re.split(r"(?<=[.!?:;]) |\|", text):
                if len(part.split()) > 3:
                    yield Sentence(path, number, part.strip("| *"))
