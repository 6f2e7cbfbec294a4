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


#: The pages whose programs are type-checked, with the start of the names of their copies.
TYPED_PAGES = {
    "README.md": "readme",
    "docs/quickstart.md": "quickstart",
    "docs/tutorial.md": "tutorial",
    "docs/howto/author-a-workflow.md": "author_a_workflow",
}
#: `make check` type-checks these copies of programs on `TYPED_PAGES`.
TYPED_COPIES = ROOT / "tests" / "typing" / "programs"
# Programs that a type checker rejects: a deliberate mistake, the calls of conductor-python, which have other parameters
# than the function, pytest functions, and programs that import a module of the user.
_UNTYPED = re.compile(r"\bnmae=|\btask_ref_name=|^# test_|^from orders import", re.MULTILINE)


def typed_programs() -> dict[str, str]:
    """Return the programs of `TYPED_PAGES` by the names of their copies."""
    found: dict[str, str] = {}
    for page, start in TYPED_PAGES.items():
        of_page = [block.code for block in blocks_of(ROOT / page) if block.language == "python"]
        kept = [code for code in of_page if not _UNTYPED.search(code)]
        found |= {f"{start}_{number}.py": code for number, code in enumerate(kept, 1)}
    return found


def write_typed_programs() -> None:
    """Write the copies again: `python -m tests.unit.docs.pages`."""
    for old in TYPED_COPIES.glob("*.py"):
        old.unlink()
    TYPED_COPIES.mkdir(exist_ok=True)
    for name, code in typed_programs().items():
        (TYPED_COPIES / name).write_text(code)


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


if __name__ == "__main__":
    write_typed_programs()
