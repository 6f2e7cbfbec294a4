"""The promises of a server to a worker over HTTP: equal on the coordinator and on the stub of the test kit."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.contract.either_server import LEASE_S, EitherServer, Task, asked, said, verdict_of

COMMITTED = (200, "COMMITTED")
CANCELLED = (409, "CANCELLED")


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        threading.Event().wait(0.005)


def expires_at(answer: httpx.Response) -> int:
    return int(answer.headers["conductor-lease-expires-at"])


class TestPolling:
    def test_a_poll_grants_a_lease_with_an_id_a_holder_and_an_end(self, server: EitherServer) -> None:
        task_id = server.add_task()
        task = server.take("w1")
        assert (task["taskId"], task["workerId"], task["status"], task["pollCount"]) == (
            task_id,
            "w1",
            "IN_PROGRESS",
            1,
        )
        assert task["leaseId"]
        assert task["leaseExpiresAt"] == server.clock.wall_ms() + LEASE_S * 1000

    def test_a_poll_gives_a_task_to_one_worker_only(self, server: EitherServer, task: Task) -> None:
        assert server.poll("w2") == []
        assert server.stored(task["taskId"])["workerId"] == "w1"

    def test_a_poll_gives_no_more_than_was_asked_for(self, server: EitherServer) -> None:
        ids = [server.add_task() for _ in range(5)]
        batches = [server.poll(count=3), server.poll(count=3), server.poll(count=3)]
        assert [[task["taskId"] for task in batch] for batch in batches] == [ids[:3], ids[3:], []]
        assert len({task["leaseId"] for batch in batches for task in batch}) == 5

    @pytest.mark.parametrize("work", [0, 1], ids=["empty", "with work"])
    @pytest.mark.parametrize(
        ("method", "path", "empty"),
        [("GET", "batch/work", 200), ("POST", "batch/work", 200), ("GET", "work", 204)],
        ids=["batch", "batch by POST", "single"],
    )
    def test_every_answer_says_what_the_server_can_do(
        self, server: EitherServer, method: str, path: str, empty: int, work: int
    ) -> None:
        for _ in range(work):
            server.add_task()
        query = asked(count=1) if "batch" in path else {}
        with passing_time(server):
            answer = server.api.request(method, f"/tasks/poll/{path}", params=query)
        assert answer.headers["conductor-features"].startswith("leases, batch-reports")
        assert answer.status_code == (200 if work else empty)
        assert len([answer.json()] if "leaseId" in answer.text else []) == work

    def test_a_poll_longer_than_five_seconds_is_refused(self, server: EitherServer) -> None:
        answer = server.api.get("/tasks/poll/batch/work", params={"timeout": 5001})
        assert answer.status_code == 400
        assert answer.json()["message"] == "Long Poll Timeout value cannot be more than 5 seconds"


class Polling:
    """Long polls under way, each in a thread of its own."""

    def __init__(self, server: EitherServer) -> None:
        self._server = server
        self._threads = ThreadPoolExecutor()

    def start(self, worker: str | None = "w1", **query: Any) -> Future[list[Task]]:
        """A poll that is parked when this returns."""
        parked = self._server.parked_polls()
        future = self._threads.submit(self._ask, asked(worker, **{"timeout": 5000, **query}))
        until(lambda: self._server.parked_polls() > parked)
        return future

    def _ask(self, query: dict[str, Any]) -> list[Task]:
        found: list[Task] = httpx.get(f"{self._server.url}/tasks/poll/batch/work", params=query, trust_env=False).json()
        return found


class passing_time:  # noqa: N801 - reads as a statement
    """The clock runs while the block waits for an answer."""

    def __init__(self, server: EitherServer) -> None:
        self._clock = server.clock
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._over.wait(0.005):
            self._clock.advance(0.1)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


class TestLongPolling:
    @pytest.fixture
    def polling(self, server: EitherServer) -> Polling:
        return Polling(server)

    def test_a_long_poll_is_answered_when_work_comes(self, server: EitherServer, polling: Polling) -> None:
        waiting = polling.start()
        task_id = server.add_task()
        assert [task["taskId"] for task in waiting.result(60)] == [task_id]

    def test_a_long_poll_is_answered_with_nothing_when_its_time_is_over(
        self, server: EitherServer, polling: Polling
    ) -> None:
        waiting = polling.start(timeout=3000)
        server.clock.advance(2.9)
        assert server.parked_polls() == 1
        server.clock.advance(0.1)
        assert waiting.result(60) == []

    def test_the_lease_of_a_long_poll_begins_when_the_task_is_given(
        self, server: EitherServer, polling: Polling
    ) -> None:
        waiting = polling.start()
        server.clock.advance(4)
        server.add_task()
        (task,) = waiting.result(60)
        assert task["leaseExpiresAt"] == server.clock.wall_ms() + LEASE_S * 1000

    def test_a_task_is_given_to_one_of_many_long_polls(self, server: EitherServer, polling: Polling) -> None:
        waiting = [polling.start(f"w{number}") for number in range(3)]
        task_id = server.add_task()
        until(lambda: any(poll.done() for poll in waiting))
        with passing_time(server):
            found = [task["taskId"] for poll in waiting for task in poll.result(60)]
        assert found == [task_id]

    def test_a_client_that_has_left_is_given_nothing(self, server: EitherServer) -> None:
        port = httpx.URL(server.url).port
        with socket.create_connection(("127.0.0.1", port or 0)) as gone:
            gone.sendall(
                b"GET /api/tasks/poll/batch/work?timeout=5000&workerid=gone HTTP/1.1\r\nHost: localhost\r\n\r\n"
            )
            until(lambda: server.parked_polls() == 1)
        until(lambda: server.parked_polls() == 0)
        server.add_task()
        assert server.take("w2")["pollCount"] == 1

    def test_a_poll_for_no_tasks_recalls_those_of_the_same_worker(self, server: EitherServer, polling: Polling) -> None:
        mine, other = polling.start("w1"), polling.start("w2")
        assert server.poll("w1", count=0) == []
        assert mine.result(60) == []
        assert server.parked_polls() == 1
        task_id = server.add_task()
        assert [task["taskId"] for task in other.result(60)] == [task_id]

    def test_a_long_poll_without_a_worker_id_replaces_no_other(self, server: EitherServer, polling: Polling) -> None:
        waiting = polling.start(worker=None)
        assert server.poll(worker=None, count=0) == []
        task_id = server.add_task()
        assert [task["taskId"] for task in waiting.result(60)] == [task_id]


class TestHeartbeat:
    def test_a_heartbeat_begins_the_lease_anew(self, server: EitherServer, task: Task) -> None:
        server.clock.advance(LEASE_S - 1)
        answer = server.heartbeat(task)
        assert (answer.status_code, answer.text) == (200, task["taskId"])
        assert expires_at(answer) == server.clock.wall_ms() + LEASE_S * 1000
        server.clock.advance(LEASE_S - 1)
        assert verdict_of(server.report(task)) == COMMITTED

    def test_a_heartbeat_says_no_verdict_while_there_is_a_lease(self, server: EitherServer, task: Task) -> None:
        assert verdict_of(server.heartbeat(task)) == (200, None)

    def test_a_heartbeat_ends_no_task_whatever_status_it_names(self, server: EitherServer, task: Task) -> None:
        server.heartbeat(task, status="COMPLETED", reasonForIncompletion="over")
        stored = server.stored(task["taskId"])
        assert (stored["status"], stored["outputData"]) == ("IN_PROGRESS", {})
        assert not stored.get("reasonForIncompletion")

    def test_a_heartbeat_may_be_repeated(self, server: EitherServer, task: Task) -> None:
        assert expires_at(server.heartbeat(task)) == expires_at(server.heartbeat(task))

    def test_a_heartbeat_never_revives_a_lease(self, server: EitherServer, task: Task) -> None:
        server.clock.advance(LEASE_S)
        assert verdict_of(server.heartbeat(task)) == CANCELLED
        assert verdict_of(server.report(task)) == CANCELLED

    @pytest.mark.parametrize("status", ["COMPLETED", "FAILED", "IN_PROGRESS"])
    def test_a_heartbeat_after_its_own_report_gets_the_verdict_of_the_report(
        self, server: EitherServer, task: Task, status: str
    ) -> None:
        """The worker did not lose the lease: if the answer to the report was lost, the heartbeat repeats it."""
        server.report(task, status)
        answer = server.heartbeat(task)
        assert verdict_of(answer) == COMMITTED
        assert "conductor-lease-expires-at" not in answer.headers
        server.clock.advance(LEASE_S)
        assert verdict_of(server.heartbeat(task)) == COMMITTED

    def test_a_heartbeat_after_a_discarded_report_is_cancelled(self, server: EitherServer, task: Task) -> None:
        server.clock.advance(LEASE_S)
        server.report(task)
        assert verdict_of(server.heartbeat(task)) == CANCELLED

    def test_a_heartbeat_of_a_task_that_was_delivered_again_is_cancelled(
        self, server: EitherServer, task: Task
    ) -> None:
        server.report(task, "IN_PROGRESS", reportId="back")
        again = server.take("w2")
        assert verdict_of(server.heartbeat(task)) == CANCELLED
        assert verdict_of(server.heartbeat(again)) == (200, None)

    def test_a_heartbeat_with_an_unknown_lease_is_rejected(self, server: EitherServer, task: Task) -> None:
        assert verdict_of(server.heartbeat(task, leaseId="ff-00")) == (404, "REJECTED")

    def test_a_heartbeat_for_an_unknown_task_is_rejected(self, server: EitherServer, task: Task) -> None:
        assert verdict_of(server.heartbeat(task, taskId="unknown")) == (404, "REJECTED")


class TestCommitted:
    @pytest.mark.parametrize("status", ["COMPLETED", "FAILED", "FAILED_WITH_TERMINAL_ERROR"])
    def test_committed_means_that_the_result_is_stored(self, server: EitherServer, task: Task, status: str) -> None:
        answer = server.report(task, status, outputData={"n": 1}, reasonForIncompletion="no paper")
        assert verdict_of(answer) == COMMITTED
        assert answer.text == task["taskId"]
        assert answer.headers["content-type"].startswith("text/plain")
        stored = server.stored(task["taskId"])
        assert (stored["status"], stored["outputData"]) == (status, {"n": 1})
        assert stored["reasonForIncompletion"] == "no paper"

    def test_a_report_is_committed_until_the_last_millisecond_of_the_lease(
        self, server: EitherServer, task: Task
    ) -> None:
        server.clock.advance(LEASE_S - 0.001)
        assert verdict_of(server.report(task)) == COMMITTED

    def test_at_most_one_report_of_a_lease_is_committed(self, server: EitherServer, task: Task) -> None:
        assert verdict_of(server.report(task, reportId="r1")) == COMMITTED
        assert verdict_of(server.report(task, "FAILED", reportId="r2")) == (409, "REJECTED")
        assert server.stored(task["taskId"])["status"] == "COMPLETED"


def let_it_expire(server: EitherServer, task: Task) -> None:
    server.clock.advance(LEASE_S)


def cancel_it(server: EitherServer, task: Task) -> None:
    server.cancel(task)


@pytest.mark.parametrize("end", [let_it_expire, cancel_it], ids=["lease expired", "task cancelled"])
class TestCancelled:
    def test_cancelled_is_the_verdict_of_the_report_and_of_the_heartbeat(
        self, server: EitherServer, task: Task, end: Callable[..., None]
    ) -> None:
        end(server, task)
        assert verdict_of(server.heartbeat(task)) == CANCELLED
        assert verdict_of(server.report(task)) == CANCELLED

    def test_the_result_is_discarded(self, server: EitherServer, task: Task, end: Callable[..., None]) -> None:
        end(server, task)
        server.report(task, outputData={"late": True})
        stored = server.stored(task["taskId"])
        assert stored["outputData"] == {}
        assert stored["status"] != "COMPLETED"

    def test_a_cancelled_lease_stays_cancelled(
        self, server: EitherServer, task: Task, end: Callable[..., None]
    ) -> None:
        end(server, task)
        assert {verdict_of(server.report(task, reportId="r1")) for _ in range(3)} == {CANCELLED}
        assert verdict_of(server.report(task, reportId="r2")) == (409, "REJECTED")
        assert verdict_of(server.report(task, reportId="r1")) == CANCELLED


class TestRejected:
    @pytest.mark.parametrize(
        "wrong",
        [{"leaseId": "ff-00"}, {"taskId": "unknown"}, {"workflowInstanceId": "unknown"}],
        ids=lambda w: next(iter(w)),
    )
    def test_an_unknown_task_or_lease_is_rejected(
        self, server: EitherServer, task: Task, wrong: dict[str, str]
    ) -> None:
        assert verdict_of(server.report(task, **wrong)) == (404, "REJECTED")
        assert server.stored(task["taskId"])["status"] == "IN_PROGRESS"
        assert verdict_of(server.report(task)) == COMMITTED

    def test_the_lease_of_another_task(self, server: EitherServer, task: Task) -> None:
        server.add_task()
        other = server.take()
        assert verdict_of(server.report(task, leaseId=other["leaseId"])) == (404, "REJECTED")

    @pytest.mark.parametrize(
        "wrong",
        [{"status": "TIMED_OUT"}, {"status": 5}, {"outputData": [1]}, {"callbackAfterSeconds": "soon"}, {"logs": {}}],
        ids=str,
    )
    def test_a_report_that_cannot_be_understood_is_rejected(
        self, server: EitherServer, task: Task, wrong: dict[str, Any]
    ) -> None:
        answer = server.api.post("/tasks", json={**said(task), **wrong})
        assert verdict_of(answer) == (400, "REJECTED")
        assert verdict_of(server.report(task)) == COMMITTED, "a malformed report consumes nothing"

    @pytest.mark.parametrize("missing", ["status", "taskId", "workflowInstanceId"])
    def test_an_incomplete_report_is_rejected(self, server: EitherServer, task: Task, missing: str) -> None:
        incomplete = {key: value for key, value in said(task).items() if key != missing}
        assert verdict_of(server.api.post("/tasks", json=incomplete)) == (400, "REJECTED")
        assert verdict_of(server.report(task)) == COMMITTED, "a malformed report consumes nothing"

    @pytest.mark.parametrize("body", [b"", b"no json", b"[1]", b'"text"', b"null"])
    def test_a_body_that_is_not_a_report_is_rejected(self, server: EitherServer, body: bytes) -> None:
        answer = server.api.post("/tasks", content=body, headers={"content-type": "application/json"})
        assert verdict_of(answer) == (400, "REJECTED")


class TestTheSameReportAgain:
    @pytest.mark.parametrize("status", ["COMPLETED", "FAILED", "IN_PROGRESS"])
    def test_a_repeated_report_gets_the_same_verdict_and_does_nothing(
        self, server: EitherServer, task: Task, status: str
    ) -> None:
        assert verdict_of(server.report(task, status, reportId="r1", outputData={"n": 1})) == COMMITTED
        before = server.stored(task["taskId"])
        server.clock.advance(3600)
        assert verdict_of(server.report(task, status, reportId="r1", outputData={"n": 2})) == COMMITTED
        assert server.stored(task["taskId"])["outputData"] == before["outputData"]

    def test_a_repeated_report_without_an_id_is_known_by_its_content(self, server: EitherServer, task: Task) -> None:
        assert verdict_of(server.report(task, outputData={"a": 1})) == COMMITTED
        assert verdict_of(server.report(task, outputData={"a": 1})) == COMMITTED
        assert verdict_of(server.report(task, outputData={"a": 2})) == (409, "REJECTED")


class TestHandingBack:
    def test_handing_back_a_task_ends_the_lease_and_queues_the_same_task(
        self, server: EitherServer, task: Task
    ) -> None:
        assert verdict_of(server.report(task, "IN_PROGRESS", callbackAfterSeconds=30)) == COMMITTED
        assert server.poll() == []
        assert server.stored(task["taskId"])["status"] == "SCHEDULED"
        assert verdict_of(server.report(task, reportId="other")) == (409, "REJECTED")
        server.clock.advance(30)
        again = server.take("w2")
        assert (again["taskId"], again["pollCount"], again["workerId"]) == (task["taskId"], 2, "w2")
        assert again["callbackAfterSeconds"] == 0
        assert again["leaseId"] != task["leaseId"]

    def test_a_task_handed_back_without_a_delay_can_be_polled_at_once(self, server: EitherServer, task: Task) -> None:
        server.report(task, "IN_PROGRESS", outputData={"half": 1})
        again = server.take()
        assert (again["taskId"], again["outputData"]) == (task["taskId"], {"half": 1})
        assert verdict_of(server.report(again)) == COMMITTED

    def test_a_task_handed_back_keeps_its_verdict_after_it_was_delivered_again(
        self, server: EitherServer, task: Task
    ) -> None:
        server.report(task, "IN_PROGRESS", reportId="back")
        server.take("w2")
        assert verdict_of(server.report(task, "IN_PROGRESS", reportId="back")) == COMMITTED
        assert server.stored(task["taskId"])["workerId"] == "w2", "it took nothing from the new holder"
        assert server.stored(task["taskId"])["status"] == "IN_PROGRESS"


class TestManyReportsAtOnce:
    def test_reports_in_one_request_are_judged_one_by_one_in_order(self, server: EitherServer) -> None:
        for _ in range(4):
            server.add_task()
        first, cancelled, unknown, last = server.poll()
        server.cancel(cancelled)
        verdicts = server.batch(
            said(first), said(cancelled), said(unknown, leaseId="ff-00"), said(last), {"nonsense": 1}, 5
        )
        assert [(one["verdict"], one["status"]) for one in verdicts] == [
            COMMITTED[::-1],
            CANCELLED[::-1],
            ("REJECTED", 404),
            COMMITTED[::-1],
            ("REJECTED", 400),
            ("REJECTED", 400),
        ]
        assert [one["taskId"] for one in verdicts[:4]] == [task["taskId"] for task in (first, cancelled, unknown, last)]
        assert server.stored(last["taskId"])["status"] == "COMPLETED"

    def test_reports_in_one_request_may_repeat_and_contradict_each_other(
        self, server: EitherServer, task: Task
    ) -> None:
        once, other = said(task, reportId="r1"), said(task, "FAILED", reportId="r2")
        assert [one["verdict"] for one in server.batch(once, once, other)] == ["COMMITTED", "COMMITTED", "REJECTED"]

    def test_an_empty_list_of_reports_is_accepted(self, server: EitherServer) -> None:
        assert server.batch() == []

    @pytest.mark.parametrize("body", [b"", b"{}", b"no json"])
    def test_reports_that_are_not_an_array_are_refused(self, server: EitherServer, body: bytes) -> None:
        answer = server.api.post("/tasks/reports", content=body, headers={"content-type": "application/json"})
        assert answer.status_code == 400


class TestClientsWithoutLeases:
    """Every other Conductor SDK: answered as Conductor answers, without a verdict."""

    def test_a_client_without_lease_ids_completes_a_task_it_holds(self, server: EitherServer, task: Task) -> None:
        assert verdict_of(server.report(task, leaseId=None)) == (200, None)
        assert server.stored(task["taskId"])["status"] == "COMPLETED"

    def test_a_late_result_is_answered_as_conductor_does_s02(self, server: EitherServer, task: Task) -> None:
        server.cancel(task)
        answer = server.report(task, leaseId=None, outputData={"late": 1})
        assert (verdict_of(answer), answer.text) == ((200, "CANCELLED"), task["taskId"])
        stored = server.stored(task["taskId"])
        assert (stored["status"], stored["outputData"]) == ("CANCELED", {})

    def test_a_result_after_the_lease_has_no_effect_s02(self, server: EitherServer, task: Task) -> None:
        server.clock.advance(LEASE_S)
        assert verdict_of(server.report(task, leaseId=None, outputData={"late": 1})) == (200, "CANCELLED")
        assert server.stored(task["taskId"])["outputData"] == {}
        assert verdict_of(server.report(task)) == CANCELLED, "409 stays for reports with a lease id"

    def test_a_result_for_a_task_of_another_worker_has_no_effect_s02(self, server: EitherServer, task: Task) -> None:
        server.report(task, "IN_PROGRESS", leaseId=None)
        server.take("w2")
        assert verdict_of(server.report(task, leaseId=None, outputData={"late": 1})) == (200, "CANCELLED")
        stored = server.stored(task["taskId"])
        assert (stored["status"], stored["workerId"]) == ("IN_PROGRESS", "w2")

    def test_another_result_of_a_finished_task_has_no_effect_s02(self, server: EitherServer, task: Task) -> None:
        server.report(task, leaseId=None, outputData={"first": 1})
        assert verdict_of(server.report(task, "FAILED", leaseId=None)) == (200, "CANCELLED")
        assert server.stored(task["taskId"])["outputData"] == {"first": 1}
        (verdict,) = server.batch(said(task, "FAILED", leaseId=None))
        assert (verdict["verdict"], verdict["status"]) == ("CANCELLED", 200)

    def test_a_heartbeat_is_200_even_for_a_task_that_has_ended(self, server: EitherServer, task: Task) -> None:
        assert verdict_of(server.heartbeat(task, leaseId=None)) == (200, None)
        server.cancel(task)
        assert verdict_of(server.heartbeat(task, leaseId=None)) == (200, None)

    def test_an_unknown_task_is_404(self, server: EitherServer, task: Task) -> None:
        assert verdict_of(server.report(task, leaseId=None, taskId="unknown")) == (404, None)


def test_a_heartbeat_may_bring_log_lines_and_the_output_so_far(server: EitherServer, task: Task) -> None:
    news = {"logs": [{"log": "half way", "createdTime": 1}], "outputData": {"progress": {"done": 1}}}
    assert server.heartbeat(task, **news).status_code == 200
    stored = server.stored(task["taskId"])
    assert (stored["status"], stored["outputData"]) == ("IN_PROGRESS", {"progress": {"done": 1}})
    lines = server.api.get(f"/tasks/{task['taskId']}/log").json()
    assert [(line["log"], line["createdTime"]) for line in lines] == [("half way", 1)]
    assert server.report(task, outputData={"answer": 42}).status_code == 200
    assert server.stored(task["taskId"])["outputData"] == {"answer": 42}
