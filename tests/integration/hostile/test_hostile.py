"""No data can stop the server: the neighbours of each hostile case are served, now and after a restart."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .cases import CASES, IN_THE_FAST_SUITE, Case
from .neighbour import HANGS_AFTER_S, Neighbour
from .server import Server
from .world import World

MAX_RSS_MB = 300
#: Longer waits of the neighbour are printed with the results.
WORTH_A_LINE_S = 0.3


def test_there_are_enough_cases() -> None:
    assert len(CASES) >= 60
    assert set(IN_THE_FAST_SUITE) <= set(CASES)


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case.__name__, marks=() if case in IN_THE_FAST_SUITE else pytest.mark.slow)
        for case in CASES
    ],
)
def test_no_hostile_case_affects_other_clients(
    case: Case, tmp_path: Path, record_property: Callable[[str, Any], None]
) -> None:
    database = tmp_path / "hostile.db"
    with Server(database) as server:
        with Neighbour(server.url) as beside:
            _run(case, server.url)
        assert server.lives
    with Server(database) as again:
        with Neighbour(again.url, at_least=20) as afterwards:
            pass
        assert again.lives
    figures = _figures("beside it", beside, server) + _figures("after kill -9", afterwards, again)
    if figures:
        record_property("figures", "\n".join(figures))
    # A hang, on whatever machine; how long is long on a quiet one, the figures say.
    assert max(*beside.longest_s.values(), *afterwards.longest_s.values()) < HANGS_AFTER_S
    assert server.peak_rss_mb < MAX_RSS_MB
    assert again.peak_rss_mb < MAX_RSS_MB


def _run(case: Case, url: str) -> None:
    world = World(url)
    try:
        case(world)
    finally:
        world.close()


def _figures(when: str, neighbour: Neighbour, server: Server) -> list[str]:
    waits = ", ".join(f"{name} {longest_s:.2f} s" for name, longest_s in neighbour.longest_s.items())
    large = server.peak_rss_mb > MAX_RSS_MB / 2
    if not large and max(neighbour.longest_s.values()) < WORTH_A_LINE_S:
        return []
    return [f"{when}: longest waits {waits} of {neighbour.answered} answers; memory {server.peak_rss_mb:.0f} MB"]
