from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.coordinator.core_harness import Harness


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    with Harness(tmp_path / "coordinator.db") as found:
        yield found
