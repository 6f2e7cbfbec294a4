"""Whatever a server answers: a worker neither dies, nor loses a slot, nor floods, and its log can be read."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conductor.client.automator.task_handler import TaskHandler
from conductor.client.automator.task_handler_asyncio import TaskHandlerAsyncIO
from conductor.client.configuration.configuration import Configuration
from conductor.client.configuration.settings.authentication_settings import AuthenticationSettings
from conductor.client.event.task_runner_events import PollFailure, TaskLeaseLost, TaskUpdateCompleted, TaskUpdateFailure
from conductor.client.http.models import Task, TaskDef, WorkflowDef, WorkflowTask
from conductor.client.metadata_client import AsyncMetadataClient
from conductor.client.worker.worker import Worker
from conductor.client.workflow_client import AsyncWorkflowClient
from conductor.coordinator import Coordinator
from conductor.protocol.wire import MAX_BODY_HEADER, Verdict
from conductor.testing import ConductorStub, FakeClock, Judge, Malformed, Reset, Status
from tests.unit.automator.hostile_answers import (
    ANSWERS,
    BATCH_ANSWERS,
    MAX_ANSWER_BYTES,
    WRONG,
    answer_of,
    packed,
    raw,
    task_json,
)
from tests.unit.automator.portable_workers import about_process
from tests.unit.automator.worker_fixture import Events, lines

#: A lease that ends in no test, however fast its clock is turned.
LONG_S = 10**8
#: The end of a report: a verdict, or the journal.
ENDS = (TaskUpdateCompleted, TaskUpdateFailure)


async def turn(clock: FakeClock, done: Callable[[], bool]) -> None:
    """Turn the clock until it is so: what waits for its next try does not wait for us."""
    for _ in range(30_000):
        if done():
            return
        clock.advance(0.25)
        await asyncio.sleep(0.001)
    raise TimeoutError("what the test waits for did not come")


class Bench:
    """A worker with one slot (or two) at work for a stub that a test makes hostile."""

    def __init__(self, stub: ConductorStub, handler: TaskHandlerAsyncIO, clock: FakeClock, events: Events) -> None:
        self.stub, self.handler, self.clock, self.events = stub, handler, clock, events

    def ends(self) -> int:
        return len(self.events.of(*ENDS))

    async def run_task(self, **fields: Any) -> list[dict[str, Any]]:
        """Queue one good task and wait until it has been reported and its slot is free."""
        task_id = self.stub.add_task("job", response_timeout_seconds=LONG_S, **fields)
        await turn(self.clock, lambda: self.committed(task_id))
        return self.stub.results_for(task_id)

    async def answer_poll(self, answer: bytes) -> None:
        """Answer the next poll so, and wait until there was one."""
        seen: list[Any] = []

        def is_poll(request: Any) -> bool:
            if request.route == "poll":
                seen.append(request)
            return bool(request.route == "poll")

        self.stub.script(is_poll, Malformed(answer, raw=True))
        await turn(self.clock, lambda: bool(seen))

    def committed(self, task_id: str) -> bool:
        of_it = [event for event in self.events.of(TaskUpdateCompleted) if event.task_id == task_id]
        return any(event.verdict is Verdict.COMMITTED for event in of_it)


@asynccontextmanager
async def bench(
    function: Callable[..., Any], *, leases: bool = False, threads: int = 1, **options: Any
) -> AsyncIterator[Bench]:
    clock, events = FakeClock(), Events()
    with ConductorStub(clock=clock, leases=leases) as stub:
        handler = TaskHandlerAsyncIO(
            workers=[Worker("job", function, thread_count=threads, lease_extend_enabled=True, idle_poll_timeout=0)],
            configuration=Configuration(stub.url, max_answer_bytes=MAX_ANSWER_BYTES, timeout_s=20.0),
            event_listeners=[events],
            clock=clock,
            shutdown_grace_seconds=0,
            **options,
        )
        await handler.start()
        try:
            yield Bench(stub, handler, clock, events)
        finally:
            stub.stop()
            await handler.stop()


def calm(caplog: pytest.LogCaptureFixture) -> None:
    """No log line of the SDK has a traceback, a line break or control characters."""
    for record in caplog.records:
        if record.name.startswith("conductor"):
            assert record.exc_info is None, record.getMessage()
            assert record.getMessage().isprintable(), ascii(record.getMessage())


async def done() -> dict[str, bool]:
    return {"done": True}


class TestTheCorpus:
    """Every answer of the corpus, one after the other, to the same worker with one slot."""

    async def test_hostile_answers_to_polls_do_not_stop_a_worker(self, caplog: pytest.LogCaptureFixture) -> None:
        async with bench(done) as here:
            engines = here.handler.task_runners
            for name, answer in ANSWERS.items():
                await here.answer_poll(answer)
                assert await here.run_task(), name
            assert here.handler.is_healthy()
            assert here.handler.task_runners == engines
        calm(caplog)

    async def test_hostile_answers_to_reports_lose_no_result(self, caplog: pytest.LogCaptureFixture) -> None:
        """Each ends in a verdict or in the journal, and the slot is free for the next."""
        async with bench(done) as here:
            for name, answer in ANSWERS.items():
                here.stub.script("update", Malformed(answer, raw=True))
                before = here.ends()
                here.stub.add_task("job", response_timeout_seconds=LONG_S)
                await turn(here.clock, lambda before=before: here.ends() > before)  # type: ignore[misc]
                here.stub.clear_script()
                assert await here.run_task(), name
            assert here.handler.is_healthy()
        calm(caplog)

    @pytest.mark.slow
    async def test_hostile_answers_to_heartbeats_do_not_stop_a_task(self, caplog: pytest.LogCaptureFixture) -> None:
        """A heartbeat that brings nonsense is repeated; the task goes on and is reported."""
        beats = 0

        async def until_beaten() -> None:
            while len(here.stub.heartbeats) < beats:  # the second of two: the hostile one was repeated
                await asyncio.sleep(0.001)

        async with bench(until_beaten, leases=True) as here:
            for name, answer in ANSWERS.items():
                if name in ("a verdict in odd letters",):
                    continue  # that one is a verdict
                beats = len(here.stub.heartbeats) + 2
                here.stub.script("heartbeat", Malformed(answer, raw=True))
                task_id = here.stub.add_task("job", response_timeout_seconds=60)
                before = here.ends()
                await turn(here.clock, lambda before=before: here.ends() > before)  # type: ignore[misc]
                assert here.committed(task_id), name
            beats = 0
            here.stub.clear_script()
            assert await here.run_task()
            assert here.handler.is_healthy()
        calm(caplog)

    async def test_hostile_answers_to_batches_of_reports_lose_no_result(self, caplog: pytest.LogCaptureFixture) -> None:
        """Two slots, two reports in one request, and an answer that says nothing about them."""
        together = asyncio.Barrier(2)

        async def in_pairs() -> None:
            await together.wait()

        async with bench(in_pairs, leases=True, threads=2) as here:
            for name, answer in (ANSWERS | BATCH_ANSWERS).items():
                here.stub.script("reports", Malformed(answer, raw=True))
                before = here.ends()
                for _ in range(2):
                    here.stub.add_task("job", response_timeout_seconds=LONG_S)
                await turn(here.clock, lambda before=before: here.ends() >= before + 2)  # type: ignore[misc]
                here.stub.clear_script()
                pair = [here.stub.add_task("job", response_timeout_seconds=LONG_S) for _ in range(2)]
                await turn(here.clock, lambda pair=pair: all(map(here.committed, pair)))  # type: ignore[misc]
                assert here.handler.is_healthy(), name
            assert len(here.stub.requests_of("reports")) > len(ANSWERS)
        calm(caplog)

    def test_hostile_answers_do_not_end_a_worker_in_its_own_process(self) -> None:
        """One process survives all answers: nothing restarts it."""
        names = ["deep lists", "a header that is not ASCII", "gzip that becomes 100 MB", "a log-in page", "no HTTP"]
        with ConductorStub() as stub:
            handler = TaskHandler(
                workers=[Worker("job", about_process, update_retry_delay_seconds=0)],
                configuration=Configuration(stub.url, max_answer_bytes=MAX_ANSWER_BYTES),
                shutdown_grace_seconds=0,
            )
            with handler:
                handler.start_processes()
                pids = set()
                for count, name in enumerate(names, 1):
                    stub.script("poll", Malformed(ANSWERS[name], raw=True))
                    stub.script("update", Malformed(ANSWERS[name], raw=True))
                    task_id = stub.add_task("job")
                    stub.wait_for(lambda: len(stub.requests_of("update")) >= count)  # noqa: B023
                    stub.clear_script()
                    last = stub.add_task("job")
                    stub.wait_for(lambda: stub.results_for(last))  # noqa: B023
                    pids |= {result["outputData"]["pid"] for result in stub.results}
                    assert task_id
                assert len(pids) == 1
                assert handler.is_healthy()
                stub.stop()


class TestTasks:
    """The tasks of one answer are judged one by one."""

    async def test_a_wrong_value_in_any_field_costs_only_that_task(self, caplog: pytest.LogCaptureFixture) -> None:
        ran: list[str] = []

        async def job(task: Task) -> None:
            ran.append(task.task_id)

        async with bench(job, threads=3) as here:
            for field in msgspec.structs.fields(Task):
                for kind, value in WRONG.items():
                    bad = task_json(taskId="bad") | {field.encode_name: value}
                    good = task_json(taskId=f"{field.name} {kind}")
                    await here.answer_poll(answer_of(good, bad))
                    await turn(here.clock, lambda good=good: good["taskId"] in ran)  # type: ignore[misc]
            assert here.handler.is_healthy()
        calm(caplog)

    async def test_a_task_that_cannot_be_read_fails_with_the_reason(self, caplog: pytest.LogCaptureFixture) -> None:
        async with bench(done) as here:
            bad = task_json(retryCount="many", leaseId="l")
            await here.answer_poll(answer_of(bad))
            await turn(here.clock, lambda: bool(here.stub.requests_of("update")))
            report = here.stub.requests_of("update")[0].json
        assert report["status"] == "FAILED_WITH_TERMINAL_ERROR"
        assert (report["taskId"], report["workflowInstanceId"], report["leaseId"]) == ("t", "w", "l")
        assert "retryCount" in report["reasonForIncompletion"]
        assert [line for line in lines(caplog) if "task 't'" in line and "retryCount" in line]

    async def test_the_same_task_five_times_in_one_answer_runs_once(self, caplog: pytest.LogCaptureFixture) -> None:
        ran: list[str] = []

        async def job(task: Task) -> None:
            ran.append(task.task_id)

        async with bench(job, threads=10) as here:
            await here.answer_poll(answer_of(*[task_json()] * 5))
            await turn(here.clock, lambda: bool(ran))
            await here.run_task(task_id="last")
        assert ran == ["t", "last"]
        (line,) = [line for line in lines(caplog) if "contains it twice" in line]
        assert "'t'" in line

    @pytest.mark.parametrize(
        ("fields", "said"),
        [
            ({"taskType": "other", "taskDefName": "other"}, "its task type is 'other'"),
            ({"taskId": ""}, "no valid taskId"),
            ({"taskId": None}, "no valid taskId"),
            ({"workflowInstanceId": ""}, "no valid workflowInstanceId"),
            ({"taskId": "a\x1b[2J\nERROR fake"}, r"\x1b[2J\nERROR fake"),
        ],
    )
    async def test_a_task_of_another_type_is_refused_with_its_name(
        self, fields: dict[str, Any], said: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        ran: list[str] = []

        async def job(task: Task) -> None:
            ran.append(task.task_id)

        async with bench(job) as here:
            await here.answer_poll(answer_of(task_json() | fields))
            await here.run_task(task_id="ours")
            assert len(here.events.of(PollFailure)) == 1
        assert ran == ["ours"]
        assert len([line for line in lines(caplog) if said in line]) == 1
        calm(caplog)

    async def test_tasks_beyond_the_requested_count_are_given_back(self) -> None:
        def back() -> list[str]:
            reports = [request.json for request in here.stub.requests_of("update")]
            return [report["taskId"] for report in reports if report["status"] == "IN_PROGRESS"]

        async with bench(done) as here:
            many = [task_json(taskId=f"t{n}") for n in range(500)]
            await here.answer_poll(answer_of(*many))
            await turn(here.clock, lambda: len(back()) >= 100)
            await here.run_task()
            assert sorted(back()) == sorted(f"t{n}" for n in range(1, 101))

    async def test_numbers_that_no_clock_can_count_to(self, caplog: pytest.LogCaptureFixture) -> None:
        async with bench(done) as here:
            for name in ("responseTimeoutSeconds", "scheduledTime", "startTime", "pollCount", "callbackAfterSeconds"):
                for value in (-(10**30), 10**30, 10**400):
                    await here.answer_poll(answer_of(task_json(**{name: value})))
                    assert await here.run_task(), (name, value)
        calm(caplog)

    def test_odd_numbers_cost_at_most_their_own_task_a07(self) -> None:
        """Whatever numbers a task brings, the good task beside it runs, and so does the engine."""
        numbers = st.one_of(st.integers(), st.sampled_from([10**17, 2**63 - 1, -(2**63), 10**30, 0, -1]))
        names = ("responseTimeoutSeconds", "pollCount", "retryCount", "startTime", "callbackAfterSeconds", "seq")

        @settings(max_examples=20)
        @given(st.lists(st.dictionaries(st.sampled_from(names), numbers), min_size=1, max_size=3), numbers)
        def holds(oddities: list[dict[str, int]], timeout_s: int) -> None:
            odd = [task_json(taskId=f"odd{n}") | fields for n, fields in enumerate(oddities)]
            odd[0]["taskDefinition"] = {"name": "job", "timeoutSeconds": timeout_s}
            asyncio.run(self._runs_beside(odd))

        holds()

    @pytest.mark.parametrize("timeout_s", [10**12, 10**15, 10**17, 2**63 - 1, 10**400, -1, -(10**30)])
    def test_a_task_with_an_absurd_timeout_runs_a07(self, timeout_s: int) -> None:
        """Such a timeout is cut, or counts as none. The task is not refused."""
        definition = {"name": "job", "timeoutSeconds": timeout_s}
        odd = task_json(taskId="odd", responseTimeoutSeconds=timeout_s, taskDefinition=definition)
        assert asyncio.run(self._runs_beside([odd])) == {"odd", "good"}

    async def _runs_beside(self, odd: list[dict[str, Any]]) -> set[str]:
        """Let one answer bring these tasks and a good one, and return the ids of the tasks that ran."""
        ran: set[str] = set()

        async def job(task: Task) -> None:
            ran.add(task.task_id)

        async with bench(job, threads=len(odd) + 1) as here:
            engines = here.handler.task_runners
            await here.answer_poll(answer_of(*odd, task_json(taskId="good")))
            await turn(here.clock, lambda: "good" in ran)
            await here.run_task()
            assert here.handler.task_runners == engines
        return ran & {"good", *(task["taskId"] for task in odd)}


def _is_large(request: Any) -> bool:
    return len(request.body) > 50_000


class TestSizes:
    async def test_an_answer_that_unpacks_to_gigabytes_is_not_unpacked(self, caplog: pytest.LogCaptureFixture) -> None:
        bomb = raw(packed(1 << 30), "200 OK", b"Content-Encoding: gzip")
        async with bench(done) as here:
            before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            await here.answer_poll(bomb)
            assert await here.run_task()
            grown_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb
        assert grown_kb < 200_000
        assert [line for line in lines(caplog) if f"larger than max_answer_bytes={MAX_ANSWER_BYTES}" in line]

    @pytest.mark.parametrize("leases", [False, True])
    async def test_a_result_over_the_servers_limit_fails_at_once_and_once(self, leases: bool) -> None:
        """A 413 has read nothing, so it is no verdict; the server hears what happened instead."""

        async def large() -> str:
            return "x" * 100_000

        async with bench(large, leases=leases) as here:
            here.stub.script("update", Status(413))
            task_id = here.stub.add_task("job", response_timeout_seconds=LONG_S)
            await turn(here.clock, lambda: here.committed(task_id))
            (report,) = here.stub.results_for(task_id)
            assert len(here.stub.requests_of("update")) == 2
            (completed,) = here.events.of(TaskUpdateCompleted)
        assert report["status"] == "FAILED_WITH_TERMINAL_ERROR"
        assert "bytes is over the server's limit" in report["reasonForIncompletion"]
        assert completed.attempts == 1

    async def test_a_limit_that_is_announced_is_not_tried(self) -> None:
        """Size and limit are named, and only the small report travels."""

        async def large() -> str:
            return "x" * 100_000

        async with bench(large) as here:
            answer = raw(b"[]", "200 OK", f"{MAX_BODY_HEADER}: 50000".encode())
            task = task_json(taskId="big")
            with_limit = raw(msgspec.json.encode([task]), "200 OK", f"{MAX_BODY_HEADER}: 50000".encode())
            here.stub.script("poll", Malformed(answer, raw=True), Malformed(with_limit, raw=True))
            await turn(here.clock, lambda: bool(here.stub.requests_of("update")))
            (request,) = here.stub.requests_of("update")
        assert request.json["status"] == "FAILED_WITH_TERMINAL_ERROR"
        assert "of 50000 bytes" in request.json["reasonForIncompletion"]
        assert len(request.body) < 1000

    async def test_of_reports_that_travel_together_only_the_large_one_is_replaced(self) -> None:
        together = asyncio.Barrier(2)

        async def in_pairs(size: int) -> str:
            await together.wait()
            return "x" * size

        async with bench(in_pairs, leases=True, threads=2) as here:
            here.stub.script(_is_large, Status(413), Status(413))
            ids = [here.stub.add_task("job", {"size": size}, response_timeout_seconds=LONG_S) for size in (60_000, 5)]
            await turn(here.clock, lambda: all(map(here.committed, ids)))
            large, small = (here.stub.results_for(task_id) for task_id in ids)
            assert len(here.stub.requests_of("reports")) == 1
        assert [report["status"] for report in large] == ["FAILED_WITH_TERMINAL_ERROR"]
        assert [report["status"] for report in small] == ["COMPLETED"]

    async def test_a_large_report_that_waited_in_the_journal_is_replaced_too(self) -> None:
        """The server was away for all attempts, and says 413 when it is back."""

        async def large() -> str:
            return "x" * 60_000

        async with bench(large) as here:
            here.stub.script(_is_large, *[Status(503)] * 4, Status(413))
            task_id = here.stub.add_task("job", response_timeout_seconds=LONG_S)
            await turn(here.clock, lambda: here.committed(task_id))
            assert len(here.events.of(TaskUpdateFailure)) == 1
            (report,) = here.stub.results_for(task_id)
        assert report["status"] == "FAILED_WITH_TERMINAL_ERROR"

    async def test_a_report_that_stays_too_large_is_rejected(self) -> None:
        """Not even the replacement is taken: nothing more is sent."""
        async with bench(done) as here:
            here.stub.script("update", Status(413), Status(413))
            here.stub.add_task("job", response_timeout_seconds=LONG_S)
            await turn(here.clock, lambda: here.ends() == 1)
            (completed,) = here.events.of(TaskUpdateCompleted)
            assert completed.verdict is Verdict.REJECTED
            assert len(here.stub.requests_of("update")) == 2

    async def test_a_large_report_to_a_coordinator_fails_the_workflow_at_once(self, tmp_path: Path) -> None:
        """10 MB is what it takes; the response timeout of an hour is not waited for."""

        async def large() -> str:
            return "x" * (11 * 1024 * 1024)

        events = Events()
        with Coordinator(tmp_path / "data.db", port=0) as coordinator:
            configuration = Configuration(coordinator.url)
            async with (
                AsyncMetadataClient(configuration) as metadata,
                AsyncWorkflowClient(configuration) as workflows,
                TaskHandlerAsyncIO(
                    workers=[Worker("job", large)], configuration=configuration, event_listeners=[events]
                ),
            ):
                await metadata.register_task_def(TaskDef(name="job", retry_count=3))
                step = WorkflowTask(name="job", task_reference_name="job")
                await metadata.update_workflow_def(WorkflowDef(name="flow", tasks=[step]))
                workflow_id = await workflows.start_workflow_by_name("flow")
                (completed,) = await events.until(TaskUpdateCompleted)
                workflow = await workflows.get_workflow(workflow_id)
        assert completed.verdict is Verdict.COMMITTED
        assert [task.status for task in workflow.tasks] == ["FAILED_WITH_TERMINAL_ERROR"]
        assert "is over the server's limit" in (workflow.tasks[0].reason_for_incompletion or "")


class TestAfterCancelled:
    async def test_a_lost_connection_does_not_send_a_report_again(self) -> None:
        """The report's connection is lost after the heartbeat heard CANCELLED."""
        async with bench(done, leases=True) as here:
            await here.run_task()  # so that there is a connection that was kept alive
            here.stub.hold("update")
            here.stub.script("update", Reset())
            here.stub.script("heartbeat", Judge(Verdict.CANCELLED))
            task_id = here.stub.add_task("job", response_timeout_seconds=60)
            await turn(here.clock, lambda: bool(here.events.of(TaskLeaseLost)))
            here.stub.release("update")
            await here.run_task()
            about = [request for request in here.stub.requests_of("update") if request.json["taskId"] == task_id]
        assert len(about) == 1


class TestTokens:
    async def test_a_token_that_no_header_can_carry_is_a_failed_renewal(self, caplog: pytest.LogCaptureFixture) -> None:
        clock, events = FakeClock(), Events()
        with ConductorStub(clock=clock, auth=("key", "secret")) as stub:
            stub.script("token", Malformed(b'{"token":"a\\r\\nX-Evil: 1"}'))
            handler = TaskHandlerAsyncIO(
                workers=[Worker("job", done)],
                configuration=Configuration(stub.url, authentication_settings=AuthenticationSettings("key", "secret")),
                event_listeners=[events],
                clock=clock,
                shutdown_grace_seconds=0,
            )
            async with handler:
                here = Bench(stub, handler, clock, events)
                assert await here.run_task()
                assert handler.is_healthy()
                stub.stop()
        assert [line for line in lines(caplog) if "a token that is not printable ASCII" in line]
        calm(caplog)
