"""Check workflow definitions and run workflows in this process, on a coordinator in memory.

This is the only module that imports both the client and the coordinator. The coordinator needs the `server` extra.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from copy import copy
from typing import TYPE_CHECKING, Any, TypeAlias

from conductor.client.configuration.configuration import Configuration
from conductor.client.http.models.save_schedule_request import SaveScheduleRequest
from conductor.client.http.models.start_workflow_request import StartWorkflowRequest
from conductor.client.http.models.task import Task
from conductor.client.http.models.task_def import TaskDef
from conductor.client.http.models.workflow import Workflow
from conductor.client.http.models.workflow_def import WorkflowDef
from conductor.protocol.statuses import TaskStatus

if TYPE_CHECKING:
    from conductor.client.automator.task_handler_asyncio import TaskHandlerAsyncIO
    from conductor.client.worker.worker_interface import WorkerInterface
    from conductor.client.workflow.conductor_workflow import ConductorWorkflow
    from conductor.client.workflow_client import AsyncWorkflowClient
    from conductor.coordinator.definitions.likely_mistakes import Script

#: Interval between two checks of whether a workflow has ended.
_CHECK_INTERVAL_S = 0.01

#: A workflow definition as JSON.
Definition: TypeAlias = dict[str, Any]
#: A `WorkerInterface` object or a function decorated with `@worker_task`.
AnyWorker: TypeAlias = Any
#: In the output of a failed workflow, this key has the id of its failure workflow.
FAILURE_WORKFLOW = "conductor.failure_workflow"
#: Task types that no worker serves. The name of such a task can be the same as its type.
_SYSTEM_TYPES = frozenset({"WAIT", "HUMAN", "JOIN", "DO_WHILE", "SUB_WORKFLOW", "HTTP", "INLINE"})
#: The failure reason of a workflow quotes the reasons of its sub-workflow and of the failed task, in single quotes.
_SUB_WORKFLOW_FAILURE = re.compile(r"Sub workflow (?P<name>[^\n]+?)\.\d+/\S+ failure reason: ")
_TASK_FAILURE = re.compile(r"Task \S+ failed with status: \w+ and reason: '(?P<reason>.*?)'*", re.DOTALL)
_OPEN = (TaskStatus.SCHEDULED, TaskStatus.IN_PROGRESS)


class WorkflowFailed(RuntimeError):
    """A workflow ended without completing.

    Attributes:
        execution: The workflow with its tasks.
    """

    def __init__(self, execution: Workflow) -> None:
        super().__init__(describe_outcome(execution))
        self.execution = execution


def find_problems(definition: Definition, schedule: SaveScheduleRequest | None = None) -> list[str]:
    """Return the reasons why the coordinator would reject or warn about the definition, each with its path.

    The reasons include scripts that cannot be parsed and an invalid schedule.
    """
    from conductor.coordinator.definitions.likely_mistakes import find_likely_mistakes, find_scripts
    from conductor.coordinator.definitions.workflow_defs import check_workflow_def, find_self_circles
    from conductor.coordinator.language.cron import CronError, read_cron
    from conductor.coordinator.request_errors import ApiError

    found = []
    try:
        checked = check_workflow_def(definition)
    except ApiError as refusal:
        found = [f"{path}: {message}" for path, message in refusal.problems] or [refusal.message]
    else:
        found = [f"{path}: {message}" for path, message in find_likely_mistakes(definition)]
        found += find_self_circles(checked)
        found += _find_syntax_errors(list(find_scripts(definition)))
    if schedule is not None:
        try:
            read_cron(schedule.cron_expression or "")
        except CronError as error:
            found.append(f"cron: {error}")
    return found


def _find_syntax_errors(scripts: list[Script]) -> list[str]:
    from conductor.coordinator.system.script_runner import ScriptRunner
    from conductor.coordinator.system.script_task import find_syntax_errors

    if not scripts:
        return []
    runner = ScriptRunner()
    try:
        errors = find_syntax_errors(scripts, runner.run_quickly)
    finally:
        runner.close()
    return [
        f"{script.path}: the script cannot be parsed: {error}"
        for script, error in zip(scripts, errors, strict=True)
        if error is not None
    ]


def check_input(definition: WorkflowDef, workflow_input: Mapping[str, Any]) -> None:
    """Check the input of a workflow against the schema that its definition contains.

    Raises:
        WorkflowError: The coordinator would reject the start.
    """
    from conductor.client.workflow.authoring_errors import WorkflowError
    from conductor.coordinator.definitions.json_schemas import find_value_problem

    schema = definition.input_schema
    if schema is None or not schema.data or definition.enforce_schema is False:
        return
    problem = find_value_problem(schema.data, {**(definition.input_template or {}), **workflow_input})
    if problem is not None:
        raise WorkflowError(f"workflow {definition.name!r} rejects its input: {problem}")


def _read_input(workflow_input: object) -> dict[str, Any]:
    """Return the input of a workflow as JSON values.

    Raises:
        TypeError: The input is not an object, or a value is not JSON. The message names the place of the value.
    """
    from conductor.client.http.models.model import describe_unsendable
    from conductor.client.workflow.step_signature import to_json_value

    try:
        given = to_json_value({} if workflow_input is None else workflow_input)
    except TypeError:
        raise TypeError(describe_unsendable(workflow_input, "input")) from None
    if not isinstance(given, dict):
        kind = type(workflow_input).__name__
        raise TypeError(f"the input of a workflow is an object with a name for each value, got a {kind}: {given!r}")
    return given


def run_here(
    workflow: ConductorWorkflow,
    workflow_input: object,
    *,
    workers: Iterable[AnyWorker] | None,
    workflows: Iterable[ConductorWorkflow],
    timeout_s: float,
) -> dict[str, Any]:
    """Run a workflow with the workers of this process and return its output; see `ConductorWorkflow.run`."""
    from conductor.client.background_event_loop import BackgroundEventLoop

    workflow.validate()
    definition = workflow.to_workflow_def()
    given = _read_input(workflow_input)
    check_input(definition, given)
    others = list_definitions(workflow, workflows)
    selected = select_workers(
        definition.to_dict(), workers, others=[one.to_dict() for one in others], start_all=workers is not None
    )
    request = StartWorkflowRequest(
        name=definition.name,
        version=definition.version,
        input=given,
        workflow_def=definition,
    )
    # Run on a background thread, because in a notebook the caller's thread already runs an event loop.
    execution = BackgroundEventLoop().run_coroutine(_run(request, selected, others, timeout_s))
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


def select_workers(
    definition: Definition,
    workers: Iterable[AnyWorker] | None,
    *,
    others: Iterable[Definition] = (),
    start_all: bool,
) -> list[WorkerInterface]:
    """Return the workers to start: those that the definitions name, or all if one of them may start other tasks.

    Args:
        definition: The workflow definition.
        workers: The available workers; None means the decorated workers of this process.
        others: The definitions of workflows that this one may start.
        start_all: Return all workers in any case.

    Raises:
        WorkflowError: Some task types of `definition` have no worker; the message names them.
    """
    from conductor.client.workflow.authoring_errors import WorkflowError

    known = workers_by_task_type(workers)
    tasks = list(_list_tasks(definition.get("tasks", ())))
    needed = _list_task_types(tasks)
    missing = sorted(name for name in needed if name not in known)
    if missing:
        raise WorkflowError(
            f"no worker in this process serves {' and '.join(map(repr, missing))}: import its module, "
            "or pass workers=[...]"
        )
    for other in others:
        other_tasks = list(_list_tasks(other.get("tasks", ())))
        needed |= _list_task_types(other_tasks) & known.keys()
        tasks += [other, *other_tasks]
    start_all = start_all or any(map(starts_unnamed_tasks, [definition, *tasks]))
    return list({id(known[name]): known[name] for name in (known if start_all else sorted(needed))}.values())


def _list_task_types(tasks: Iterable[Mapping[str, Any]]) -> set[str]:
    """Return the task types that workers serve."""
    return {task["name"] for task in tasks if task.get("type", "SIMPLE") == "SIMPLE"}


def starts_unnamed_tasks(task: Mapping[str, Any]) -> bool:
    """Return whether a workflow, or its failure workflow, may start task types that its definition does not name."""
    if task.get("type") == "SUB_WORKFLOW":
        return not isinstance((task.get("subWorkflowParam") or {}).get("workflowDefinition"), dict)
    return task.get("type") in ("FORK_JOIN_DYNAMIC", "DYNAMIC", "START_WORKFLOW") or bool(task.get("failureWorkflow"))


def list_definitions(
    workflow: ConductorWorkflow | WorkflowDef, workflows: Iterable[ConductorWorkflow | WorkflowDef]
) -> list[WorkflowDef]:
    """Return the definitions to register before a workflow runs: `workflows`, and its failure workflow."""
    on_failure = getattr(workflow, "_on_failure", None)
    named = [*workflows, *([] if on_failure is None else [on_failure])]
    return [one if isinstance(one, WorkflowDef) else one.to_workflow_def() for one in named]


def _list_tasks(tasks: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the tasks of a definition, including all tasks nested in them."""
    for task in tasks or ():
        yield task
        branches = [*task.get("forkTasks", ()), *task.get("decisionCases", {}).values()]
        inline = (task.get("subWorkflowParam") or {}).get("workflowDefinition")
        if isinstance(inline, dict):
            branches.append(inline.get("tasks", ()))
        for branch in [*branches, task.get("defaultCase", ()), task.get("loopOver", ())]:
            yield from _list_tasks(branch)


async def _run(
    request: StartWorkflowRequest, workers: list[WorkerInterface], definitions: list[WorkflowDef], timeout_s: float
) -> Workflow:
    from conductor.client.workflow_client import AsyncWorkflowClient
    from conductor.coordinator import Coordinator

    coordinator = await asyncio.to_thread(Coordinator().start)
    try:
        configuration = Configuration(coordinator.url)
        # A task type without a definition of its own is not retried, so that its failure ends the run immediately.
        workflow_id, handler = await register_and_start(
            configuration, workers, request, definitions, default_task_def=TaskDef(retry_count=0)
        )
        served = {name for worker in workers for name in worker.task_definition_names}
        try:
            async with AsyncWorkflowClient(configuration) as workflows:
                execution = await _wait_for_end(workflows, workflow_id, timeout_s, served)
                if failure_workflow := execution.output.get(FAILURE_WORKFLOW):
                    await _wait_for_end(workflows, failure_workflow, timeout_s, served)
                return execution
        finally:
            await handler.stop()
    finally:
        await asyncio.to_thread(coordinator.stop)


async def register_and_start(
    configuration: Configuration,
    workers: list[WorkerInterface],
    request: StartWorkflowRequest,
    definitions: Iterable[WorkflowDef],
    *,
    default_task_def: TaskDef,
) -> tuple[str, TaskHandlerAsyncIO]:
    """Register definitions, start workers on this event loop without a journal, and start a workflow.

    Args:
        configuration: The connection to the coordinator.
        workers: The workers.
        request: The start of the workflow.
        definitions: Other workflows that it may start.
        default_task_def: The definition for workers that have none.

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
        for definition in definitions:
            await metadata.update_workflow_def(definition, overwrite=True)
        if workers:
            await metadata.register_task_defs(
                [definition for worker in workers for definition in _list_task_defs(worker, default_task_def)]
            )
            await handler.start()
    async with AsyncWorkflowClient(configuration) as workflows:
        return await workflows.start_workflow(request), handler


def _list_task_defs(worker: WorkerInterface, default: TaskDef) -> Iterator[TaskDef]:
    """Yield the definition of each task type of a worker."""
    template = getattr(worker, "task_def", None) or default
    for name in worker.task_definition_names:
        definition = TaskDef.from_dict(template) if isinstance(template, Mapping) else copy(template)
        definition.name = name
        yield definition


async def _wait_for_end(
    workflows: AsyncWorkflowClient, workflow_id: str, timeout_s: float, served: Collection[str]
) -> Workflow:
    try:
        async with asyncio.timeout(timeout_s):
            while True:
                execution = await workflows.get_workflow(workflow_id)
                if execution.is_terminal:
                    return execution
                await asyncio.sleep(_CHECK_INTERVAL_S)
    except TimeoutError:
        executions = [await workflows.get_workflow(workflow_id)]
        while (child := find_open_sub_workflow(executions[-1])) is not None:
            executions.append(await workflows.get_workflow(child))
        outcome = "; ".join(describe_outcome(execution, served) for execution in executions)
        raise TimeoutError(f"not done after {timeout_s:g} s: {outcome}") from None


def find_open_sub_workflow(execution: Workflow) -> str | None:
    """Return the id of a sub-workflow that the workflow waits for, or None."""
    open_ids = [task.sub_workflow_id for task in execution.tasks if task.status in _OPEN and task.sub_workflow_id]
    return open_ids[0] if open_ids else None


def describe_outcome(execution: Workflow, served: Collection[str] | None = None) -> str:
    """Describe the state of a workflow in one sentence: its status, its last failure and its open tasks.

    Args:
        execution: The workflow with its tasks.
        served: The task types that have a worker. The sentence names the queues of other open tasks.
    """
    open_tasks = [task for task in execution.tasks if task.status in _OPEN]
    failed = [task for task in execution.tasks if task.status.startswith(("FAILED", "TIMED_OUT"))]
    outcome = f"workflow {execution.workflow_name!r} is {execution.status}"
    if failed:
        last = failed[-1]
        outcome += f": step {last.reference_task_name!r} {last.status}{_describe_reason(last)}"
    elif execution.reason_for_incompletion:
        outcome += f": {execution.reason_for_incompletion}"
    if open_tasks and not execution.is_terminal:
        outcome += f"; it waits in {', '.join(repr(task.reference_task_name) for task in open_tasks)}"
        if queues := [] if served is None else _list_unserved_queues(open_tasks, served):
            outcome += f"; no worker serves the queue {', '.join(map(repr, queues))}"
    return outcome


def _describe_reason(task: Task) -> str:
    """Return the reason of a failed task. For a sub-workflow, it is the reason of the innermost failed task."""
    reason = task.reason_for_incompletion or "no reason given"
    inner = list(_SUB_WORKFLOW_FAILURE.finditer(reason)) if task.sub_workflow_id else []
    if not inner:
        return f": {reason}"
    reason = reason[inner[-1].end() :]
    if (quoted := _TASK_FAILURE.fullmatch(reason)) is not None:
        reason = quoted["reason"]
    return f" in sub-workflow {inner[-1]['name']!r}: {reason}"


def _list_unserved_queues(tasks: Iterable[Task], served: Collection[str]) -> list[str]:
    # The `task_type` of a task for workers is the name of its queue.
    names = {task.task_def_name for task in tasks if task.task_def_name and task.task_type == task.task_def_name}
    return sorted(names - set(served) - _SYSTEM_TYPES)
