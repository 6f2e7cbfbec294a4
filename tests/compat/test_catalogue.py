"""Every printed block runs or has a reason not to, and runs as it was printed."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

from tests.compat.catalogue import BLOCKS, NOT_RUN, RUN, path_of, printed

HERE = Path(__file__).parent


def test_every_block_is_run_or_has_a_reason() -> None:
    assert RUN.keys() | NOT_RUN.keys() == printed()
    assert not RUN.keys() & NOT_RUN.keys()
    assert {path.stem for path in BLOCKS.glob("*.py")} == RUN.keys()


@pytest.mark.parametrize("name", RUN)
def test_a_block_is_as_printed(name: str) -> None:
    assert hashlib.sha256(path_of(name).read_bytes()).hexdigest()[:16] == RUN[name]


def test_every_file_of_a_block_is_used_by_a_test() -> None:
    tests = "".join(path.read_text() for path in HERE.glob("test_*.py"))
    assert set(re.findall(r"s\d{3}_\d{3,4}", tests)) >= RUN.keys()
