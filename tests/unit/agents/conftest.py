"""The frameworks are installed by `make test-slow`. The fast suite does not import the tests that need them."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

#: The test file and the module of the framework that it needs.
NEEDED = {"test_pydantic_ai.py": "pydantic_ai", "test_openai_agents.py": "agents"}


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Ignore a test whose framework is missing, but only if it would be deselected anyway."""
    needed = NEEDED.get(collection_path.name)
    is_deselected = "not slow" in str(config.option.markexpr)
    return True if needed is not None and is_deselected and find_spec(needed) is None else None
