"""Workers on one event loop, from a started workflow to its end, against a real coordinator."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from conductor.client.automator.task_handler_asyncio import TaskHandlerAsyncIO
from conductor.client.automator.task_runner_asyncio import TaskRunnerAsyncIO
from conductor.client.configuration.configuration import Configuration
from conductor.client.configuration.settings.authentication_settings import AuthenticationSettings
from conductor.client.context.task_context import TaskInProgress, get_task_context
from conductor.client.event.task_runner_events import (
    TaskExecutionFailure,
    TaskRunnerEventsListener,
    TaskUpdateCompleted,
    WorkerStopped,
)
from conductor.client.http.models import StartWorkflowRequest, TaskDef, Workflow, WorkflowDef
from conductor.client.http.models.task import Task
from conductor.client.orkes_clients import OrkesClients
from conductor.client.worker.exception import NonRetryableException
from conductor.client.worker.worker import Worker
from conductor.client.worker.worker_interface import WorkerInterface
from conductor.coordinator import Coordinator
from conductor.protocol.wire import Verdict
from conductor.testing.wait_until import Watch

PATIENCE_S = 60.0


class Listener(TaskRunnerEventsListener):
    """Counts verdicts, so that a test can wait for them."""

    def __init__(self) -> None:
        self.verdicts: list[TaskUpdateCompleted] = []
        self.failures: list[TaskExecutionFailure] = []
        self.stopped: list[WorkerStopped] = []
        self._watch = Watch(lambda: f"{len(self.verdicts)} verdicts")

    def on_task_update_completed(self, event: TaskUpdateCompleted) -> None:
        self.verdicts.append(event)
        self._watch.notify()

    def on_task_execution_failure(self, event: TaskExecutionFailure) -> None:
        self.failures.append(event)

    def on_worker_stopped(self, event: WorkerStopped) -> None:
        self.stopped.append(event)

    async def until_verdicts(self, count: int) -> None:
        await self._watch.until(lambda: len(self.verdicts) >= count, PATIENCE_S)


class Flow:
    """A workflow of tasks one after the other; each takes the output of the one before."""

    def __init__(self, coordinator: Coordinator) -> None:
        self.configuration = Configuration(coordinator.url)
        self._clients = OrkesClients(self.configuration)

    def define(self, *names: str, **definition: Any) -> None:
        metadata = self._clients.get_metadata_client()
        for name in set(names):
            values = {"name": name, "retryCount": 0, "retryDelaySeconds": 0, **definition}
            metadata.register_task_def(TaskDef.from_dict(values))
        tasks = []
        source = "${workflow.input.value}"
        for number, name in enumerate(names):
            reference = f"{name}_{number}"
            tasks.append({"name": name, "taskReferenceName": reference, "inputParameters": {"value": source}})
            source = f"${{{reference}.output.value}}"
        workflow = {
            "name": "flow",
            "version": 1,
            "schemaVersion": 2,
            "tasks": tasks,
            "outputParameters": {"value": source},
        }
        metadata.register_workflow_def(WorkflowDef.from_dict(workflow), overwrite=True)

    async def start(self, value: Any = None, count: int = 1, **options: Any) -> list[str]:
        client = self._clients.get_workflow_client()
        request = StartWorkflowRequest(name="flow", input={"value": value}, **options)

        def start_all() -> list[str]:
            return [client.start_workflow(request) for _ in range(count)]

        return await asyncio.to_thread(start_all)

    async def get(self, workflow_id: str) -> Workflow:
        client = self._clients.get_workflow_client()
        return await asyncio.to_thread(client.get_workflow, workflow_id, include_tasks=True)

    def handler(self, *workers: Any, **options: Any) -> TaskHandlerAsyncIO:
        return TaskHandlerAsyncIO(list(workers), self.configuration, **options)


@pytest.fixture
def coordinator() -> Iterator[Coordinator]:
    with Coordinator() as made:
        yield made


@pytest.fixture
def flow(coordinator: Coordinator) -> Flow:
    return Flow(coordinator)


def add_one(value: int) -> dict[str, int]:
    return {"value": value + 1}


async def add_one_async(value: int) -> dict[str, int]:
    await asyncio.sleep(0)
    return {"value": value + 1}


class AddOne(WorkerInterface):
    def execute(self, task: Task) -> dict[str, int]:
        return add_one(task.input_data["value"])


class TestOneWorkflow:
    @pytest.mark.parametrize(
        "worker",
        [Worker("add", add_one), Worker("add", add_one_async), AddOne("add")],
        ids=["def", "async def", "class"],
    )
    async def test_a_workflow_runs_from_start_to_end(self, flow: Flow, worker: Any) -> None:
        flow.define("add")
        listener = Listener()
        async with flow.handler(worker, event_listeners=[listener]):
            (workflow_id,) = await flow.start(41)
            await listener.until_verdicts(1)
        workflow = await flow.get(workflow_id)
        assert (workflow.status, workflow.output) == ("COMPLETED", {"value": 42})
        (verdict,) = listener.verdicts
        assert (verdict.verdict, verdict.inferred) == (Verdict.COMMITTED, False), "a coordinator says it itself"

    async def test_workers_of_several_kinds_run_the_steps_of_a_workflow(self, flow: Flow) -> None:
        flow.define("add", "add_async", "add_class", "add")
        listener = Listener()
        workers = [Worker("add", add_one), Worker("add_async", add_one_async), AddOne("add_class")]
        async with flow.handler(*workers, event_listeners=[listener]):
            (workflow_id,) = await flow.start(0)
            await listener.until_verdicts(4)
        assert (await flow.get(workflow_id)).output == {"value": 4}

    async def test_values_keep_their_types_on_the_way(self, flow: Flow) -> None:
        @dataclass
        class Order:
            sku: str
            count: int
            tags: list[str]

        def make() -> dict[str, Order]:
            return {"value": Order("a-1", 2, ["new"])}

        def take(value: Order) -> dict[str, str]:
            assert isinstance(value, Order)
            return {"value": f"{value.count} of {value.sku}, {value.tags[0]}"}

        flow.define("make", "take")
        listener = Listener()
        async with flow.handler(Worker("make", make), Worker("take", take), event_listeners=[listener]):
            (workflow_id,) = await flow.start()
            await listener.until_verdicts(2)
        assert (await flow.get(workflow_id)).output == {"value": "2 of a-1, new"}

    async def test_rounds_of_a_task_in_progress(self, flow: Flow) -> None:
        async def in_rounds() -> Any:
            polls = get_task_context().poll_count
            if polls < 3:
                return TaskInProgress(callback_after_seconds=0, output={"value": polls})
            return {"value": polls}

        flow.define("rounds")
        listener = Listener()
        async with flow.handler(Worker("rounds", in_rounds), event_listeners=[listener]):
            (workflow_id,) = await flow.start()
            await listener.until_verdicts(3)
        workflow = await flow.get(workflow_id)
        assert workflow.output == {"value": 3}
        assert {event.verdict for event in listener.verdicts} == {Verdict.COMMITTED}

    async def test_logs_of_a_task_arrive(self, flow: Flow) -> None:
        async def talk() -> dict[str, int]:
            for number in range(15):
                get_task_context().add_log(f"line {number}")
            return {"value": 1}

        flow.define("talk")
        listener = Listener()
        async with flow.handler(Worker("talk", talk), event_listeners=[listener]):
            (workflow_id,) = await flow.start()
            await listener.until_verdicts(1)
        (task,) = (await flow.get(workflow_id)).tasks
        client = OrkesClients(flow.configuration).get_task_client()
        logs = await asyncio.to_thread(client.get_task_logs, task.task_id)
        assert [entry.log for entry in logs] == [f"line {number}" for number in range(15)]


class TestFailures:
    async def test_a_failed_task_is_retried_by_the_server(self, flow: Flow) -> None:
        attempts: list[int] = []

        async def third_time_lucky() -> dict[str, int]:
            attempts.append(get_task_context().retry_count)
            if len(attempts) < 3:
                raise ConnectionError("not yet")
            return {"value": len(attempts)}

        flow.define("lucky", retryCount=5)
        listener = Listener()
        async with flow.handler(Worker("lucky", third_time_lucky), event_listeners=[listener]):
            (workflow_id,) = await flow.start()
            await listener.until_verdicts(3)
        workflow = await flow.get(workflow_id)
        assert (workflow.status, workflow.output) == ("COMPLETED", {"value": 3})
        assert attempts == [0, 1, 2]
        assert len(listener.failures) == 2

    @pytest.mark.parametrize(
        ("error", "status", "attempts"),
        [
            (NonRetryableException("no such order"), "FAILED_WITH_TERMINAL_ERROR", 1),
            (ValueError("bad"), "FAILED", 3),
        ],
        ids=["terminal", "retried"],
    )
    async def test_a_failure_that_stays_ends_the_workflow(
        self, flow: Flow, error: Exception, status: str, attempts: int
    ) -> None:
        def fail() -> None:
            raise error

        flow.define("fail", retryCount=2)
        listener = Listener()
        async with flow.handler(Worker("fail", fail), event_listeners=[listener]):
            (workflow_id,) = await flow.start()
            await listener.until_verdicts(attempts)
        workflow = await flow.get(workflow_id)
        assert workflow.status == "FAILED"
        assert [task.status for task in workflow.tasks] == [status] * attempts
        assert str(error) in (workflow.tasks[0].reason_for_incompletion or "")

    async def test_a_terminated_workflow_stops_its_task(self, flow: Flow) -> None:
        started, stopped = asyncio.Event(), asyncio.Event()

        async def long() -> None:
            started.set()
            try:
                await asyncio.Event().wait()
            finally:
                stopped.set()

        flow.define("long", responseTimeoutSeconds=3)
        async with flow.handler(Worker("long", long)):
            (workflow_id,) = await flow.start()
            await asyncio.wait_for(started.wait(), PATIENCE_S)
            client = OrkesClients(flow.configuration).get_workflow_client()
            await asyncio.to_thread(client.terminate_workflow, workflow_id, "enough")
            await asyncio.wait_for(stopped.wait(), PATIENCE_S)  # the next heartbeat brings the news
        assert (await flow.get(workflow_id)).status == "TERMINATED"


class TestManyAtOnce:
    async def test_a_hundred_workflows_run_at_once(self, flow: Flow) -> None:
        flow.define("add", "add_async")
        listener = Listener()
        workers = [Worker("add", add_one, thread_count=10), Worker("add_async", add_one_async, thread_count=50)]
        async with flow.handler(*workers, event_listeners=[listener]):
            ids = await flow.start(1, count=100)
            await listener.until_verdicts(200)
        outputs = [(await flow.get(workflow_id)).output for workflow_id in ids]
        assert outputs == [{"value": 3}] * 100
        assert len({event.task_id for event in listener.verdicts}) == 200, "no task was done twice"

    async def test_slots_are_used_and_not_exceeded(self, flow: Flow) -> None:
        inside = most = 0
        full = asyncio.Event()

        async def meet() -> None:
            nonlocal inside, most
            inside += 1
            most = max(most, inside)
            if inside == 5:
                full.set()
            await asyncio.wait_for(full.wait(), PATIENCE_S)
            inside -= 1

        flow.define("meet")
        listener = Listener()
        async with flow.handler(Worker("meet", meet, thread_count=5), event_listeners=[listener]):
            await flow.start(count=15)
            await listener.until_verdicts(15)
        assert most == 5

    async def test_two_handlers_share_the_work(self, flow: Flow) -> None:
        flow.define("add")
        listener = Listener()
        workers = [Worker("add", add_one_async, worker_id=name) for name in ("one", "two")]
        one, two = (flow.handler(worker, event_listeners=[listener]) for worker in workers)
        async with one, two:
            ids = await flow.start(1, count=40)
            await listener.until_verdicts(40)
        tasks = [task for workflow_id in ids for task in (await flow.get(workflow_id)).tasks]
        assert {task.worker_id for task in tasks} <= {"one", "two"}
        assert len(tasks) == 40

    async def test_domains_keep_workers_apart(self, flow: Flow) -> None:
        def where(domain: str) -> Any:
            return lambda: {"value": domain}

        flow.define("where")
        listener = Listener()
        workers = [Worker("where", where("vip"), domain="vip"), Worker("where", where("none"))]
        async with flow.handler(*workers, event_listeners=[listener]):
            vip = await flow.start(count=3, task_to_domain={"where": "vip"})
            rest = await flow.start(count=3)
            await listener.until_verdicts(6)
        for workflow_id in vip:
            assert (await flow.get(workflow_id)).output == {"value": "vip"}
        for workflow_id in rest:
            assert (await flow.get(workflow_id)).output == {"value": "none"}


class TestEnds:
    async def test_a_stopping_handler_finishes_and_the_next_goes_on(self, flow: Flow) -> None:
        flow.define("add", "add")
        first, second = Listener(), Listener()
        async with flow.handler(Worker("add", add_one_async), event_listeners=[first]):
            ids = await flow.start(1, count=10)
            await first.until_verdicts(1)
        done = len(first.verdicts)
        async with flow.handler(Worker("add", add_one_async, thread_count=10), event_listeners=[second]):
            await second.until_verdicts(20 - done)
        assert [(await flow.get(workflow_id)).output for workflow_id in ids] == [{"value": 3}] * 10

    async def test_a_task_that_is_handed_back_runs_elsewhere_at_once(self, flow: Flow) -> None:
        entered = threading.Event()
        patience = threading.Event()

        def stuck(value: int) -> dict[str, int]:
            entered.set()
            patience.wait(PATIENCE_S)
            return {"value": value}

        flow.define("job", responseTimeoutSeconds=3600)
        leaving, coming = Listener(), Listener()
        options: dict[str, Any] = {"shutdown_grace_seconds": 0, "event_listeners": [leaving]}
        async with flow.handler(Worker("job", stuck), **options):
            (workflow_id,) = await flow.start(1)
            assert await asyncio.to_thread(entered.wait, PATIENCE_S)
        assert leaving.stopped[0].handed_back == 1
        async with flow.handler(Worker("job", add_one_async), event_listeners=[coming]):
            await coming.until_verdicts(1)
        patience.set()
        assert (await flow.get(workflow_id)).output == {"value": 2}

    async def test_a_runner_of_its_own(self, flow: Flow) -> None:
        flow.define("add")
        (workflow_id,) = await flow.start(1)
        runner = TaskRunnerAsyncIO(Worker("add", add_one_async), flow.configuration, max_concurrent_tasks=3)
        assert await runner.run_once() == 1
        assert (await flow.get(workflow_id)).output == {"value": 2}

    async def test_a_worker_runs_with_the_users_http_client(self, flow: Flow) -> None:
        flow.define("add")
        listener = Listener()
        async with httpx.AsyncClient() as client:
            async with flow.handler(Worker("add", add_one_async), http_client=client, event_listeners=[listener]):
                (workflow_id,) = await flow.start(1)
                await listener.until_verdicts(1)
            assert not client.is_closed
        assert (await flow.get(workflow_id)).output == {"value": 2}

    async def test_a_worker_runs_with_a_key_and_a_secret(self) -> None:
        with Coordinator(auth_key="key", auth_secret="secret") as coordinator:
            flow = Flow(coordinator)
            settings = AuthenticationSettings("key", "secret")
            flow.configuration = Configuration(coordinator.url, authentication_settings=settings)
            flow._clients = OrkesClients(flow.configuration)
            flow.define("add")
            listener = Listener()
            async with flow.handler(Worker("add", add_one_async), event_listeners=[listener]):
                (workflow_id,) = await flow.start(1)
                await listener.until_verdicts(1)
            assert (await flow.get(workflow_id)).output == {"value": 2}
