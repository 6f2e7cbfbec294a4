"""Skips the collection of slow files unless their tests are selected."""

from __future__ import annotations

from pathlib import Path

import pytest

#: All their tests are slow ones.
SLOW_TO_COLLECT = {"test_coordinator_schemathesis_thorough.py"}


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Each process of a parallel run would collect everything."""
    not_asked_for = "not slow" in config.getoption("markexpr")
    return True if not_asked_for and collection_path.name in SLOW_TO_COLLECT else None
