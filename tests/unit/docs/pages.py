"""The documentation as the tests read it: pages, blocks of code, links, headings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[3]
PAGES = sorted(
    [
        *ROOT.glob("docs/**/*.md"),
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "deploy/README.md")),
    ]
)
_FENCE = re.compile(r"^```(\w*)( run)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_CODE = re.compile(r"`([^`\n]+)`")


class Block(NamedTuple):
    """A piece of code on a page."""

    page: Path
    line: int
    language: str
    #: whether it is a whole program that ends by itself
    runs: bool
    code: str

    def __str__(self) -> str:
        return f"{name_of(self.page)}:{self.line}"


def name_of(page: Path) -> str:
    """The page's path inside the project."""
    return str(page.relative_to(ROOT))


def blocks(*languages: str) -> list[Block]:
    """All blocks in these languages."""
    return [block for page in PAGES for block in blocks_of(page) if block.language in languages]


def blocks_of(page: Path) -> Iterator[Block]:
    """The blocks of a page."""
    text = page.read_text()
    for found in _FENCE.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        yield Block(page, line, found[1], found[2] is not None, found[3])


def program(page: str, file_name: str) -> str:
    """The block of a page that begins with this file's name."""
    for block in blocks_of(ROOT / page):
        if block.code.startswith(f"# {file_name}\n"):
            return block.code
    raise LookupError(f"{page} has no block that begins with '# {file_name}'")


def prose_of(page: Path) -> str:
    """The page without its blocks."""
    return _FENCE.sub("", page.read_text())


def code_words(page: Path) -> list[str]:
    """Return the words that the prose of a page marks as code."""
    return _CODE.findall(prose_of(page))


def links(page: Path) -> list[str]:
    """Where a page points to."""
    return _LINK.findall(prose_of(page))


def anchors(page: Path) -> set[str]:
    """The headings of a page, as links name them."""
    headings = re.findall(r"^#+ (.+)$", prose_of(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}
