"""`conductor-worker queues`: the waiting tasks, and whether a worker polls for them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from conductor.cli.queue_state import QueueState
from conductor.coordinator import Coordinator
from conductor.testing import ConductorStub

HOUR_S = 3600.0


def ask(url: str, body: object = None) -> str:
    data = None if body is None else json.dumps(body).encode()
    with urlopen(Request(url, data, {"Content-Type": "application/json"}), timeout=60) as answer:
        return str(answer.read().decode())


@pytest.fixture
def coordinator(tmp_path: Path) -> Any:
    """A coordinator where one task of `lonely` and two of `busy` wait; only `busy` has a worker."""
    with Coordinator(tmp_path / "a.db") as running:
        for name, count in (("lonely", 1), ("busy", 2)):
            ask(f"{running.url}/metadata/taskdefs", [{"name": name, "ownerEmail": "ada@example.com"}])
            tasks = [{"name": name, "taskReferenceName": "t", "type": "SIMPLE"}]
            ask(f"{running.url}/metadata/workflow", {"name": name, "tasks": tasks})
            for _ in range(count):
                ask(f"{running.url}/workflow/{name}", {})
        ask(f"{running.url}/tasks/poll/batch/busy?count=1&timeout=0&workerid=ada")
        yield running


def test_doctor_names_a_queue_that_nobody_polls_and_for_how_long(cli: Any, coordinator: Coordinator) -> None:
    ran = cli("doctor", "--url", coordinator.url)
    assert ran.status == 0, "workers can run here; that is not all there is to say"
    (line,) = [line for line in ran.out.splitlines() if line.startswith("warning") and "lonely" in line]
    assert "no worker has polled lonely since the server started" in line
    assert "Start a worker that polls lonely" in ran.out
    assert "tasks of busy" not in ran.out
    assert "polls busy" not in ran.out


def test_doctor_names_unpolled_queues_on_a_conductor_server_too(cli: Any, conductor_stub: ConductorStub) -> None:
    conductor_stub.add_task("lonely")
    conductor_stub.add_task("lonely", domain="blue")
    ran = cli("doctor", "--url", conductor_stub.url)
    lines = [line.strip() for line in ran.out.splitlines()]
    for queue, remedy in (("lonely", "lonely."), ("blue:lonely", "lonely in domain blue.")):
        at = lines.index(f"warning  1 task waits in queue {queue}, and no worker polls it")
        assert lines[at + 1] == f"Run a worker for {remedy}"


def test_doctor_says_so_when_every_queue_has_a_worker(cli: Any, conductor_stub: ConductorStub) -> None:
    conductor_stub.add_task("busy")
    conductor_stub.add_task("busy")
    ask(f"{conductor_stub.url}/tasks/poll/batch/busy?count=1&timeout=0")
    assert "ok  every queue in which tasks wait is polled" in cli("doctor", "--url", conductor_stub.url).out


def test_doctor_counts_what_is_too_much_to_list(cli: Any, conductor_stub: ConductorStub) -> None:
    for number in range(13):
        conductor_stub.add_task(f"lonely{number}")
    ran = cli("doctor", "--url", conductor_stub.url)
    assert ran.out.count("no worker polls it") == 10
    assert "warning  3 more such queues\n         `conductor-worker queues` lists them." in ran.out


def test_queues_lists_all_and_flags_those_that_nobody_polls(cli: Any, coordinator: Coordinator) -> None:
    ran = cli("queues", "--url", coordinator.url)
    assert ran.status == 0
    rows = {line.split()[0]: line for line in ran.out.splitlines()}
    assert "NO WORKER POLLS" in rows["lonely"]
    assert "NO WORKER POLLS" not in rows["busy"]
    assert "ada" in rows["busy"]


def test_queues_writes_json_for_programs(cli: Any, coordinator: Coordinator) -> None:
    busy, lonely = json.loads(cli("queues", "--json", "--url", coordinator.url).out)
    assert (busy["queue"], busy["waiting"], busy["lastWorkerId"], busy["unattended"]) == ("busy", 1, "ada", False)
    assert lonely.pop("oldestSeconds") >= 0
    assert lonely == {
        "queue": "lonely",
        "taskType": "lonely",
        "domain": None,
        "waiting": 1,
        "lastPollSeconds": None,
        "lastWorkerId": None,
        "unattended": True,
    }


def test_no_queues_and_no_server(cli: Any, conductor_stub: ConductorStub) -> None:
    assert "There are no queues: " in cli("queues", "--url", conductor_stub.url).out
    gone = cli("queues", "--url", "http://127.0.0.1:1")
    assert gone.status == 2
    assert "http://127.0.0.1:1/api cannot list its queues" in gone.err


def test_a_worker_that_polled_an_hour_ago_does_not_count() -> None:
    queue = QueueState("greet", "blue", 3, oldest_s=2 * HOUR_S, polled_s=HOUR_S)
    assert queue.unattended
    assert queue.problem == (
        "3 tasks wait in queue blue:greet, the oldest for 2 h, and the last poll was 60 min ago: "
        "run a worker for greet in domain blue"
    )
    assert not queue._replace(waiting=0).unattended, "nothing waits"
    assert not queue._replace(polled_s=5).unattended
