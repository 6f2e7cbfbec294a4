"""A request script has the same answers on the coordinator and on a Conductor server, except for listed differences."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest

from tests.acceptance.replay.differences import compare, read_expected
from tests.acceptance.replay.player import Answer, Ask, Player
from tests.acceptance.replay.script import SCRIPT
from tests.acceptance.servers.targets import EmbeddedCoordinator, Target

LIST = Path(__file__).parent / "replay" / "differences.toml"
REAL = ("conductor-sqlite", "conductor-postgres", "conductor-redis")


def play(url: str, script: list[Ask]) -> list[Answer]:
    """The answers of one server; names of this run are the same to both."""
    names = {name: f"{name}{secrets.token_hex(4)}" for name in ("type", "flow", "domain")}
    return Player(url, names).play(script)


@pytest.mark.targets(*REAL)
def test_only_what_is_listed_differs(
    target: Target, coordinator: EmbeddedCoordinator, request: pytest.FixtureRequest
) -> None:
    name = request.node.callspec.params["target"]
    expected = read_expected(LIST, name)
    script = [ask for ask in SCRIPT if target.indexed or not ask.indexed]
    found = compare(play(target.url, script), play(coordinator.url, script))
    news = [str(difference) for difference in found if not any(entry.covers(difference) for entry in expected)]
    gone = [
        f"{pattern!r} of: {entry.reason}"
        for entry in expected
        for pattern in (*entry.answers, *entry.fields)
        if not any(entry.covers(difference) and entry.names(pattern, difference) for difference in found)
    ]
    assert not news, f"new differences on {name}:\n" + "\n".join(news)
    assert not gone, f"listed, but gone on {name}:\n" + "\n".join(gone)


def test_no_two_requests_have_the_same_title() -> None:
    titles = [ask.title for ask in SCRIPT]
    assert len(titles) == len(set(titles))
