"""The journal of a dead process, in the hands of one that may die too."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import httpx
import pytest

from conductor.client.automator import redelivery, worker_group
from conductor.client.automator.adopted_journal import adopt_files
from conductor.client.automator.journal import HeldTask, Journal, PendingReport
from conductor.client.automator.task_handler_asyncio import TaskHandlerAsyncIO
from conductor.client.configuration.configuration import Configuration
from conductor.client.configuration.settings.metrics_settings import MetricsSettings
from conductor.client.worker.worker import Worker
from conductor.common.clock import SYSTEM_CLOCK
from conductor.testing import ConductorStub, Status


def other() -> Worker:
    """A worker for something else."""
    return Worker("other", lambda: None, idle_poll_timeout=0, poll_timeout=0)


def left_behind(directory: Path, *report_ids: str) -> None:
    """Results without a verdict, of a process that is gone."""
    journal = Journal(directory, "http://server/api", max_bytes=1 << 20)
    journal.open()
    for report_id in report_ids:
        assert journal.add(PendingReport(report_id, f"task of {report_id}", "job", "COMPLETED", 1))
    journal.close()


def test_a_result_with_its_verdict_is_not_adopted_again(tmp_path: Path) -> None:
    left_behind(tmp_path, "a", "b", "c")
    heir = Journal(tmp_path, "http://server/api", max_bytes=1 << 20)
    (file,) = adopt_files(heir)
    first, second, _ = file.reports
    file.remove(second)
    assert [entry.report_id for entry in file.reports] == ["a", "c"]
    file.close_file()  # as the kernel does for a process that dies
    (again,) = adopt_files(heir)
    assert [entry.report_id for entry in again.reports] == ["a", "c"]
    again.remove(first)
    again.remove(first)
    assert [entry.report_id for entry in again.reports] == ["c"]
    again.close_file()


class TestGivingBack:
    """A process died with running tasks, and the next one finds its file."""

    @pytest.fixture
    def directory(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
        monkeypatch.setenv("CONDUCTOR_WORKER_JOURNAL_DIR", str(tmp_path))
        return tmp_path

    def _died_with(
        self, stub: ConductorStub, directory: Path, *tasks: HeldTask, finished: PendingReport | None = None
    ) -> None:
        journal = Journal(directory, Configuration(stub.url).host, max_bytes=1 << 20)
        journal.open()
        journal.add_tasks(list(tasks))
        if finished is not None:
            journal.add(finished)
        journal.close()

    def _held(
        self, stub: ConductorStub, *, worker_id: str = "dead", poll_count: int = 1, left_s: float = 60
    ) -> HeldTask:
        """A task that the server has given to this worker."""
        task_id = stub.add_task("job")
        httpx.get(f"{stub.url}/tasks/poll/batch/job", params={"workerid": "dead", "count": 1, "timeout": 0})
        workflow_id = stub.task(task_id).workflow_instance_id
        until_ms = SYSTEM_CLOCK.wall_ms() + int(left_s * 1000)
        return HeldTask(task_id, workflow_id, "job", worker_id, poll_count, until_ms)

    def _result(self, done: HeldTask) -> PendingReport:
        about = {"taskId": done.task_id, "workflowInstanceId": done.workflow_instance_id, "workerId": "dead"}
        body = json.dumps({**about, "status": "COMPLETED", "reportId": "r1"}).encode()
        return PendingReport(
            "r1", done.task_id, "job", "COMPLETED", SYSTEM_CLOCK.wall_ms(), body, worker_id="dead", poll_count=1
        )

    async def test_results_of_a_dead_process_are_counted_until_they_have_a_verdict(
        self, conductor_stub: ConductorStub, directory: Path, monkeypatch: pytest.MonkeyPatch, unused_tcp_port: int
    ) -> None:
        monkeypatch.setattr(worker_group, "GAUGES_S", 0.02)
        monkeypatch.setattr(redelivery, "MAX_WAIT_S", 0.1)
        self._died_with(conductor_stub, directory, finished=self._result(self._held(conductor_stub)))
        conductor_stub.script(lambda request: request.method == "POST", Status(503), repeat=True)
        settings = MetricsSettings(http_port=unused_tcp_port, host="127.0.0.1")

        async def until_metric(line: str) -> None:
            async with httpx.AsyncClient() as client, asyncio.timeout(60):
                while line not in (await client.get(f"http://127.0.0.1:{unused_tcp_port}/metrics")).text:
                    await asyncio.sleep(0.02)

        async with TaskHandlerAsyncIO([other()], Configuration(conductor_stub.url), metrics_settings=settings):
            await until_metric('worker_journal_reports{taskType="job"} 1.0')
            conductor_stub.clear_script()
            await until_metric('worker_journal_reports{taskType="job"} 0.0')

    async def test_finished_results_are_sent_before_tasks_are_given_back(
        self, conductor_stub: ConductorStub, directory: Path
    ) -> None:
        held, done = self._held(conductor_stub), self._held(conductor_stub)
        self._died_with(conductor_stub, directory, held, done, finished=self._result(done))
        async with TaskHandlerAsyncIO([other()], Configuration(conductor_stub.url)):
            await conductor_stub.until_results(2)
        first, second = conductor_stub.results
        assert (first["taskId"], first["status"]) == (done.task_id, "COMPLETED")
        assert (second["taskId"], second["status"]) == (held.task_id, "IN_PROGRESS")
        assert (second["reasonForIncompletion"], second["workerId"]) == ("worker process died", "dead")
        assert second.get("callbackAfterSeconds", 0) == 0

    async def test_a_journal_that_is_left_after_the_start_is_adopted_too(
        self, conductor_stub: ConductorStub, directory: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """In a rolling restart the old process ends after the new one has started."""
        monkeypatch.setattr(redelivery, "ADOPT_EVERY_S", 0.05)
        done = self._held(conductor_stub)
        async with TaskHandlerAsyncIO([other()], Configuration(conductor_stub.url)):
            await conductor_stub.until(lambda: conductor_stub.polls("other"))
            self._died_with(conductor_stub, directory, finished=self._result(done))
            (sent,) = await conductor_stub.until_results(1)
        assert (sent["taskId"], sent["status"]) == (done.task_id, "COMPLETED")

    @pytest.mark.parametrize(
        "not_ours", [{"worker_id": "another"}, {"poll_count": 2}, {"left_s": -1}], ids=["worker", "delivery", "time"]
    )
    async def test_a_task_that_the_dead_process_no_longer_held_is_not_touched(
        self, conductor_stub: ConductorStub, directory: Path, not_ours: dict[str, object]
    ) -> None:
        held = self._held(conductor_stub, **not_ours)  # type: ignore[arg-type]
        self._died_with(conductor_stub, directory, held)
        async with TaskHandlerAsyncIO([other()], Configuration(conductor_stub.url)):
            last = conductor_stub.add_task("other")
            await conductor_stub.until(lambda: conductor_stub.results_for(last))
            await conductor_stub.until(lambda: len(list(directory.glob("*.journal"))) == 1)
        assert conductor_stub.results_for(held.task_id) == []
        assert conductor_stub.task(held.task_id).status == "IN_PROGRESS"
