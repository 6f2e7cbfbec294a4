"""Fixtures for tests of workers; pytest finds them by itself once the package is installed.

Nothing of the package is imported before a test asks for a fixture.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conductor.testing.fake_clock import FakeClock
    from conductor.testing.stub import ConductorStub


@pytest.fixture
def conductor_stub() -> Iterator[ConductorStub]:
    """A running `ConductorStub`, stopped after the test."""
    from conductor.testing.stub import ConductorStub

    with ConductorStub() as stub:
        yield stub


@pytest.fixture
def fake_clock() -> FakeClock:
    """A `FakeClock` that stands still until the test advances it."""
    from conductor.testing.fake_clock import FakeClock

    return FakeClock()
