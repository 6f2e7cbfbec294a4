"""The meaning of a server's answers and tasks for a report: the same for reports, heartbeats and redelivery."""

from __future__ import annotations

import pytest

from conductor.client.automator.delivery import ReportAnswer, find_loss, find_verdict, read_answer
from conductor.client.automator.journal import PendingReport
from conductor.client.http.models.task import Task
from conductor.client.http.response import Response
from conductor.protocol.wire import Verdict

COMMITTED, CANCELLED, REJECTED = Verdict.COMMITTED, Verdict.CANCELLED, Verdict.REJECTED


def task(status: str, *, worker_id: str | None = "we", poll_count: int = 1) -> Task:
    return Task(task_id="t", status=status, worker_id=worker_id, poll_count=poll_count)


def entry(status: str) -> PendingReport:
    return PendingReport("r", "t", "job", status, written_ms=0, worker_id="we", poll_count=1)


class TestATaskOfAConductorServer:
    @pytest.mark.parametrize(
        ("found", "reported_as", "lost"),
        [
            pytest.param(task("IN_PROGRESS"), None, False, id="delivered to us"),
            pytest.param(task("IN_PROGRESS", worker_id=None), None, False, id="a server that notes no worker"),
            pytest.param(task("IN_PROGRESS", worker_id="they"), None, True, id="delivered to another worker"),
            pytest.param(task("IN_PROGRESS", poll_count=2), None, True, id="delivered again"),
            pytest.param(task("SCHEDULED"), None, True, id="back in the queue while we work on it"),
            pytest.param(task("SCHEDULED"), "COMPLETED", True, id="back in the queue while we report its end"),
            pytest.param(task("SCHEDULED"), "IN_PROGRESS", False, id="put back by our own report"),
            pytest.param(task("CANCELED"), None, True, id="ended by somebody else"),
            pytest.param(task("COMPLETED"), None, True, id="completed, and not by us"),
            pytest.param(task("COMPLETED"), "COMPLETED", False, id="completed by our own report"),
            pytest.param(task("TIMED_OUT"), "COMPLETED", True, id="timed out before our report"),
            pytest.param(task("COMPLETED", worker_id="they"), "COMPLETED", True, id="completed by another worker"),
            pytest.param(task("COMPLETED", poll_count=2), "COMPLETED", True, id="completed after another delivery"),
        ],
    )
    def test_a_task_of_a_conductor_server_is_ours_or_lost(
        self, found: Task, reported_as: str | None, lost: bool
    ) -> None:
        assert (find_loss(found, worker_id="we", poll_count=1, reported_as=reported_as) is not None) == lost

    @pytest.mark.parametrize(
        ("found", "reported_as", "verdict"),
        [
            pytest.param(task("COMPLETED"), "COMPLETED", COMMITTED, id="as we left it"),
            pytest.param(task("SCHEDULED"), "IN_PROGRESS", COMMITTED, id="handed back, as we left it"),
            pytest.param(task("IN_PROGRESS"), "COMPLETED", None, id="still open, and ours"),
            pytest.param(task("SCHEDULED"), "COMPLETED", CANCELLED, id="waits for another worker"),
            pytest.param(task("FAILED"), "COMPLETED", CANCELLED, id="ended differently"),
            pytest.param(task("COMPLETED", worker_id="they"), "COMPLETED", CANCELLED, id="somebody else's result"),
        ],
    )
    def test_a_task_of_a_conductor_server_tells_what_became_of_a_report(
        self, found: Task, reported_as: str, verdict: Verdict | None
    ) -> None:
        assert find_verdict(entry(reported_as), found) is verdict


class TestAnAnswer:
    @pytest.mark.parametrize(
        ("status", "verdict", "judgement"),
        [
            (200, COMMITTED, COMMITTED),
            (409, CANCELLED, CANCELLED),
            (503, REJECTED, REJECTED),
            (200, None, COMMITTED),
            (400, None, REJECTED),
            (404, None, REJECTED),
            (401, None, None),
            (403, None, None),
            (408, None, None),
            (429, None, None),
            (500, None, None),
        ],
    )
    def test_an_answer_is_a_verdict_or_a_reason_to_send_again(
        self, status: int, verdict: Verdict | None, judgement: Verdict | None
    ) -> None:
        assert ReportAnswer(status, verdict, "").judgement is judgement

    def test_an_answer_may_carry_its_verdict_in_the_body(self) -> None:
        answer = read_answer(Response(409, {}, b'{"status": 409, "verdict": "CANCELLED", "message": "too late"}'))
        assert (answer.verdict, answer.message) == (CANCELLED, "too late")

    def test_an_answer_with_a_verdict_of_a_later_version_has_none(self) -> None:
        assert read_answer(Response(200, {"conductor-verdict": "POSTPONED"}, b"")).verdict is None
