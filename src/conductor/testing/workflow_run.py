"""Workflows under test: workers of the test's process or mocks execute the tasks, and the test advances the time."""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Collection, Iterable, Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Any, TypeAlias

from conductor.client.background_event_loop import BackgroundEventLoop
from conductor.client.configuration.configuration import Configuration
from conductor.client.http.models.start_workflow_request import StartWorkflowRequest
from conductor.client.http.models.task import Task
from conductor.client.http.models.task_def import TaskDef
from conductor.client.http.models.workflow import Workflow
from conductor.client.http.models.workflow_def import WorkflowDef
from conductor.client.task_client import TaskClient
from conductor.client.worker.worker import Worker, make_call
from conductor.client.workflow.step_signature import to_json_value
from conductor.client.workflow_client import WorkflowClient
from conductor.local.workflow_runner import (
    FAILURE_WORKFLOW,
    AnyWorker,
    check_input,
    describe_outcome,
    list_definitions,
    register_and_start,
    select_workers,
    starts_unnamed_tasks,
    workers_by_task_type,
)
from conductor.protocol.statuses import TaskStatus
from conductor.protocol.steps import Step
from conductor.testing.fake_clock import FakeClock
from conductor.testing.request import JsonObject

if TYPE_CHECKING:
    from conductor.client.automator.task_handler_asyncio import TaskHandlerAsyncIO
    from conductor.client.workflow.conductor_workflow import ConductorWorkflow

#: The workflow under test must end or wait within this many real seconds.
SETTLE_TIMEOUT_S = 20.0
_CHECK_INTERVAL_S = 0.005
#: Task types that end when a signal arrives or a set time is reached.
_WAITING_TYPES = ("WAIT", "HUMAN", "WAIT_FOR_WEBHOOK", "PULL_WORKFLOW_MESSAGES")
_UNUSED_TASK_TYPE = "no worker serves this task type"
_LOOP_SUFFIX = re.compile(r"__\d+$")
#: The suffix of the reference name of a branch of `each`, such as `_0`.
_BRANCH_SUFFIX = re.compile(r"_\d+$")

#: An output, a function of the task's input, an exception, or a list of these, one for each attempt.
Mock: TypeAlias = Any


class WorkflowRun:
    """A workflow under test. Every method returns when the workflow has ended or waits for a signal or the clock.

    Attributes:
        workflow_id: The id of the workflow on the coordinator.
    """

    def __init__(self, workflow_id: str, client: WorkflowClient, clock: FakeClock, served: Collection[str]) -> None:
        self.workflow_id = workflow_id
        self._client = client
        self._clock = clock
        self._served = served
        self._wait_until_settled()

    @property
    def execution(self) -> Workflow:
        """The workflow as it is now, with its tasks."""
        return self._client.get_workflow(self.workflow_id)

    @property
    def status(self) -> str:
        """The status of the workflow, such as RUNNING or COMPLETED."""
        return self.execution.status

    @property
    def output(self) -> JsonObject:
        """The output of the completed workflow.

        Raises:
            AssertionError: The workflow has not completed; the message says why.
        """
        execution = self.execution
        if not execution.is_successful():
            raise AssertionError(describe_outcome(execution))
        return execution.output

    @property
    def waiting(self) -> list[str]:
        """The reference names of the tasks that the workflow waits for, including those of sub-workflows."""
        return [task.reference_task_name or "" for _, task in self._open_tasks() if self._is_waiting(task)]

    def task(self, reference_name: str) -> Task:
        """Return the latest attempt of a task.

        Raises:
            AssertionError: The workflow has not scheduled the task.
        """
        found = self.execution.task(reference_name)
        if found is None:
            outcome = describe_outcome(self.execution)
            raise AssertionError(f"the workflow has not reached {reference_name!r}: {outcome}")
        return found

    def until_waiting(self, reference_name: str) -> WorkflowRun:
        """Return this run; raise AssertionError unless the workflow waits for that task."""
        if reference_name not in self.waiting:
            raise self._not_waiting(reference_name)
        return self

    def complete(self, reference_name: str, output: Mapping[str, Any] | None = None) -> WorkflowRun:
        """Complete a task that the workflow waits for, let the workflow continue, and return this run."""
        return self._end(reference_name, TaskStatus.COMPLETED, output)

    def fail(self, reference_name: str, output: Mapping[str, Any] | None = None) -> WorkflowRun:
        """Fail a task that the workflow waits for, let the workflow continue, and return this run."""
        return self._end(reference_name, TaskStatus.FAILED, output)

    def skip(self, seconds: float = 0, *, minutes: float = 0, hours: float = 0, days: float = 0) -> WorkflowRun:
        """Advance the clock without real waiting, let the workflow continue, and return this run."""
        self._clock.advance(seconds + 60 * minutes + 3600 * hours + 86400 * days)
        # A poll makes the coordinator process everything that is due before it answers.
        self._task_client().batch_poll_tasks(_UNUSED_TASK_TYPE, count=1, timeout_in_millisecond=0)
        self._wait_until_settled()
        return self

    def skip_sleeps(self) -> WorkflowRun:
        """Advance the clock past each durable sleep or timeout, until the workflow ends or waits for something else.

        Return this run.
        """
        while due_ms := [due for _, task in self._open_tasks() if (due := self._due_ms(task)) is not None]:
            self.skip(max(0, min(due_ms) - self._clock.wall_ms()) / 1000)
        return self

    def _due_ms(self, task: Task) -> int | None:
        """Return the earliest end of the waits of a suspended task. Return None if no wait has an end."""
        if not task.suspended or not task.callback_after_seconds:
            return None
        return (task.update_time or 0) + task.callback_after_seconds * 1000

    def send(self, name: str, **fields: object) -> WorkflowRun:
        """Send a message with a name and other fields, let the workflow continue, and return this run."""
        self._client.send_message(self.workflow_id, {"name": name, **fields})
        self._wait_until_settled()
        return self

    def steps(self, reference_name: str) -> list[Step]:
        """Return the recorded durable steps of a task, in the order in which they were recorded."""
        return self._read_steps(self.task(reference_name))

    def _read_steps(self, task: Task) -> list[Step]:
        found: list[Step] = []
        after: int | None = 0
        while after is not None:
            page = self._task_client().get_task_steps(task.task_id, after)
            found += page.steps
            after = page.next
        return found

    def skip_retries(self) -> WorkflowRun:
        """Advance the clock past the delays of all retries, until each step has completed or has no retry left.

        Return this run.
        """
        while delays_s := [self._seconds_until_retry(task) for _, task in self._open_tasks() if self._is_retry(task)]:
            self.skip(max(delays_s))
        return self

    @property
    def failure_workflow(self) -> WorkflowRun:
        """The failure workflow that the failed workflow has started.

        Raises:
            AssertionError: The workflow has not started a failure workflow.
        """
        execution = self.execution
        started = (execution.output or {}).get(FAILURE_WORKFLOW)
        if started is None:
            raise AssertionError(f"the workflow has started no failure workflow: {describe_outcome(execution)}")
        return WorkflowRun(started, self._client, self._clock, self._served)

    def _is_retry(self, task: Task) -> bool:
        return bool(task.retry_count) and not task.poll_count and self._is_waiting(task)

    def _seconds_until_retry(self, task: Task) -> float:
        since_ms = task.update_time or task.scheduled_time or 0
        due_ms = since_ms + (task.callback_after_seconds or 0) * 1000
        return max(0.001, (due_ms - self._clock.wall_ms()) / 1000)

    def _end(self, reference_name: str, status: str, output: Mapping[str, Any] | None) -> WorkflowRun:
        owners = [workflow_id for workflow_id, task in self._open_tasks() if task.reference_task_name == reference_name]
        if not owners:
            raise self._not_waiting(reference_name)
        self._task_client().update_task_by_ref_name(owners[0], reference_name, status, output or {})
        self._wait_until_settled()
        return self

    def _not_waiting(self, reference_name: str) -> AssertionError:
        outcome = describe_outcome(self.execution)
        return AssertionError(f"the workflow does not wait in {reference_name!r}: {outcome}")

    def _task_client(self) -> TaskClient:
        return TaskClient(self._client.asynchronous.api_client)

    def _wait_until_settled(self) -> None:
        """Wait until the workflow has ended, or only a signal or the clock can move it."""
        deadline_s = time.monotonic() + SETTLE_TIMEOUT_S
        times_settled = 0
        while time.monotonic() < deadline_s:
            if self.execution.is_terminal:
                return
            tasks = self._open_tasks()
            is_settled = bool(tasks) and all(self._is_waiting(task) for _, task in tasks)
            times_settled = times_settled + 1 if is_settled else 0
            if times_settled == 2:
                return
            time.sleep(_CHECK_INTERVAL_S)
        outcome = describe_outcome(self.execution, self._served)
        raise AssertionError(f"the workflow neither ended nor waited after {SETTLE_TIMEOUT_S:g} s: {outcome}")

    def _is_waiting(self, task: Task) -> bool:
        """Return whether only a signal or the clock can move the task, such as a retry that waits for its delay.

        A task that is due is not waiting, even if a busy machine has not processed it yet.
        """
        if task.suspended:
            due_ms = self._due_ms(task)
            return due_ms is None or due_ms > self._clock.wall_ms()
        if task.status != TaskStatus.SCHEDULED and task.task_type not in _WAITING_TYPES:
            return False
        if not task.callback_after_seconds:
            return task.task_type in _WAITING_TYPES
        since_ms = task.update_time or task.scheduled_time or 0
        return since_ms + task.callback_after_seconds * 1000 > self._clock.wall_ms()

    def _open_tasks(self) -> list[tuple[str, Task]]:
        """Return the open tasks with their workflow ids. The tasks of a sub-workflow replace its parent task.

        The tasks of a workflow that a durable step has called are listed after the task that waits for them.
        """
        found: list[tuple[str, Task]] = []
        pending = [self.workflow_id]
        while pending:
            execution = self._client.get_workflow(pending.pop())
            for task in execution.tasks:
                if task.status not in (TaskStatus.SCHEDULED, TaskStatus.IN_PROGRESS):
                    continue
                if task.task_type == "SUB_WORKFLOW" and task.sub_workflow_id:
                    pending.append(task.sub_workflow_id)
                elif task.task_type not in ("JOIN", "DO_WHILE"):
                    if task.suspended:
                        steps = self._read_steps(task)
                        pending += [one.workflow_id for one in steps if one.workflow_id and one.ended_at is None]
                    found.append((execution.workflow_id, task))
        return found


class WorkflowBench:
    """Runs workflows on one coordinator for one test; created by the fixture `run_workflow`."""

    def __init__(self, url: str, clock: FakeClock) -> None:
        self._configuration = Configuration(url)
        self._clock = clock
        self._client = WorkflowClient(self._configuration)
        #: The workers of each run, by workflow id.
        self._handlers: dict[str, TaskHandlerAsyncIO] = {}
        #: The mocks whose names the definitions do not contain, and that no task has used so far.
        self._unused_mocks: set[str] = set()

    def __call__(
        self,
        workflow: ConductorWorkflow | WorkflowDef,
        input: Mapping[str, Any] | None = None,  # noqa: A002 - the name that Conductor uses
        *,
        workers: Iterable[AnyWorker] | None = None,
        mocks: Mapping[str, Mock] | None = None,
        workflows: Iterable[ConductorWorkflow | WorkflowDef] = (),
        correlation_id: str | None = None,
    ) -> WorkflowRun:
        """Start a workflow and return when it has ended or waits.

        Args:
            workflow: The workflow to run.
            input: Its input.
            workers: Workers to use instead of the decorated ones of this process. All of them run.
            mocks: Replacements of tasks, by reference name or task type: an output, a function of the task's input,
                an exception, or a list of these, one for each attempt. A sub-workflow is mocked by the name of its
                step or of its workflow.
            workflows: Workflows that this one starts by name. Their tasks can be mocked, too.
            correlation_id: The correlation id of the workflow.
        """
        definition = workflow if isinstance(workflow, WorkflowDef) else workflow.to_workflow_def()
        given = to_json_value(dict(input or {}))
        check_input(definition, given)
        body = definition.to_dict()
        others = [one.to_dict() for one in list_definitions(workflow, workflows)]
        _replace_mocked_sub_workflows([body, *others], mocks or {})
        definition = WorkflowDef.from_dict(body)
        selected = _select_workers_and_mocks(body, others, workers, mocks or {}, self._unused_mocks)
        request = StartWorkflowRequest(
            name=definition.name,
            version=definition.version,
            input=given,
            workflow_def=definition,
            correlation_id=correlation_id,
        )
        # The workers and mocks of earlier runs must not take the tasks of this run.
        self._stop_workers([old for old in self._handlers if self._client.get_workflow(old).is_terminal])
        workflow_id, handler = BackgroundEventLoop().run_coroutine(
            register_and_start(
                self._configuration,
                selected,
                request,
                [WorkflowDef.from_dict(one) for one in others],
                default_task_def=TaskDef(),  # the server's defaults, so that tests and production retry alike
            )
        )
        self._handlers[workflow_id] = handler
        served = {name for worker in selected for name in worker.task_definition_names}
        return WorkflowRun(workflow_id, self._client, self._clock, served)

    def close(self) -> None:
        """Stop the workers. Warn about mocks that replaced nothing, because their names may be misspelt."""
        self._stop_workers(list(self._handlers))
        self._client.close()
        if self._unused_mocks:
            warnings.warn(
                f"mocks for {sorted(self._unused_mocks)} replaced no task: the workflow names no such step or task "
                "type, and no task that it started at run time had this name; check the spelling",
                stacklevel=2,
            )

    def _stop_workers(self, workflow_ids: list[str]) -> None:
        for workflow_id in workflow_ids:
            BackgroundEventLoop().run_coroutine(self._handlers.pop(workflow_id).stop())


def _select_workers_and_mocks(
    definition: JsonObject,
    others: list[JsonObject],
    workers: Iterable[AnyWorker] | None,
    mocks: Mapping[str, Mock],
    unused: set[str],
) -> list[Any]:
    """Return the workers that a definition and the workflows that it starts need, wrapped by the mocks.

    Names of mocks that only a task at run time can have are added to `unused`, and removed when a task uses the mock.
    """
    known = workers_by_task_type(workers)
    task_types = _task_types_by_reference([*others, definition])  # `definition` has precedence
    has_dynamic_tasks = _has_dynamic_tasks([definition, *others])
    names = {*task_types, *task_types.values(), *(known if has_dynamic_tasks else ())}
    unknown = [name for name in mocks if name not in names]
    if unknown and not has_dynamic_tasks:
        raise ValueError(
            f"mocks for {unknown}, which are neither reference names nor task types of the workflow; there are "
            f"{sorted(names)}. If the workflow starts another workflow by name, pass workflows=[...]"
        )
    mocked = {name for ref, name in task_types.items() if ref in mocks or name in mocks}
    if has_dynamic_tasks:  # the definition does not name all task types and steps that it starts
        mocked |= {name for name in mocks if name not in task_types}
        if unknown:  # perhaps reference names of such steps, such as a step inside `each`
            mocked |= known.keys()
            unused |= set(unknown)
    for task_type in mocked:
        is_all_mocked = task_type in mocks or all(ref in mocks for ref, name in task_types.items() if name == task_type)
        if task_type in known or is_all_mocked:  # otherwise `select_workers` reports the missing worker
            worker = known.get(task_type)
            mock = _MockedWorker(worker, deepcopy(dict(mocks)), unused)
            known[task_type] = Worker(
                task_type,
                mock,
                task_def=getattr(worker, "task_def", None),
                register_task_def=getattr(worker, "register_task_def", None),
                register_schema=False,
            )
    return select_workers(definition, list(known.values()), others=others, start_all=workers is not None)


def _replace_mocked_sub_workflows(value: object, mocks: Mapping[str, Mock]) -> None:
    """Replace each SUB_WORKFLOW task that has a mock by a worker task."""
    if isinstance(value, dict):
        parameters = value.get("subWorkflowParam")
        name = parameters.get("name") if isinstance(parameters, dict) else None
        if value.get("type") == "SUB_WORKFLOW" and (name in mocks or value.get("taskReferenceName") in mocks):
            value |= {"type": "SIMPLE", "name": name}
            del value["subWorkflowParam"]
        for inner in value.values():
            _replace_mocked_sub_workflows(inner, mocks)
    elif isinstance(value, list):
        for inner in value:
            _replace_mocked_sub_workflows(inner, mocks)


def _has_dynamic_tasks(value: object) -> bool:
    """Return whether a definition may start tasks that it does not contain."""
    if isinstance(value, dict):
        return starts_unnamed_tasks(value) or any(map(_has_dynamic_tasks, value.values()))
    return isinstance(value, list) and any(map(_has_dynamic_tasks, value))


def _task_types_by_reference(definition: object) -> dict[str, str]:
    """Return the task types of all worker tasks, by reference name."""
    found: dict[str, str] = {}
    if isinstance(definition, dict):
        if definition.get("type") == "SIMPLE" and "taskReferenceName" in definition:
            found[definition["taskReferenceName"]] = definition["name"]
        for value in definition.values():
            found |= _task_types_by_reference(value)
    elif isinstance(definition, list):
        for value in definition:
            found |= _task_types_by_reference(value)
    return found


class _MockedWorker:
    """A worker function that uses a mock where there is one, and otherwise calls the real worker."""

    def __init__(self, worker: Any, mocks: dict[str, Mock], unused: set[str]) -> None:
        self._worker = worker
        self._mocks = mocks
        self._unused = unused

    def __call__(self, task: Task) -> Any:
        ref = _LOOP_SUFFIX.sub("", task.reference_task_name or "")
        refs = (ref, _BRANCH_SUFFIX.sub("", ref))
        name = next((one for one in refs if one in self._mocks), task.task_def_name or "")
        if name not in self._mocks:
            return make_call(self._worker)(task)
        self._unused.discard(name)
        mock = self._mocks[name]
        if isinstance(mock, list):
            mock = mock.pop(0) if len(mock) > 1 else mock[0]
        if isinstance(mock, BaseException):
            raise mock
        return mock(task.input_data) if callable(mock) else mock
