"""A program as users write it: type checkers must understand it, and infer what is written here. Never run."""

import asyncio
from dataclasses import dataclass
from typing import Any, assert_type

import conductor
from conductor import (
    ApiException,
    AuthenticationSettings,
    Configuration,
    MetricsSettings,
    NonRetryableException,
    OrkesClients,
    Task,
    TaskContext,
    TaskDef,
    TaskHandler,
    TaskHandlerAsyncIO,
    TaskInProgress,
    TaskResult,
    TaskResultStatus,
    TaskRunnerEventsListener,
    Worker,
    WorkerInterface,
    WorkerLoader,
    auto_discover_workers,
    get_task_context,
    scan_for_workers,
    worker_task,
)
from conductor.client.automator.async_task_runner import AsyncTaskRunner
from conductor.client.automator.task_runner import TaskRunner
from conductor.client.automator.task_runner_asyncio import TaskRunnerAsyncIO
from conductor.client.event.sync_event_dispatcher import SyncEventDispatcher
from conductor.client.event.task_runner_events import PollStarted, TaskExecutionCompleted, TaskUpdateFailure
from conductor.client.http.models import SchemaDef, StartWorkflowRequest, Workflow, WorkflowDef, WorkflowTask
from conductor.client.workflow import ConductorWorkflow
from conductor.client.workflow_client import AsyncWorkflowClient
from conductor.coordinator import Coordinator
from conductor.testing import ConductorStub, WorkerKiller, WorkflowBench, WorkflowRun

# -- the decorator keeps the function's type --------------------------------------------------------------------------


@dataclass
class Order:
    order_id: str
    amount: float = 0.0


@worker_task(task_definition_name="charge", thread_count=5, task_def=TaskDef(retry_count=3))
def charge(order: Order, priority: int = 1) -> dict[str, Any]:
    return {"order": order.order_id, "priority": priority}


@worker_task(task_definition_name="mail", poll_interval=250, verify_reports=True)
async def mail(address: str) -> None:
    context = get_task_context()
    assert_type(context, TaskContext)
    assert_type(context.get_poll_count(), int)
    context.add_log(address)


@worker_task("raw")
def raw(task: Task) -> TaskResult:
    assert_type(task.input_data["n"], Any)
    if task.retry_count > 3:
        raise NonRetryableException("enough")
    return TaskResult(status=TaskResultStatus.COMPLETED, output_data={"n": 1})


@worker_task("rounds")
def rounds(n: int) -> dict[str, int] | TaskInProgress:
    return TaskInProgress(callback_after_seconds=30, output={"n": n}) if n else {"n": n}


def calls_decorated_functions() -> None:
    assert_type(charge(Order("o-1"), priority=2), dict[str, Any])
    charge("o-1")  # type: ignore[arg-type]
    mail(1)  # type: ignore[arg-type, unused-coroutine]


# -- class-based workers and listeners --------------------------------------------------------------------------------


class Resize(WorkerInterface):
    thread_count = 4

    def execute(self, task: Task) -> dict[str, int]:
        return {"width": task.input_data["width"] // 2}


class Shrink(WorkerInterface):
    async def execute(self, task: Task) -> TaskResult:
        return task.to_task_result()


class Monitor(TaskRunnerEventsListener):
    def on_task_execution_completed(self, event: TaskExecutionCompleted) -> None:
        assert_type(event.duration_ms, float)

    def on_task_update_failure(self, event: TaskUpdateFailure) -> None:
        assert_type(event.task_result, TaskResult)


# -- handlers and runners ---------------------------------------------------------------------------------------------


def runs_processes(configuration: Configuration) -> None:
    with TaskHandler(
        workers=[charge, mail, Resize("resize"), Worker("raw", raw, thread_count=2)],
        configuration=configuration,
        metrics_settings=MetricsSettings(directory="/tmp/m", update_interval=0.1, http_port=8000),
        event_listeners=[Monitor()],
        asyncio=True,
    ) as handler:
        assert_type(handler, TaskHandler)
        handler.start_processes()
        handler.pause("charge")
        assert_type(handler.is_healthy(), bool)
        handler.join_processes()
    TaskHandler(scan_for_annotated_workers=True, import_modules=["my_app.workers"])
    TaskHandler(workers=charge)


async def runs_on_one_loop() -> None:
    async with TaskHandlerAsyncIO(workers=[charge, Shrink("shrink")], shutdown_grace_seconds=5) as handler:
        assert_type(handler, TaskHandlerAsyncIO)
        await handler.wait()
    runner = TaskRunnerAsyncIO(worker=mail, configuration=Configuration(), max_concurrent_tasks=5)
    assert_type(await runner.run_once(), int)
    assert_type(await AsyncTaskRunner(Shrink("shrink")).run_once(), int)
    assert_type(TaskRunner(Resize("resize"), Configuration()).run_once(), int)


def discovers() -> None:
    assert_type(auto_discover_workers(packages=["my_app"], print_summary=True), WorkerLoader)
    assert_type(scan_for_workers("my_app").get_workers(), list[Worker])


def dispatches(dispatcher: SyncEventDispatcher) -> None:
    dispatcher.register(PollStarted, lambda event: print(event.task_type))
    dispatcher.publish(PollStarted("charge", "worker-1", 1))


# -- clients return models --------------------------------------------------------------------------------------------


def uses_clients() -> None:
    settings = AuthenticationSettings("key", "secret")
    clients = OrkesClients(Configuration("http://localhost:8080/api", authentication_settings=settings))
    metadata = clients.get_metadata_client()
    metadata.register_task_def(TaskDef(name="charge"))
    assert_type(metadata.get_task_def("charge"), TaskDef)
    step = WorkflowTask(name="charge", task_reference_name="charge", input_parameters={"n": "${workflow.input.n}"})
    metadata.update_workflow_def(WorkflowDef(name="orders", tasks=[step]))
    workflows = clients.get_workflow_client()
    workflow_id = workflows.start_workflow(StartWorkflowRequest(name="orders", input={"n": 1}))
    assert_type(workflow_id, str)
    assert_type(workflows.get_workflow(workflow_id), Workflow)
    assert_type(workflows.get_workflow_status(workflow_id).is_terminal, bool)
    assert_type(clients.get_schema_client().get_schema("charge_input", 1), SchemaDef)
    tasks = clients.get_task_client()
    assert_type(tasks.batch_poll_tasks("charge", count=5), list[Task])
    try:
        tasks.get_task("t-1")
    except ApiException as error:
        assert_type(error.status, int | None)
    workflows.get_workflow(1)  # type: ignore[arg-type]


async def uses_async_clients() -> None:
    async with AsyncWorkflowClient(Configuration()) as workflows:
        assert_type(await workflows.get_workflow("w-1"), Workflow)
        assert_type(await workflows.start_workflow_by_name("orders", {"n": 1}), str)


# -- servers ----------------------------------------------------------------------------------------------------------


def uses_servers() -> None:
    assert_type(conductor.__version__, str)
    with Coordinator(database="orders.db") as coordinator:
        assert_type(coordinator.url, str)
    with ConductorStub(leases=True) as stub:
        assert_type(stub.add_task("charge", {"n": 1}), str)
        assert_type(stub.wait_results(1), list[dict[str, Any]])


def uses_fixtures(run_workflow: WorkflowBench, kill_worker: WorkerKiller, flow: ConductorWorkflow) -> None:
    kill_worker.after_step(1)
    run = run_workflow(flow, {"n": 1}, mocks={"charge": "R-1"})
    assert_type(run, WorkflowRun)
    assert_type(run.skip(days=1).waiting, list[str])
    assert_type(run.failure_workflow, WorkflowRun)


if __name__ == "__main__":
    asyncio.run(runs_on_one_loop())


# -- an option that does not exist, or has the wrong type, is refused; one that exists has its type --------------

worker_task("job", thread_cont=3)  # type: ignore[call-arg]
worker_task("job", thread_count="3")  # type: ignore[arg-type]
Worker("job", charge, thread_cont=3)  # type: ignore[call-arg]
assert_type(Worker("job", charge).thread_count, int)
assert_type(Worker("job", charge).domain, str | None)
Worker("job", charge).thread_cont  # type: ignore[attr-defined]  # noqa: B018
