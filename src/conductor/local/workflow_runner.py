"""Workflows on this machine alone: checked, and run on a coordinator in memory, without a server.

The one place where the client's side knows the coordinator. Needs the `server` extra.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from typing import TYPE_CHECKING, Any

from conductor.client.configuration.configuration import Configuration
from conductor.client.http.models.start_workflow_request import StartWorkflowRequest
from conductor.client.http.models.task import Task
from conductor.client.http.models.task_def import TaskDef
from conductor.client.http.models.workflow import Workflow

if TYPE_CHECKING:
    from conductor.client.automator.task_handler_asyncio import TaskHandlerAsyncIO
    from conductor.client.workflow.conductor_workflow import ConductorWorkflow

#: How long the end of an execution is not looked for again.
_PAUSE_S = 0.01


class WorkflowFailed(RuntimeError):
    """An execution ended without completing; `execution` has its tasks."""

    def __init__(self, execution: Workflow) -> None:
        super().__init__(story_of(execution))
        self.execution = execution


def problems_of_definition(definition: dict[str, Any]) -> list[str]:
    """All that the coordinator would refuse, with the place in the definition."""
    from conductor.coordinator.definitions.workflow_defs import check_workflow_def
    from conductor.coordinator.request_errors import ApiError

    try:
        check_workflow_def(definition)
    except ApiError as refusal:
        return [f"{path}: {message}" for path, message in refusal.problems] or [refusal.message]
    return []


def run_here(
    workflow: ConductorWorkflow, workflow_input: Any, *, workers: Iterable[Any] | None, timeout_s: float
) -> dict[str, Any]:
    """Run a workflow with the workers of this process and return its output; see `ConductorWorkflow.run`."""
    from conductor.client.background_event_loop import BackgroundEventLoop
    from conductor.client.workflow.contract import as_json

    workflow.validate()
    definition = workflow.to_workflow_def()
    chosen = workers_for(definition.to_dict(), workers)
    request = StartWorkflowRequest(
        name=definition.name,
        version=definition.version,
        input=as_json(workflow_input) if workflow_input is not None else {},
        workflow_def=definition,
    )
    # Not on the caller's thread: in a notebook an event loop runs there already.
    execution = BackgroundEventLoop().run_coroutine(_run(request, chosen, timeout_s))
    if not execution.is_successful():
        raise WorkflowFailed(execution)
    return execution.output


def workers_by_name(workers: Iterable[Any] | None) -> dict[str, Any]:
    """Workers by the task types that they serve: those given, or the decorated ones of this process."""
    from conductor.client.worker import registry
    from conductor.client.worker.worker_interface import WorkerInterface

    known: dict[str, Any] = {}
    for one in registry.registered() if workers is None else workers:
        worker = one if isinstance(one, WorkerInterface) else registry.worker_of(one)
        if worker is None:
            raise TypeError(f"workers=[...] takes Worker objects and decorated functions; got {one!r}")
        known.update(dict.fromkeys(worker.task_definition_names, worker))
    return known


def workers_for(definition: dict[str, Any], workers: Iterable[Any] | None) -> list[Any]:
    """The workers that a definition needs: of those given, or of the decorated ones; an error names what is missing."""
    from conductor.client.workflow.authoring_errors import WorkflowError

    known = workers_by_name(workers)
    needed = sorted(set(simple_task_names(definition)))
    missing = [name for name in needed if name not in known]
    if missing:
        raise WorkflowError(
            f"there is no worker in this process for {' and '.join(map(repr, missing))}: import its module, "
            "or pass workers=[...]"
        )
    return list({id(known[name]): known[name] for name in needed}.values())


def simple_task_names(definition: dict[str, Any]) -> Iterator[str]:
    """The task types that workers do, of all steps of a definition, also of those inside of others."""
    for task in definition.get("tasks", ()):
        yield from _names_in(task)


def _names_in(task: dict[str, Any]) -> Iterator[str]:
    if task.get("type", "SIMPLE") == "SIMPLE":
        yield task["name"]
    branches = [*task.get("forkTasks", ()), *task.get("decisionCases", {}).values()]
    for inner in [*branches, task.get("defaultCase", ()), task.get("loopOver", ())]:
        for one in inner or ():
            yield from _names_in(one)
    inline = (task.get("subWorkflowParam") or {}).get("workflowDefinition")
    if isinstance(inline, dict):
        yield from simple_task_names(inline)


async def _run(request: StartWorkflowRequest, workers: list[Any], timeout_s: float) -> Workflow:
    from conductor.client.workflow_client import AsyncWorkflowClient
    from conductor.coordinator import Coordinator

    coordinator = await asyncio.to_thread(Coordinator().start)
    try:
        configuration = Configuration(coordinator.url)
        workflow_id, handler = await register_and_start(configuration, workers, request)
        try:
            async with AsyncWorkflowClient(configuration) as workflows:
                return await _finished(workflows, workflow_id, timeout_s)
        finally:
            await handler.stop()
    finally:
        await asyncio.to_thread(coordinator.stop)


async def register_and_start(
    configuration: Configuration, workers: list[Any], request: StartWorkflowRequest
) -> tuple[str, TaskHandlerAsyncIO]:
    """Start workers on this loop, and a workflow for them: its id, and the handler to stop. No file is written."""
    from conductor.client.automator.task_handler_asyncio import TaskHandlerAsyncIO
    from conductor.client.metadata_client import AsyncMetadataClient
    from conductor.client.workflow_client import AsyncWorkflowClient

    # A short poll is answered at once: the time of a coordinator under test may stand still.
    options: dict[str, Any] = {"journal_enabled": False, "poll_timeout": 0}
    handler = TaskHandlerAsyncIO(workers, configuration, scan_for_annotated_workers=False, **options)
    async with AsyncMetadataClient(configuration) as metadata:
        if workers:
            await metadata.register_task_defs([_task_def(worker) for worker in workers])
            await handler.start()
    async with AsyncWorkflowClient(configuration) as workflows:
        return await workflows.start_workflow(request), handler


def _task_def(worker: Any) -> TaskDef:
    """The worker's own definition; without one, a failure is not repeated, for whoever runs it wants to see it."""
    template = getattr(worker, "task_def", None) or TaskDef(retry_count=0)
    definition = TaskDef.from_dict(template) if isinstance(template, Mapping) else copy(template)
    definition.name = worker.get_task_definition_name()
    return definition


async def _finished(workflows: Any, workflow_id: str, timeout_s: float) -> Workflow:
    try:
        async with asyncio.timeout(timeout_s):
            while True:
                execution: Workflow = await workflows.get_workflow(workflow_id)
                if execution.is_terminal:
                    return execution
                await asyncio.sleep(_PAUSE_S)
    except TimeoutError:
        execution = await workflows.get_workflow(workflow_id)
        raise TimeoutError(f"not done after {timeout_s:g} s: {story_of(execution)}") from None


def story_of(execution: Workflow) -> str:
    """What became of an execution, in one sentence."""
    open_ones = [task for task in execution.tasks if task.status in ("SCHEDULED", "IN_PROGRESS")]
    failed = [task for task in execution.tasks if task.status.startswith(("FAILED", "TIMED_OUT"))]
    story = f"workflow {execution.workflow_name!r} is {execution.status}"
    if failed:
        story += f": {_said(failed[-1])}"
    elif execution.reason_for_incompletion:
        story += f": {execution.reason_for_incompletion}"
    if open_ones and not execution.is_terminal:
        story += f"; it waits in {', '.join(repr(task.reference_task_name) for task in open_ones)}"
    return story


def _said(task: Task) -> str:
    return f"step {task.reference_task_name!r} {task.status}: {task.reason_for_incompletion or 'no reason given'}"
