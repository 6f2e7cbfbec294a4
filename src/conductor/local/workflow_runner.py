"""Check workflow definitions and run workflows in this process, on a coordinator in memory.

This is the only module that imports both the client and the coordinator. It needs the `server` extra.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from typing import TYPE_CHECKING, Any, TypeAlias

from conductor.client.configuration.configuration import Configuration
from conductor.client.http.models.start_workflow_request import StartWorkflowRequest
from conductor.client.http.models.task_def import TaskDef
from conductor.client.http.models.workflow import Workflow
from conductor.protocol.statuses import TaskStatus

if TYPE_CHECKING:
    from conductor.client.automator.task_handler_asyncio import TaskHandlerAsyncIO
    from conductor.client.worker.worker_interface import WorkerInterface
    from conductor.client.workflow.conductor_workflow import ConductorWorkflow
    from conductor.client.workflow_client import AsyncWorkflowClient

#: Interval between two checks of whether a workflow has ended.
_CHECK_INTERVAL_S = 0.01

#: A workflow definition as JSON.
Definition: TypeAlias = dict[str, Any]
#: A `WorkerInterface` object or a function decorated with `@worker_task`.
AnyWorker: TypeAlias = Any


class WorkflowFailed(RuntimeError):
    """A workflow ended without completing.

    Attributes:
        execution: The workflow with its tasks.
    """

    def __init__(self, execution: Workflow) -> None:
        super().__init__(describe_outcome(execution))
        self.execution = execution


def find_problems(definition: Definition) -> list[str]:
    """Return every reason for which the coordinator would reject the definition, with its path in the definition."""
    from conductor.coordinator.definitions.workflow_defs import check_workflow_def
    from conductor.coordinator.request_errors import ApiError

    try:
        check_workflow_def(definition)
    except ApiError as refusal:
        return [f"{path}: {message}" for path, message in refusal.problems] or [refusal.message]
    return []


def run_here(
    workflow: ConductorWorkflow, workflow_input: object, *, workers: Iterable[AnyWorker] | None, timeout_s: float
) -> dict[str, Any]:
    """Run a workflow with the workers of this process and return its output; see `ConductorWorkflow.run`."""
    from conductor.client.background_event_loop import BackgroundEventLoop
    from conductor.client.workflow.step_signature import to_json_value

    workflow.validate()
    definition = workflow.to_workflow_def()
    selected = select_workers(definition.to_dict(), workers)
    request = StartWorkflowRequest(
        name=definition.name,
        version=definition.version,
        input=to_json_value(workflow_input) if workflow_input is not None else {},
        workflow_def=definition,
    )
    # Run on a background thread, because in a notebook the caller's thread already runs an event loop.
    execution = BackgroundEventLoop().run_coroutine(_run(request, selected, timeout_s))
    if not execution.is_successful():
        raise WorkflowFailed(execution)
    return execution.output


def workers_by_task_type(workers: Iterable[AnyWorker] | None) -> dict[str, WorkerInterface]:
    """Return the workers by the task types that they serve; None means the decorated workers of this process."""
    from conductor.client.worker import registry
    from conductor.client.worker.worker_interface import WorkerInterface

    known: dict[str, WorkerInterface] = {}
    for one in registry.list_workers() if workers is None else workers:
        worker = one if isinstance(one, WorkerInterface) else registry.find_worker(one)
        if worker is None:
            raise TypeError(f"workers=[...] takes Worker objects and decorated functions; got {one!r}")
        known.update(dict.fromkeys(worker.task_definition_names, worker))
    return known


def select_workers(definition: Definition, workers: Iterable[AnyWorker] | None) -> list[WorkerInterface]:
    """Return the workers that a definition needs.

    Args:
        definition: The workflow definition.
        workers: The available workers; None means the decorated workers of this process.

    Raises:
        WorkflowError: Some task types have no worker; the message names them.
    """
    from conductor.client.workflow.authoring_errors import WorkflowError

    known = workers_by_task_type(workers)
    needed = sorted({name for task in definition.get("tasks", ()) for name in _simple_task_names(task)})
    missing = [name for name in needed if name not in known]
    if missing:
        raise WorkflowError(
            f"no worker in this process serves {' and '.join(map(repr, missing))}: import its module, "
            "or pass workers=[...]"
        )
    return list({id(known[name]): known[name] for name in needed}.values())


def _simple_task_names(task: dict[str, Any]) -> Iterator[str]:
    """Return the task types for workers in a task of a definition, including all tasks nested in it."""
    if task.get("type", "SIMPLE") == "SIMPLE":
        yield task["name"]
    branches = [*task.get("forkTasks", ()), *task.get("decisionCases", {}).values()]
    inline = (task.get("subWorkflowParam") or {}).get("workflowDefinition")
    if isinstance(inline, dict):
        branches.append(inline.get("tasks", ()))
    for branch in [*branches, task.get("defaultCase", ()), task.get("loopOver", ())]:
        for inner in branch or ():
            yield from _simple_task_names(inner)


async def _run(request: StartWorkflowRequest, workers: list[WorkerInterface], timeout_s: float) -> Workflow:
    from conductor.client.workflow_client import AsyncWorkflowClient
    from conductor.coordinator import Coordinator

    coordinator = await asyncio.to_thread(Coordinator().start)
    try:
        configuration = Configuration(coordinator.url)
        workflow_id, handler = await register_and_start(configuration, workers, request)
        try:
            async with AsyncWorkflowClient(configuration) as workflows:
                return await _wait_for_end(workflows, workflow_id, timeout_s)
        finally:
            await handler.stop()
    finally:
        await asyncio.to_thread(coordinator.stop)


async def register_and_start(
    configuration: Configuration, workers: list[WorkerInterface], request: StartWorkflowRequest
) -> tuple[str, TaskHandlerAsyncIO]:
    """Register task definitions, start workers on this event loop without a journal, and start a workflow.

    Returns:
        The workflow id, and the handler that the caller must stop.
    """
    from conductor.client.automator.task_handler_asyncio import TaskHandlerAsyncIO
    from conductor.client.metadata_client import AsyncMetadataClient
    from conductor.client.workflow_client import AsyncWorkflowClient

    # With `poll_timeout=0`, polls are answered immediately, even if the coordinator uses a clock that stands still.
    handler = TaskHandlerAsyncIO(
        workers, configuration, scan_for_annotated_workers=False, journal_enabled=False, poll_timeout=0
    )
    async with AsyncMetadataClient(configuration) as metadata:
        if workers:
            await metadata.register_task_defs([_task_def_of(worker) for worker in workers])
            await handler.start()
    async with AsyncWorkflowClient(configuration) as workflows:
        return await workflows.start_workflow(request), handler


def _task_def_of(worker: WorkerInterface) -> TaskDef:
    """Return the worker's own task definition. Without one, retries are off, so that a failure shows immediately."""
    template = getattr(worker, "task_def", None) or TaskDef(retry_count=0)
    definition = TaskDef.from_dict(template) if isinstance(template, Mapping) else copy(template)
    definition.name = worker.get_task_definition_name()
    return definition


async def _wait_for_end(workflows: AsyncWorkflowClient, workflow_id: str, timeout_s: float) -> Workflow:
    try:
        async with asyncio.timeout(timeout_s):
            while True:
                execution = await workflows.get_workflow(workflow_id)
                if execution.is_terminal:
                    return execution
                await asyncio.sleep(_CHECK_INTERVAL_S)
    except TimeoutError:
        execution = await workflows.get_workflow(workflow_id)
        raise TimeoutError(f"not done after {timeout_s:g} s: {describe_outcome(execution)}") from None


def describe_outcome(execution: Workflow) -> str:
    """Describe the state of a workflow in one sentence: its status, its last failure and its open tasks."""
    open_tasks = [task for task in execution.tasks if task.status in (TaskStatus.SCHEDULED, TaskStatus.IN_PROGRESS)]
    failed = [task for task in execution.tasks if task.status.startswith(("FAILED", "TIMED_OUT"))]
    outcome = f"workflow {execution.workflow_name!r} is {execution.status}"
    if failed:
        last = failed[-1]
        reason = last.reason_for_incompletion or "no reason given"
        outcome += f": step {last.reference_task_name!r} {last.status}: {reason}"
    elif execution.reason_for_incompletion:
        outcome += f": {execution.reason_for_incompletion}"
    if open_tasks and not execution.is_terminal:
        outcome += f"; it waits in {', '.join(repr(task.reference_task_name) for task in open_tasks)}"
    return outcome
