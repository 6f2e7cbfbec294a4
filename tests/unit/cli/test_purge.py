"""`conductor-worker purge`: removing finished workflows that are older than a time."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conductor.cli.newest_workflows import PAGE_SIZE
from conductor.coordinator import Coordinator
from tests.unit.cli.server_client import Client, simple

Purge = Callable[..., Any]
#: A moment after everything.
LATER = "2100-01-01"


@pytest.fixture
def client() -> Iterator[Client]:
    """A client with one running, two completed and one terminated workflow."""
    with Coordinator() as coordinator:
        made = Client(coordinator.url)
        for name in ("errand", "other"):
            made.register(name, simple(name))
            made.start(name)
            made.work(name)
        made.ask(f"/workflow/{made.start('errand')}", method="DELETE")
        made.start("errand")
        yield made


@pytest.fixture
def purge(cli: Any, client: Client) -> Purge:
    """`conductor-worker purge …` on this server."""
    return lambda *arguments: cli("purge", *arguments, "--url", client.url)


def left(client: Client) -> dict[str, str]:
    """Id → status of what is still there."""
    return {one["workflowId"]: one["status"] for one in client.ask("/workflow/search?size=5000")["results"]}


def test_a_dry_run_only_says_what_would_go(client: Client, purge: Purge) -> None:
    before = left(client)
    ran = purge("--older-than", LATER, "--dry-run")
    assert ran.status == 0
    assert ran.out.startswith("3 finished workflows, ended from 2")
    assert ran.out.endswith(" would be removed.\n")
    said = json.loads(purge("--older-than", LATER, "--dry-run", "--json").out)
    assert set(said["found"]) == {one for one, status in before.items() if status != "RUNNING"}
    assert (said["removed"], said["kept"], left(client)) == ([], {}, before)


def test_purge_removes_finished_workflows_and_keeps_running_ones(client: Client, purge: Purge) -> None:
    assert purge("--older-than", "1h", "--yes").out == "No finished workflows to remove.\n"
    ran = purge("--older-than", LATER, "--yes")
    assert ran.status == 0
    assert ran.out.endswith(" found: 3 removed, 0 kept.\n")
    assert list(left(client).values()) == ["RUNNING"]


def test_purge_removes_only_workflows_of_a_name_or_status(client: Client, purge: Purge) -> None:
    said = json.loads(purge("--older-than", LATER, "--yes", "--json", "--name", "errand", "--status", "completed").out)
    assert len(said["removed"]) == 1
    assert sorted(left(client).values()) == ["COMPLETED", "RUNNING", "TERMINATED"]


@pytest.mark.parametrize(("typed", "status", "stay"), [("n\n", 1, 4), ("\n", 1, 4), ("", 2, 4), ("yes\n", 0, 1)])
def test_purge_asks_first(
    client: Client, purge: Purge, monkeypatch: pytest.MonkeyPatch, typed: str, status: int, stay: int
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    ran = purge("--older-than", LATER, "--json")
    assert f"on {client.url} will be removed permanently. Remove them? [y/N]" in ran.err
    assert (ran.status, len(left(client))) == (status, stay)
    assert not ran.out or json.loads(ran.out), "nothing else on the standard output"


def test_purge_removes_more_than_one_page_of_workflows(client: Client, purge: Purge) -> None:
    for _ in range(PAGE_SIZE + 5):
        client.start("other")
    while client.work("other", count=100):
        pass
    assert len(json.loads(purge("--older-than", LATER, "--yes", "--json").out)["removed"]) == PAGE_SIZE + 8


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "--older-than"),
        (["--older-than", "old"], "--older-than: 'old' is not a time"),
        (["--older-than", "1d", "--status", "RUNNING"], "--status: 'RUNNING' is not one of COMPLETED, FAILED"),
    ],
)
def test_mistakes_of_purge_are_one_line(purge: Purge, arguments: list[str], said: str) -> None:
    ran = purge(*arguments)
    assert (ran.status, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert said in ran.err


def test_vacuum_makes_the_file_smaller_o03(cli: Any, tmp_path: Path) -> None:
    with Coordinator(tmp_path / "a.db") as coordinator:
        made = Client(coordinator.url)
        made.register("errand", simple("errand"))
        for _ in range(20):
            made.start("errand", {"payload": "x" * 100_000})
            made.work("errand")
        ran = cli("purge", "--older-than", LATER, "--yes", "--vacuum", "--json", "--url", coordinator.url)
        sizes = json.loads(ran.out)["vacuum"]
        assert sizes["bytesBefore"] > 2_000_000 > sizes["bytesAfter"]
        assert (tmp_path / "a.db").stat().st_size == sizes["bytesAfter"]
        made.start("errand")
        assert cli("purge", "--older-than", LATER, "--yes", "--vacuum", "--url", coordinator.url).status == 0


def test_vacuum_needs_a_coordinator_o03(cli: Any, conductor_stub: Any) -> None:
    ran = cli("purge", "--older-than", LATER, "--yes", "--vacuum", "--url", conductor_stub.url)
    assert ran.status == 2
