"""`POST /workflow/start/bulk`, and the clients that use it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from conductor.client.configuration.configuration import Configuration
from conductor.client.http.errors import BulkStartError, NotFoundException
from conductor.client.http.models.start_workflow_request import StartWorkflowRequest
from conductor.client.workflow_client import AsyncWorkflowClient, WorkflowClient
from conductor.coordinator import Coordinator
from conductor.coordinator.workflows import bulk_start
from tests.integration.chaos.processes import CoordinatorProcess

FLOW = {"name": "flow", "tasks": [{"name": "work", "taskReferenceName": "work"}]}
#: A start that is refused where it is decoded, checked or started; its error names the field or the workflow.
REFUSED = [
    ({"name": "flow", "version": "newest"}, 400, "version"),
    ({"name": ""}, 400, "name"),
    ({"name": "flow", "priority": 100}, 400, "priority"),
    ({"name": "flow", "input": None}, 400, "input"),
    ({"name": "flow", "workflowDef": {"tasks": []}}, 400, "tasks"),
    ({"name": "absent"}, 404, "absent"),
    (None, 400, "object"),
    ("flow", 400, "object"),
]


@pytest.fixture
def coordinator() -> Iterator[Coordinator]:
    with Coordinator() as found:
        httpx.post(found.url + "/metadata/workflow", json=FLOW).raise_for_status()
        yield found


@pytest.fixture
def api(coordinator: Coordinator) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=coordinator.url, timeout=60) as client:
        yield client


def size(api: httpx.Client) -> int:
    return _queued(api, "")


class TestTheRoute:
    def test_a_bulk_start_starts_all_and_answers_their_ids_in_order(self, api: httpx.Client) -> None:
        ids = api.post("/workflow/start/bulk", json=[{"name": "flow", "input": {"n": n}} for n in range(50)]).json()
        assert [api.get(f"/workflow/{ids[n]}").json()["input"]["n"] for n in (0, 1, 49)] == [0, 1, 49]
        assert size(api) == 50

    def test_an_element_with_an_error_does_not_hurt_the_others(self, api: httpx.Client) -> None:
        starts = [one for wrong, _, _ in REFUSED for one in ({"name": "flow"}, wrong)]
        answer = api.post("/workflow/start/bulk", json=starts)
        assert answer.status_code == 200
        assert all(isinstance(result, str) for result in answer.json()[::2])
        for result, (wrong, status, said) in zip(answer.json()[1::2], REFUSED, strict=True):
            assert (result["status"], said in str(result)) == (status, True), (wrong, result)
        assert size(api) == len(REFUSED)

    @pytest.mark.parametrize(
        ("body", "said"),
        [
            ('{"name": "flow"}', "Expected `array`"),
            ('[{"name": "flow"}', "truncated"),
            ("[" + ",".join(['{"name": "flow"}'] * 1001) + "]", "at most 1000 start requests, not 1001"),
        ],
    )
    def test_a_body_that_is_no_array_of_at_most_1000_is_refused_as_a_whole(
        self, api: httpx.Client, body: str, said: str
    ) -> None:
        api.post("/workflow", json={"name": "flow"})
        answer = api.post("/workflow/start/bulk", content=body, headers={"content-type": "application/json"})
        assert (answer.status_code, said in answer.json()["message"]) == (400, True), answer.text
        assert size(api) == 1

    def test_an_empty_array_is_answered_by_one(self, api: httpx.Client) -> None:
        assert api.post("/workflow/start/bulk", json=[]).json() == []

    def test_a_workflow_named_start_is_still_started_by_its_name(self, api: httpx.Client) -> None:
        api.post("/metadata/workflow", json={**FLOW, "name": "start"})
        assert api.post("/workflow/start", json={}).status_code == 200

    def test_polls_are_answered_between_the_turns_of_a_bulk(
        self, api: httpx.Client, coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A poll that comes during the first turn is answered before the third: the bulk does not hold the writer."""
        turns, polled, wait = list[int](), threading.Event(), threading.Event()
        monkeypatch.setattr(bulk_start, "TURN_S", -1)  # one start per turn
        start_each = bulk_start._start_each

        def counting(*args: Any, **more: Any) -> Any:
            turns.append(1)
            if len(turns) == 1:
                wait.set()
                core = coordinator.core
                assert core is not None
                assert _until(lambda: len(core.store._pacer) > 0)  # the poll is in line
            elif len(turns) == 3:
                assert polled.wait(60)
            return start_each(*args, **more)

        monkeypatch.setattr(bulk_start, "_start_each", counting)

        def poll() -> None:
            wait.wait(60)
            httpx.get(coordinator.url + "/tasks/poll/batch/work", params={"timeout": 0}, timeout=60)
            polled.set()

        poller = threading.Thread(target=poll)
        poller.start()
        answer = api.post("/workflow/start/bulk", json=[{"name": "flow"}] * 5)
        poller.join()
        assert (len(answer.json()), len(turns)) == (5, 5)


def _until(look: Any) -> bool:
    for _ in range(6000):
        if look():
            return True
        threading.Event().wait(0.01)
    return False


class TestClients:
    def test_start_workflows_uses_bulk_requests_of_a_thousand(self, coordinator: Coordinator) -> None:
        with WorkflowClient(Configuration(coordinator.url)) as workflows:
            ids = workflows.start_workflows([StartWorkflowRequest(name="flow", input={"n": n}) for n in range(1500)])
            assert workflows.get_workflow(ids[1200]).input == {"n": 1200}
        assert len(set(ids)) == 1500
        core = coordinator.core
        assert core is not None
        calls = [uri for (_, uri, _), times in core.request_times.items() for _ in range(sum(times.counts))]
        assert (calls.count("/api/workflow/start/bulk"), calls.count("/api/workflow")) == (2, 0)

    def test_the_asynchronous_client_has_it_too(self, coordinator: Coordinator) -> None:
        async def start() -> list[str]:
            async with AsyncWorkflowClient(Configuration(coordinator.url)) as workflows:
                return await workflows.start_workflows([StartWorkflowRequest(name="flow")] * 3)

        assert len(set(asyncio.run(start()))) == 3

    def test_the_client_reports_started_and_failed_starts(self, coordinator: Coordinator) -> None:
        requests = [StartWorkflowRequest(name=name) for name in ("flow", "absent", "flow")]
        with WorkflowClient(Configuration(coordinator.url)) as workflows, pytest.raises(BulkStartError) as caught:
            workflows.start_workflows(requests)
        first, second, third = caught.value.results
        assert isinstance(first, str)
        assert isinstance(third, str)
        assert isinstance(second, NotFoundException)
        assert str(caught.value).startswith("1 of 3 workflows were not started; the first: ")
        assert "absent" in str(caught.value)


@pytest.mark.parametrize("moment", ["before its first commit", "after its first commit", "after its answer"])
def test_after_kill_9_a_bulk_is_there_or_can_be_repeated(tmp_path: Path, moment: str) -> None:
    """A bulk without an answer is sent again with its keys: every key has one workflow, and every answered id lives."""
    starts = [{"name": "flow", "idempotencyKey": str(n), "input": {"n": n}} for n in range(1000)]
    answered: list[str] = []
    with CoordinatorProcess(tmp_path / "c.db", tmp_path / "log") as process, httpx.Client(timeout=60) as client:
        url = f"http://127.0.0.1:{process.port}/api"
        client.post(url + "/metadata/workflow", json=FLOW).raise_for_status()
        answered += client.post(url + "/workflow/start/bulk", json=starts[:200]).json()
        sender = threading.Thread(target=_send_bulk, args=(url, starts[200:], answered))
        sender.start()
        if moment == "after its first commit":
            assert _until(lambda: _queued(client, url) > 200)
        elif moment == "after its answer":
            sender.join()
        process.kill()
        sender.join()
        process.start()
        url = f"http://127.0.0.1:{process.port}/api"
        assert _queued(client, url) >= len(answered)
        ids = client.post(url + "/workflow/start/bulk", json=starts).json()
        assert ids[: len(answered)] == answered
        assert len(set(ids)) == 1000
        assert _queued(client, url) == 1000


def _send_bulk(url: str, starts: list[dict[str, Any]], answered: list[str]) -> None:
    with contextlib.suppress(httpx.TransportError):  # killed before it was answered
        answered += httpx.post(url + "/workflow/start/bulk", json=starts, timeout=60).json()


def _queued(client: httpx.Client, url: str) -> int:
    return int(client.get(url + "/tasks/queue/sizes", params={"taskType": "work"}).json()["work"])
