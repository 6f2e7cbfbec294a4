"""`conductor-worker restore`: what it prints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.coordinator.replication.test_restore import make_copy


def test_the_command_says_what_was_lost(cli: Any, place: Path) -> None:
    make_copy(place)
    refused = cli("restore", "copy.db", "--database", "a.db")
    assert refused.status == 2
    assert "--force" in refused.err
    ran = cli("restore", "copy.db", "--database", "a.db", "--force")
    assert ran.status == 0, ran.err
    assert "1 started workflows are gone" in ran.out
    assert "CANCELLED or REJECTED" in ran.out
    again = cli("restore", "copy.db", "--database", "c.db", "--json")
    assert json.loads(again.out)["running_workflows"] == 1
    assert cli("restore", "copy.db", "--database", "d.db", "--timestamp", "1h").status == 2


def test_a_restore_needs_a_source(cli: Any) -> None:
    ran = cli("restore", "--database", "a.db")
    assert ran.status == 2
    assert "pass a copy or the URL of a replica" in ran.err
    assert "the scheme 'ftp' is unknown" in cli("restore", "ftp://host/x", "--database", "a.db").err


def test_a_visible_password_is_warned_about(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conductor.coordinator.replication.restore.has_files", lambda _program, _replica: False)
    monkeypatch.setattr("conductor.coordinator.replication.restore.find_program", lambda: "litestream")
    ran = cli("restore", "sftp://me:topsecret@host/x", "--database", "a.db")
    assert "set CONDUCTOR_REPLICATE instead" in ran.err
    monkeypatch.setenv("CONDUCTOR_REPLICATE", "sftp://me:topsecret@host/x")
    again = cli("restore", "--database", "a.db")
    assert "there is no replica at sftp://me:***@host/x" in again.err
    assert "instead" not in again.err
    assert "topsecret" not in ran.err + again.err
