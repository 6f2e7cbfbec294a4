"""The promises of workers, on every server."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from conductor.client.automator.task_handler import TaskHandler
from conductor.client.context.task_context import TaskInProgress, get_task_context
from conductor.client.event.task_runner_events import (
    PollCompleted,
    TaskLeaseExtended,
    TaskLeaseLost,
    TaskUpdateCompleted,
    TaskUpdateFailure,
    WorkerStarted,
    WorkerStopped,
    WorkerStopping,
)
from conductor.client.http.models.task_def import TaskDef
from conductor.client.worker.exception import NonRetryableException
from conductor.client.worker.worker import Worker
from conductor.protocol.wire import Verdict
from tests.acceptance import process_workers
from tests.acceptance.server_session import Session

KINDS = ["def", "async def"]


def of_kind(kind: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the work as a `def` or as an `async def`."""
    if kind == "def":
        return function

    async def asynchronous(name: str) -> Any:
        return function(name)

    return asynchronous


def greet(name: str) -> dict[str, str]:
    return {"greeting": f"Hello {name}"}


class TestExecution:
    @pytest.mark.parametrize("kind", KINDS)
    async def test_a_task_is_executed_and_reported_once(self, session: Session, kind: str) -> None:
        name = session.named("greet")
        async with session.handler(Worker(name, of_kind(kind, greet), worker_id="me")):
            workflow = await session.ended(await session.start(name, input={"name": "Ada"}))
        (task,) = workflow.tasks
        assert (workflow.status, workflow.output) == ("COMPLETED", {"last": {"greeting": "Hello Ada"}})
        assert (task.status, task.worker_id, task.poll_count) == ("COMPLETED", "me", 1)
        (verdict,) = session.events.of(TaskUpdateCompleted)
        assert (verdict.verdict, verdict.inferred, verdict.attempts) == (
            Verdict.COMMITTED,
            session.target.is_conductor,
            1,
        )

    async def test_one_step_works_with_what_the_step_before_it_made(self, session: Session) -> None:
        first, second = session.named("first"), session.named("second")

        async def shout(before: dict[str, str]) -> dict[str, str]:
            return {"shouted": before["greeting"].upper()}

        async with session.handler(Worker(first, greet), Worker(second, shout)):
            workflow = await session.ended(await session.start(first, second, input={"name": "Ada"}))
        assert workflow.output["last"] == {"shouted": "HELLO ADA"}

    async def test_workers_in_processes_of_their_own(self, session: Session) -> None:
        first, second = session.named("double"), session.named("increment")
        workers = [Worker(first, process_workers.double), Worker(second, process_workers.increment)]
        handler = TaskHandler(workers=workers, configuration=session.configuration)
        await asyncio.to_thread(handler.start_processes)
        try:
            workflow = await session.ended(await session.start(first, second, input={"number": 20}))
        finally:
            await asyncio.to_thread(handler.stop_processes)
        doubled, incremented = (task.output_data for task in workflow.tasks)
        assert (doubled["doubled"], incremented["incremented"]) == (40, 41)
        assert len({doubled["pid"], incremented["pid"], os.getpid()}) == 3

    async def test_a_killed_process_gives_its_tasks_back(
        self, session: Session, tmp_path: Path, record_property: Callable[[str, object], None]
    ) -> None:
        """The response timeout of an hour is not waited for, and finished tasks do not run again."""
        name = session.named("held")
        await session.define(name, response_timeout_seconds=3600)
        worker = Worker(name, process_workers.note_and_wait, thread_count=20)
        handler = TaskHandler(workers=[worker], configuration=session.configuration)
        numbers = [-1, -2, -3, *range(10)]

        def began() -> list[list[str]]:
            ledger = tmp_path / "began"
            return [line.split() for line in ledger.read_text().splitlines()] if ledger.exists() else []

        def so_many_began(count: int) -> Callable[[], Awaitable[bool]]:
            async def check() -> bool:
                return len(began()) >= count

            return check

        ids = [await session.start(name, input={"number": number, "directory": str(tmp_path)}) for number in numbers]
        await asyncio.to_thread(handler.start_processes)
        try:
            await session.all_ended(ids[:3])
            await session.until(so_many_began(len(numbers)), "the beginning of all")
            os.kill(int(began()[0][1]), signal.SIGKILL)
            killed_at = time.monotonic()
            await session.until(so_many_began(len(numbers) + 10), "the second beginning of ten")
            record_property("figures", f"all 10 run again {time.monotonic() - killed_at:.1f} s after the kill")
            (tmp_path / "gate").touch()
            workflows = await session.all_ended(ids)
        finally:
            (tmp_path / "gate").touch()
            await asyncio.to_thread(handler.stop_processes)
        assert {workflow.status for workflow in workflows} == {"COMPLETED"}
        assert sorted(int(number) for number, _ in began()) == sorted([*numbers, *range(10)])

    @pytest.mark.slow
    @pytest.mark.parametrize("how", process_workers.DEATHS)
    @pytest.mark.parametrize("process_name", ["shared", None], ids=["shared process", "own process"])
    async def test_a_task_that_kills_its_process_ends_and_its_neighbours_complete_a14(
        self, session: Session, tmp_path: Path, how: str, process_name: str | None
    ) -> None:
        """The retry policy or `poison_limit` ends the task, and no neighbour is executed more than twice."""
        deadly, healthy = session.named("deadly"), session.named("healthy")
        # A Conductor server waits for the response timeout of tasks whose poll answer the dead process never read.
        timeout_s = 20 if session.target.is_conductor else 3600
        for name in (deadly, healthy):
            await session.define(name, retry_count=2, retry_delay_seconds=0, response_timeout_seconds=timeout_s)
        workers = [
            Worker(healthy, process_workers.note_and_return, thread_count=10, process_name=process_name),
            Worker(deadly, process_workers.die, process_name=process_name),
        ]
        given = {"directory": str(tmp_path)}
        killer = await session.start(deadly, input={"how": how, **given})
        ids = [await session.start(healthy, input={"number": number, **given}) for number in range(100)]
        handler = TaskHandler(
            workers=workers,
            configuration=session.configuration,
            restart_backoff_seconds=0.1,
            restart_backoff_max_seconds=0.5,
        )
        await asyncio.to_thread(handler.start_processes)
        try:
            ended = await session.ended(killer)
            neighbours = await session.all_ended(ids)
        finally:
            await asyncio.to_thread(handler.stop_processes)
        assert {workflow.status for workflow in neighbours} == {"COMPLETED"}
        began = Counter((tmp_path / "began").read_text().split())
        assert {number: times for number, times in began.items() if times > 2 and number != "deadly"} == {}
        # The first SIGKILL may have come from outside and costs no attempt.
        failed = ["FAILED"] if how == "kill" else ["FAILED", "FAILED"]
        assert [task.status for task in ended.tasks] == [*failed, "FAILED_WITH_TERMINAL_ERROR"]
        for task in ended.tasks:
            assert process_workers.DEATHS[how] in str(task.reason_for_incompletion)
        assert ended.status == "FAILED"

    async def test_a_batch_is_taken_with_one_poll_and_nothing_runs_twice(self, session: Session) -> None:
        name, ran = session.named("batch"), []

        async def work(number: int) -> None:
            ran.append(number)

        ids = [await session.start(name, input={"number": number}) for number in range(30)]
        async with session.handler(Worker(name, work, thread_count=20)):
            workflows = await session.all_ended(ids)
        assert [workflow.status for workflow in workflows] == ["COMPLETED"] * 30
        assert sorted(ran) == list(range(30))
        assert max(event.tasks_received for event in session.events.of(PollCompleted)) > 1

    async def test_many_task_types_in_one_process(self, session: Session) -> None:
        """More than the long polls that one process may park on a Conductor server."""
        names = [session.named(f"type{number}") for number in range(40)]

        def make(name: str) -> Worker:
            async def work() -> dict[str, str]:
                return {"did": name}

            return Worker(name, work)

        async with session.handler(*map(make, names)):
            workflows = await session.all_ended(await asyncio.gather(*(session.start(name) for name in names)))
        assert [workflow.output["last"] for workflow in workflows] == [{"did": name} for name in names]

    async def test_logs_beyond_the_ten_of_a_report_arrive_too(self, session: Session) -> None:
        name = session.named("talk")

        def talk() -> None:
            for number in range(15):
                get_task_context().add_log(f"line {number}")

        async with session.handler(Worker(name, talk)):
            (task,) = (await session.ended(await session.start(name))).tasks
        if not session.target.indexed:
            return

        async def logged() -> list[str] | None:
            logs = await session.tasks.get_task_logs(task.task_id)
            return [entry.log or "" for entry in logs] if len(logs) == 15 else None

        lines = await session.until(logged, "fifteen lines of log")  # an index may lag
        assert sorted(lines or []) == sorted(f"line {number}" for number in range(15))

    async def test_large_input_and_output(self, session: Session) -> None:
        name, text = session.named("large"), "x" * 2_000_000

        async def turn(text: str) -> dict[str, str]:
            return {"text": text[::-1], "end": "end"}

        async with session.handler(Worker(name, turn)):
            workflow = await session.ended(await session.start(name, input={"text": text}))
        assert workflow.status == "COMPLETED"
        assert workflow.tasks[0].output_data == {"text": text, "end": "end"}

    async def test_unknown_fields_are_no_obstacle(self, session: Session) -> None:
        """Newer clients, newer servers: what one does not know, it does not mind."""
        name = session.named("greet")
        step = {
            "name": name,
            "taskReferenceName": "step0",
            "type": "SIMPLE",
            "inputParameters": {"name": "Ada"},
            "x": 1,
        }
        flow = {
            "name": session.named("flow"),
            "version": 1,
            "schemaVersion": 2,
            "tasks": [step],
            "fromTheFuture": {"a": 1},
        }
        asked = {"name": flow["name"], "workflowDef": flow, "input": {}, "shipment": "express"}
        async with httpx.AsyncClient(base_url=session.target.url, timeout=60) as http:
            workflow_id = (await http.post("/workflow", json=asked)).text
            async with session.handler(Worker(name, greet)):
                workflow = await session.ended(workflow_id)
            assert workflow.tasks[0].output_data == {"greeting": "Hello Ada"}
            again = (await http.post("/workflow", json=asked)).text
            (task,) = await session.tasks.batch_poll_tasks(name, "me", 1, 5000)
            report = {"taskId": task.task_id, "workflowInstanceId": again, "workerId": "me", "status": "COMPLETED"}
            answer = await http.post(
                "/tasks", json={**report, "outputData": {}, "mood": "good", "leaseId": task.lease_id}
            )
            assert (answer.status_code, answer.text) == (200, task.task_id)
        assert (await session.ended(again)).status == "COMPLETED"


class TestQueues:
    async def test_a_domain_is_served_by_its_own_workers_alone(self, session: Session) -> None:
        name = session.named("where")

        def at(place: str) -> Callable[[], dict[str, str]]:
            return lambda: {"place": place}

        async with session.handler(Worker(name, at("here")), Worker(name, at("there"), domain="there")):
            plain = session.start(name)
            special = session.start(name, task_to_domain={name: "there"})
            workflows = await session.all_ended(await asyncio.gather(plain, special))
        assert [workflow.output["last"] for workflow in workflows] == [{"place": "here"}, {"place": "there"}]
        assert [workflow.tasks[0].domain for workflow in workflows] == [None, "there"]

    async def test_the_higher_priority_first(self, session: Session) -> None:
        """The coordinator keeps the order; on a real server all are done, in whatever order."""
        name, order = session.named("priority"), []

        async def work(priority: int) -> None:
            order.append(priority)

        given = [0, 5, 99, 50, 1]
        ids = [await session.start(name, input={"priority": number}, priority=number) for number in given]
        async with session.handler(Worker(name, work)):
            await session.all_ended(ids)
        if session.target.is_conductor:
            order.sort(reverse=True)
        assert order == [99, 50, 5, 1, 0]

    async def test_no_more_at_once_than_the_concurrency_limit(self, session: Session) -> None:
        name = session.named("limited")
        await session.define(name, concurrent_exec_limit=2, retry_count=0)
        inside, most = 0, 0
        enough = asyncio.Event()

        async def work() -> None:
            nonlocal inside, most
            inside += 1
            most = max(most, inside)
            if inside == 2:
                enough.set()
            await enough.wait()  # the first two meet; none of the later ones has to wait
            inside -= 1

        ids = await session.start_many(6, name)
        async with session.handler(Worker(name, work, thread_count=6)):
            workflows = await session.all_ended(ids)
        assert ([workflow.status for workflow in workflows], most) == (["COMPLETED"] * 6, 2)


@dataclass(frozen=True)
class Policy:
    """A retry policy and the delays it must give."""

    logic: str
    factor: int
    delays: list[int]


POLICIES = [
    Policy("FIXED", 1, [0, 1, 1]),
    Policy("LINEAR_BACKOFF", 2, [0, 2]),
    Policy("EXPONENTIAL_BACKOFF", 1, [0, 1, 2]),
]


class TestFailure:
    @pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.logic)
    async def test_a_failed_task_is_tried_again_by_its_policy(self, session: Session, policy: Policy) -> None:
        name, retries = session.named("flaky"), len(policy.delays) - 1
        await session.define(
            name,
            retry_count=retries,
            retry_logic=policy.logic,
            retry_delay_seconds=1,
            backoff_scale_factor=policy.factor,
        )

        def flaky() -> dict[str, int]:
            attempt = get_task_context().retry_count
            if attempt < retries:
                raise OSError(f"attempt {attempt}")
            return {"attempt": attempt}

        async with session.handler(Worker(name, flaky)):
            workflow = await session.ended(await session.start(name))
        attempts = workflow.tasks
        assert workflow.status == "COMPLETED"
        assert [task.status for task in attempts] == ["FAILED"] * retries + ["COMPLETED"]
        assert [task.start_delay_in_seconds for task in attempts] == policy.delays
        assert [task.retried_task_id for task in attempts[1:]] == [task.task_id for task in attempts[:-1]]
        assert attempts[0].reason_for_incompletion == "OSError: attempt 0"
        assert attempts[-1].output_data == {"attempt": retries}

    async def test_the_workflow_fails_when_no_retry_is_left(self, session: Session) -> None:
        name = session.named("broken")
        await session.define(name, retry_count=1, retry_delay_seconds=0)

        async def broken() -> None:
            raise ValueError("never works")

        async with session.handler(Worker(name, broken)):
            workflow = await session.ended(await session.start(name))
        assert workflow.status == "FAILED"
        assert [task.status for task in workflow.tasks] == ["FAILED", "FAILED"]
        assert "ValueError: never works" in (workflow.reason_for_incompletion or "")

    @pytest.mark.parametrize("kind", KINDS)
    async def test_a_terminal_failure_is_not_tried_again(self, session: Session, kind: str) -> None:
        name = session.named("refuse")

        def refuse(name: str) -> None:
            raise NonRetryableException(f"{name} is not welcome")

        async with session.handler(Worker(name, of_kind(kind, refuse))):
            workflow = await session.ended(await session.start(name, input={"name": "Ada"}))
        (task,) = workflow.tasks
        assert (workflow.status, task.status) == ("FAILED", "FAILED_WITH_TERMINAL_ERROR")
        assert task.reason_for_incompletion == "Ada is not welcome"

    async def test_input_that_does_not_fit_fails_terminally_and_names_the_field(self, session: Session) -> None:
        name = session.named("typed")

        async def typed(number: int) -> None:
            """Wants a number."""

        async with session.handler(Worker(name, typed)):
            workflow = await session.ended(await session.start(name, input={"number": "many"}))
        (task,) = workflow.tasks
        assert task.status == "FAILED_WITH_TERMINAL_ERROR"
        assert "number" in (task.reason_for_incompletion or "")


class TestLongTasks:
    @pytest.mark.parametrize("kind", KINDS)
    async def test_a_task_in_progress_comes_back_until_it_is_done(self, session: Session, kind: str) -> None:
        name = session.named("rounds")

        def work(name: str) -> Any:
            rounds = get_task_context().poll_count
            return {"rounds": rounds} if rounds == 3 else TaskInProgress(1, output={"so far": rounds})

        async with session.handler(Worker(name, of_kind(kind, work))):
            workflow = await session.ended(await session.start(name, input={"name": "Ada"}))
        (task,) = workflow.tasks
        assert (task.status, task.poll_count, task.output_data) == ("COMPLETED", 3, {"rounds": 3})

    @pytest.mark.parametrize("kind", KINDS)
    async def test_heartbeats_carry_a_task_past_its_response_timeout(self, session: Session, kind: str) -> None:
        name, go_on = session.named("long"), threading.Event()
        await session.define(name, response_timeout_seconds=3, retry_count=0)

        def long(name: str) -> dict[str, bool]:
            return {"waited": go_on.wait(session.patience_s)}

        async def long_async() -> dict[str, bool]:
            return await asyncio.to_thread(long, "")

        work = long if kind == "def" else long_async
        async with session.handler(Worker(name, work, lease_extend_enabled=True)):
            workflow_id = await session.start(name)
            # At the earliest after 5 * 0.8 / 3 of the response timeout: well beyond it.
            await session.events.until(TaskLeaseExtended, 5)
            go_on.set()
            workflow = await session.ended(workflow_id)
        (task,) = workflow.tasks
        assert (workflow.status, task.status, task.output_data) == ("COMPLETED", "COMPLETED", {"waited": True})
        assert task.poll_count == 1
        assert session.events.of(TaskLeaseLost) == []

    async def test_a_terminated_workflow_cancels_its_coroutine(self, session: Session) -> None:
        name = session.named("long")
        began, ended = asyncio.Event(), asyncio.Event()
        await session.define(name, response_timeout_seconds=6, retry_count=0)

        async def work() -> None:
            began.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                ended.set()
                raise

        await self._terminate_in_the_middle(session, Worker(name, work, lease_extend_enabled=True), began.wait)
        assert ended.is_set()

    async def test_a_terminated_workflow_raises_the_flag_of_its_def(self, session: Session) -> None:
        name = session.named("long")
        began, returned, seen = threading.Event(), threading.Event(), []
        await session.define(name, response_timeout_seconds=6, retry_count=0)

        def work() -> None:
            began.set()
            context = get_task_context()
            try:
                seen.append(context.wait_cancelled(session.patience_s))
                context.raise_if_cancelled()
            finally:
                returned.set()

        async def has_begun() -> None:
            assert await asyncio.to_thread(began.wait, session.patience_s)

        await self._terminate_in_the_middle(session, Worker(name, work, lease_extend_enabled=True), has_begun)
        # Lost tasks are not waited for: their thread may see the flag after the handler has stopped.
        assert await asyncio.to_thread(returned.wait, session.patience_s)
        assert seen == [True]

    async def _terminate_in_the_middle(
        self, session: Session, worker: Worker, begun: Callable[[], Awaitable[object]]
    ) -> None:
        async with session.handler(worker):
            workflow_id = await session.start(worker.task_definition_name)
            async with asyncio.timeout(session.patience_s):
                await begun()
            await session.workflows.terminate_workflow(workflow_id, "changed my mind")
            await session.events.until(TaskLeaseLost)
        assert session.events.of(TaskUpdateCompleted) == []  # nothing more is said about a lost task
        workflow = await session.workflows.get_workflow(workflow_id)
        assert (workflow.status, workflow.tasks[0].status) == ("TERMINATED", "CANCELED")


class TestStopping:
    async def test_a_drain_finishes_what_is_in_hand_and_takes_nothing_more(self, session: Session) -> None:
        name = session.named("slow")
        began, go_on = asyncio.Event(), asyncio.Event()

        async def work() -> dict[str, bool]:
            began.set()
            await go_on.wait()
            return {"finished": True}

        first = await session.start(name)
        handler = session.handler(Worker(name, work))
        await handler.start()
        async with asyncio.timeout(session.patience_s):
            await began.wait()
        stopping = asyncio.create_task(handler.stop())
        await session.events.until(WorkerStopping)
        second = await session.start(name)
        go_on.set()
        await stopping
        assert (await session.ended(first)).output["last"] == {"finished": True}
        assert (await session.workflows.get_workflow(second)).tasks[0].status == "SCHEDULED"
        (stopped,) = session.events.of(WorkerStopped)
        assert stopped.handed_back == 0

    @pytest.mark.parametrize("kind", KINDS)
    async def test_a_task_that_does_not_end_in_time_is_handed_back_and_runs_elsewhere(
        self, session: Session, kind: str
    ) -> None:
        name = session.named("endless")
        began, leave = threading.Event(), threading.Event()
        await session.define(name, retry_count=0)

        def endless() -> None:
            began.set()
            leave.wait(session.patience_s)

        async def endless_async() -> None:
            began.set()
            await asyncio.Event().wait()

        workflow_id = await session.start(name)
        work = endless if kind == "def" else endless_async
        handler = session.handler(Worker(name, work, worker_id="one"), shutdown_grace_seconds=0.2)
        await handler.start()
        assert await asyncio.to_thread(began.wait, session.patience_s)
        await handler.stop()
        leave.set()
        (stopped,) = session.events.of(WorkerStopped)
        assert stopped.handed_back == 1
        async with session.handler(Worker(name, lambda: {"by": "the next"}, worker_id="two")):
            workflow = await session.ended(workflow_id)
        (task,) = workflow.tasks
        assert (task.status, task.poll_count, task.worker_id) == ("COMPLETED", 2, "two")
        assert task.output_data == {"by": "the next"}


class TestServerDown:
    async def test_a_result_outlives_the_death_of_the_server_and_work_goes_on(self, session: Session) -> None:
        """kill -9 while a task runs: its result waits in the journal, and the worker comes back by itself."""
        name = session.named("survivor")
        await session.define(name, response_timeout_seconds=3600, retry_count=0)
        began, go_on, runs = asyncio.Event(), asyncio.Event(), []

        async def work(number: int) -> dict[str, int]:
            runs.append(number)
            began.set()
            await go_on.wait()
            return {"number": number}

        worker = Worker(name, work, update_attempts=1)
        async with session.handler(worker):
            first = await session.start(name, input={"number": 1})
            async with asyncio.timeout(session.patience_s):
                await began.wait()
            await asyncio.to_thread(session.target.kill)
            go_on.set()
            (failure,) = await session.events.until(TaskUpdateFailure)
            assert failure.journaled
            await asyncio.to_thread(session.target.revive)
            second = await session.start(name, input={"number": 2})
            workflows = await session.all_ended([first, second])
        assert [workflow.output["last"] for workflow in workflows] == [{"number": 1}, {"number": 2}]
        assert runs == [1, 2]


class TestRegistration:
    async def test_a_worker_registers_its_definition(self, session: Session) -> None:
        name = session.named("registered")
        template = TaskDef(name="any", retry_count=7, response_timeout_seconds=77, timeout_seconds=177)

        async def work(number: int, text: str = "") -> dict[str, int]:
            return {"number": number}

        worker = Worker(name, work, register_task_def=True, task_def=template)
        async with session.handler(worker):
            workflow = await session.ended(await session.start(name, input={"number": 5}))
        assert workflow.status == "COMPLETED"
        found = await session.metadata.get_task_def(name)
        assert (found.name, found.retry_count, found.response_timeout_seconds) == (name, 7, 77)
        if session.target.is_conductor:
            assert found.input_schema is None  # the open-source server has no registry of schemas

    @pytest.mark.targets("coordinator")
    async def test_schemas_are_registered_and_enforced_where_there_is_a_registry(self, session: Session) -> None:
        name, ran = session.named("typed"), []

        async def work(number: int) -> dict[str, int]:
            ran.append(number)
            return {"number": number}

        template = TaskDef(enforce_schema=True)
        worker = Worker(name, work, register_task_def=True, task_def=template, strict_schema=True)
        async with session.handler(worker):
            await session.events.until(WorkerStarted)
            good = await session.ended(await session.start(name, input={"number": 5}))
            bad = await session.ended(await session.start(name, input={"number": "five"}))
        found = await session.metadata.get_task_def(name)
        assert found.input_schema is not None
        assert (found.input_schema.name, found.input_schema.version) == (f"{name}_input", 1)
        assert (good.status, bad.status, ran) == ("COMPLETED", "FAILED", [5])

    async def test_a_definition_that_exists_is_kept_when_asked(self, session: Session) -> None:
        name = session.named("kept")
        await session.define(name, retry_count=5)
        worker = Worker(name, lambda: None, register_task_def=True, overwrite_task_def=False)
        async with session.handler(worker):
            await session.ended(await session.start(name))
        assert (await session.metadata.get_task_def(name)).retry_count == 5


class TestVerdicts:
    async def test_a_report_can_be_read_back(self, session: Session) -> None:
        name = session.named("verified")
        async with session.handler(Worker(name, lambda: {"done": True}, verify_reports=True)):
            workflow = await session.ended(await session.start(name))
            (verdict,) = await session.events.until(TaskUpdateCompleted)
        assert workflow.status == "COMPLETED"
        assert verdict.verdict is Verdict.COMMITTED
