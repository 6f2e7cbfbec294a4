"""Hooks for `mkdocs build`: the navigation, pages from outside `docs/`, and `llms.txt`.

`contents.md` is the table of contents. Its bold headings are the sections of the navigation, in that order. A page that
it does not list is added to the section with most pages of the same folder, so that a new page never breaks the site.
"""

from __future__ import annotations

import posixpath
import re
import runpy
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

DOCS = Path(__file__).parent
PROJECT = DOCS.parent
#: Folder of the site for files outside `docs/` that pages link to.
OUTSIDE = "project"
#: Marks a whole program, as in `python run`. The site shows it like any other block.
_RUN_MARK = re.compile(r"^(```\w+) run$", re.MULTILINE)
_LINK = re.compile(r"(?<=\]\()(?!\w+:|#)([^)#\s]+)")
_SECTION = re.compile(r"^\*\*(.+)\*\*$")
_ENTRY = re.compile(r"^- \[(.+?)\]\(([^)#]+\.md)\)(?:: (.+))?$")


def build_python_pages() -> dict[str, str]:
    """Return the reference pages of the Python names: path to text."""
    made: dict[str, str] = runpy.run_path(str(DOCS / "python_reference.py"))["pages"]()
    return made


def read_contents() -> dict[str, dict[str, tuple[str, str]]]:
    """Return each section's pages, path to title and description, in the order of contents.md."""
    sections: dict[str, dict[str, tuple[str, str]]] = {}
    for line in (DOCS / "contents.md").read_text("utf-8").splitlines():
        if heading := _SECTION.match(line):
            sections[heading[1]] = {}
        elif (entry := _ENTRY.match(line)) and sections:
            sections[list(sections)[-1]][entry[2]] = (entry[1], entry[3] or "")
    for page in sorted(DOCS.rglob("*.md")):
        path = page.relative_to(DOCS).as_posix()
        if path not in ("index.md", "contents.md") and not any(path in pages for pages in sections.values()):
            find_section(path, sections)[path] = (find_title(page.read_text("utf-8"), path), "")
    return sections


def find_section(path: str, sections: dict[str, dict[str, tuple[str, str]]]) -> dict[str, tuple[str, str]]:
    """Return the section that has most pages of the same folder."""
    folder = posixpath.dirname(path)
    return max(sections.values(), key=lambda pages: sum(posixpath.dirname(other) == folder for other in pages))


def find_title(text: str, path: str) -> str:
    """Return the first heading of a page."""
    found = re.search(r"^# (.+)$", text, re.MULTILINE)
    return found[1] if found else path


def find_outside_links(markdown: str, path: str) -> dict[str, Path]:
    """Return the links of a page to files outside `docs/`: the link as written, and the file."""
    found = {}
    for link in _LINK.findall(markdown):
        target = (DOCS / posixpath.dirname(path) / link).resolve()
        if target.is_relative_to(PROJECT) and not target.is_relative_to(DOCS) and target.is_file():
            found[link] = target
    return found


def site_path(target: Path) -> str:
    """Return the path on the site of a file outside `docs/`. Source files are shown as text."""
    path = target.relative_to(PROJECT).as_posix()
    return f"{OUTSIDE}/{path}" + ("" if target.suffix in (".md", ".json") else ".txt")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Set the navigation."""
    sections: list[Any] = [{"Home": "index.md"}]
    for name, pages in read_contents().items():
        sections.append({name: [{title: path} for path, (title, _) in pages.items()]})
    sections.append({"Python": [{find_title(text, path): path} for path, text in build_python_pages().items()]})
    project = {"README": "README.md", "Deployment recipes": "deploy/README.md", "Changelog": "CHANGELOG.md"}
    project |= {"Contributing": "CONTRIBUTING.md", "Security policy": "SECURITY.md"}
    sections.append({"Project": [{"All pages": "contents.md"}, *({t: f"{OUTSIDE}/{p}"} for t, p in project.items())]})
    config.nav = sections
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages made from code, and the files outside `docs/` that pages link to, directly or indirectly."""
    for path, text in build_python_pages().items():
        files.append(File.generated(config, path, content=text))
    todo = [PROJECT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")]
    for page in DOCS.rglob("*.md"):
        todo += find_outside_links(page.read_text("utf-8"), page.relative_to(DOCS).as_posix()).values()
    while todo:
        target = todo.pop()
        if files.get_file_from_path(site_path(target)) is None:
            text = target.read_text("utf-8")
            files.append(File.generated(config, site_path(target), content=text))
            if target.suffix == ".md":
                todo += find_outside_links(text, posixpath.relpath(target, DOCS)).values()
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Rewrite links between `docs/` and the rest of the project for the site."""
    path = page.file.src_uri
    shown = _RUN_MARK.sub(r"\1", markdown)
    home = PROJECT / path.removeprefix(f"{OUTSIDE}/") if path.startswith(f"{OUTSIDE}/") else DOCS / path

    def rewrite(found: re.Match[str]) -> str:
        target = (home.parent / found[1]).resolve()
        if not target.is_file() or not target.is_relative_to(PROJECT):
            return found[1]
        place = target.relative_to(DOCS).as_posix() if target.is_relative_to(DOCS) else site_path(target)
        return posixpath.relpath(place, posixpath.dirname(path) or ".")

    return _LINK.sub(rewrite, shown)


def build_llms_txt() -> str:
    """Return the contents of `llms.txt`: a summary and one line per page."""
    lines = ["# conductor-worker", "", f"> {read_summary()}", ""]
    for name, pages in read_contents().items():
        lines += [f"## {name}", ""]
        lines += [f"- [{title}]({path})" + (f": {about}" if about else "") for path, (title, about) in pages.items()]
        lines.append("")
    return "\n".join(lines)


def read_summary() -> str:
    """Return the first paragraph of the home page, after its front matter and title."""
    return " ".join((DOCS / "index.md").read_text("utf-8").split("\n\n")[2].split())


def on_post_build(config: MkDocsConfig) -> None:
    """Write `llms.txt` and the Markdown sources that it links to."""
    site = Path(config.site_dir)
    (site / "llms.txt").write_text(build_llms_txt(), "utf-8")
    for page in DOCS.rglob("*.md"):
        (site / page.relative_to(DOCS)).write_text(page.read_text("utf-8"), "utf-8")
