"""`conductor-worker init`: create a small project."""

from __future__ import annotations

import keyword
import re
import sys
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated

import typer

from conductor.cli.console import print_line
from conductor.cli.support import UserError

#: The files of a new project: path in the project → path of the template.
FILES = {
    "pyproject.toml": "pyproject.toml.txt",
    "README.md": "README.md.txt",
    "{{module}}/__init__.py": "package/__init__.py.txt",
    "{{module}}/workers.py": "package/workers.py.txt",
    "{{module}}/workflows.py": "package/workflows.py.txt",
    "tests/test_order.py": "tests/test_order.py.txt",
    "Dockerfile": "Dockerfile.txt",
    "{{name}}.service": "service.txt",
    ".gitignore": "gitignore.txt",
}


#: An example input for the workflow of a new project.
EXAMPLE_INPUT = '{"order": {"item": "chair", "count": 2}}'


def init(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name of the project and of its directory.", show_default=False)
    ],
) -> None:
    """Create a project with workers, a workflow and tests.

    The project also has a Dockerfile and a systemd unit.
    """
    directory = Path(name)
    module = _module_of(directory.name)
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise UserError(f"{directory} already exists and is not overwritten: use another name")
    words = {"{{name}}": directory.name, "{{module}}": module}
    source = files("conductor.cli") / "new_project"
    try:
        for path, template in FILES.items():
            _write(directory / _fill_in(path, words), source / template, words)
    except OSError as error:
        raise UserError(f"{error.filename or directory} cannot be written: {error.strerror}") from None
    print_line(f"Created {directory}. To run it:")
    print_line(f"  cd {directory} && conductor-worker dev {module}")
    print_line("Its web UI is then at http://127.0.0.1:8080/. To start a workflow, in a second terminal:")
    print_line(f"  conductor-worker workflow start {module}_order --input '{EXAMPLE_INPUT}' --wait")


def _module_of(name: str) -> str:
    module = re.sub(r"[-.]", "_", name).lower()
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9]*([-_.][A-Za-z0-9]+)*", name) or keyword.iskeyword(module):
        raise UserError(f"{name!r} cannot be the name of a project: use letters, digits and -, and begin with a letter")
    if module in sys.stdlib_module_names or module in ("conductor", "tests"):
        raise UserError(f"{name!r} is the name of an existing module: use another name")
    return module


def _write(file: Path, template: Traversable, words: dict[str, str]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("x", encoding="utf-8") as new:
        new.write(_fill_in(template.read_text(encoding="utf-8"), words))


def _fill_in(text: str, words: dict[str, str]) -> str:
    for word, meaning in words.items():
        text = text.replace(word, meaning)
    return text
