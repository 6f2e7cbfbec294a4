"""Every module of src has a test file of its name, or a row in the table of tests/README.md."""

from __future__ import annotations

import re
from pathlib import Path

import conductor

SOURCES = Path(next(iter(conductor.__path__)))
TESTS = Path(__file__).parents[1]


def modules() -> list[str]:
    """The dotted names of all modules, without the packages themselves."""
    paths = [path.relative_to(SOURCES).with_suffix("") for path in SOURCES.rglob("*.py") if path.name != "__init__.py"]
    return sorted(".".join(("conductor", *path.parts)) for path in paths)


def unit_test(module: str) -> Path:
    """The path of the test file that belongs to a module: see tests/README.md."""
    *folders, name = module.removeprefix("conductor.").removeprefix("client.").split(".")
    return TESTS.joinpath("unit", *folders, f"test_{name}.py")


def table() -> dict[str, list[str]]:
    """The table of tests/README.md: from a module, or from `package.*`, to the test files."""
    text = (TESTS / "README.md").read_text()
    rows = re.findall(r"^\| (`conductor\..*`) \| (`.*`) \|$", text, re.MULTILINE)
    return {module: re.findall(r"`([^`]+)`", files) for row, files in rows for module in re.findall(r"`([^`]+)`", row)}


def is_in(module: str, row: str) -> bool:
    return module == row or row == f"{module.rpartition('.')[0]}.*"


def test_every_module_has_its_own_test_file_or_a_row_in_the_table() -> None:
    rows = table()
    missing = [
        module for module in modules() if not unit_test(module).exists() and not any(is_in(module, row) for row in rows)
    ]
    assert missing == [], "add tests/unit/<package>/test_<module>.py, or a row to the table in tests/README.md"


def test_every_row_of_the_table_names_a_module() -> None:
    known = modules()
    assert [row for row in table() if not any(is_in(module, row) for module in known)] == []


def test_every_row_of_the_table_names_test_files() -> None:
    files = {file for files in table().values() for file in files}
    assert [file for file in sorted(files) if not (TESTS / file).is_file()] == []


def test_a_module_with_its_own_test_file_has_no_row() -> None:
    assert [row for row in table() if not row.endswith("*") and unit_test(row).exists()] == []
