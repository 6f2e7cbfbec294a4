"""`conductor-worker restore`: what it prints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

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
    assert "name a copy or the URL of a replica" in ran.err
    assert "the scheme 'ftp' is unknown" in cli("restore", "ftp://host/x", "--database", "a.db").err
