"""Limits of the process."""

from __future__ import annotations

import resource
from collections.abc import Iterator

import pytest

from conductor.common.machine import MAX_FILES, raise_file_limit, read_file_limit
from conductor.coordinator.http.app import App
from conductor.coordinator.http.connection import MIN_CONNECTIONS, RESERVED_FILES, Connections


@pytest.fixture
def hard() -> Iterator[int]:
    """The hard limit of open files. The soft limit is 512 until the end of the test."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))
    yield hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_the_limit_of_open_files_is_raised_but_never_lowered(hard: int) -> None:
    assert read_file_limit() == 512
    raise_file_limit()
    raised = read_file_limit()
    assert raised == (MAX_FILES if hard == resource.RLIM_INFINITY else min(MAX_FILES, hard))
    raise_file_limit()
    assert read_file_limit() == raised


@pytest.mark.usefixtures("hard")
@pytest.mark.parametrize(("files", "connections"), [(512, 512 - RESERVED_FILES), (130, MIN_CONNECTIONS)])
def test_connections_leave_files_to_the_coordinator(
    monkeypatch: pytest.MonkeyPatch, files: int, connections: int
) -> None:
    monkeypatch.setattr("conductor.coordinator.http.connection.read_file_limit", lambda: files)
    found = Connections(App.__new__(App))
    found.open = dict.fromkeys(range(connections))  # type: ignore[arg-type]
    assert not found.are_too_many
    found.open[connections] = None  # type: ignore[index]
    assert found.are_too_many
