"""Workflows under test: workers of the test's process or mocks execute the tasks, and the test advances the time."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Any, TypeAlias

from conductor.client.background_event_loop import BackgroundEventLoop
from conductor.client.configuration.configuration import Configuration
from conductor.client.http.models.start_workflow_request import StartWorkflowRequest
from conductor.client.http.models.task import Task
from conductor.client.http.models.workflow import Workflow
from conductor.client.http.models.workflow_def import WorkflowDef
from conductor.client.task_client import TaskClient
from conductor.client.worker.worker import Worker, make_call
from conductor.client.workflow_client import WorkflowClient
from conductor.local.workflow_runner import (
    AnyWorker,
    describe_outcome,
    register_and_start,
    select_workers,
    workers_by_task_type,
)
from conductor.protocol.statuses import TaskStatus
from conductor.testing.fake_clock import FakeClock
from conductor.testing.request import JsonObject

if TYPE_CHECKING:
    from conductor.client.automator.task_handler_asyncio import TaskHandlerAsyncIO
    from conductor.client.workflow.conductor_workflow import ConductorWorkflow

#: The workflow under test must end or wait within this many real seconds.
SETTLE_TIMEOUT_S = 20.0
_CHECK_INTERVAL_S = 0.005
#: Task types that end when a signal arrives or a set time is reached.
_WAITING_TYPES = ("WAIT", "HUMAN", "WAIT_FOR_WEBHOOK")
_UNUSED_TASK_TYPE = "no worker serves this task type"
_LOOP_SUFFIX = re.compile(r"__\d+$")

#: An output, a function of the task's input, an exception, or a list of these, one for each attempt.
Mock: TypeAlias = Any


class WorkflowRun:
    """A workflow under test. Every method returns when the workflow has ended or waits for a signal or the clock.

    Attributes:
        workflow_id: The id of the workflow on the coordinator.
    """

    def __init__(self, workflow_id: str, client: WorkflowClient, clock: FakeClock) -> None:
        self.workflow_id = workflow_id
        self._client = client
        self._clock = clock
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
        """Complete a task that the workflow waits for, and let the workflow continue."""
        return self._end(reference_name, TaskStatus.COMPLETED, output)

    def fail(self, reference_name: str, output: Mapping[str, Any] | None = None) -> WorkflowRun:
        """Fail a task that the workflow waits for, and let the workflow continue."""
        return self._end(reference_name, TaskStatus.FAILED, output)

    def skip(self, seconds: float = 0, *, minutes: float = 0, hours: float = 0, days: float = 0) -> WorkflowRun:
        """Advance the clock, without real waiting, and let the workflow continue."""
        self._clock.advance(seconds + 60 * minutes + 3600 * hours + 86400 * days)
        # A poll makes the coordinator process everything that is due before it answers.
        self._task_client().batch_poll_tasks(_UNUSED_TASK_TYPE, count=1, timeout_in_millisecond=0)
        self._wait_until_settled()
        return self

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
        outcome = describe_outcome(self.execution)
        raise AssertionError(f"the workflow neither ended nor waited after {SETTLE_TIMEOUT_S:g} s: {outcome}")

    def _is_waiting(self, task: Task) -> bool:
        """Return whether only a signal or the clock can move the task, such as a retry that waits for its delay.

        A task that is due is not waiting, even if a busy machine has not processed it yet.
        """
        if task.status != TaskStatus.SCHEDULED and task.task_type not in _WAITING_TYPES:
            return False
        if not task.callback_after_seconds:
            return task.task_type in _WAITING_TYPES
        since_ms = task.update_time or task.scheduled_time or 0
        return since_ms + task.callback_after_seconds * 1000 > self._clock.wall_ms()

    def _open_tasks(self) -> list[tuple[str, Task]]:
        """Return the open tasks with their workflow ids. The tasks of a sub-workflow replace its parent task."""
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
                    found.append((execution.workflow_id, task))
        return found


class WorkflowBench:
    """Runs workflows on one coordinator for one test; created by the fixture `run_workflow`."""

    def __init__(self, url: str, clock: FakeClock) -> None:
        self._configuration = Configuration(url)
        self._clock = clock
        self._client = WorkflowClient(self._configuration)
        self._handlers: list[TaskHandlerAsyncIO] = []

    def __call__(
        self,
        workflow: ConductorWorkflow | WorkflowDef,
        input: Mapping[str, Any] | None = None,  # noqa: A002 - the name that Conductor uses
        *,
        workers: Iterable[AnyWorker] | None = None,
        mocks: Mapping[str, Mock] | None = None,
        correlation_id: str | None = None,
    ) -> WorkflowRun:
        """Start a workflow and return when it has ended or waits.

        Args:
            workflow: The workflow to run.
            input: Its input.
            workers: Workers to use instead of the decorated ones of this process.
            mocks: Replacements of tasks, by reference name or task type: an output, a function of the task's input,
                an exception, or a list of these, one for each attempt.
            correlation_id: The correlation id of the workflow.
        """
        definition = workflow if isinstance(workflow, WorkflowDef) else workflow.to_workflow_def()
        selected = _select_workers_and_mocks(definition.to_dict(), workers, mocks or {})
        request = StartWorkflowRequest(
            name=definition.name,
            version=definition.version,
            input=dict(input or {}),
            workflow_def=definition,
            correlation_id=correlation_id,
        )
        started = BackgroundEventLoop().run_coroutine(register_and_start(self._configuration, selected, request))
        workflow_id, handler = started
        self._handlers.append(handler)
        return WorkflowRun(workflow_id, self._client, self._clock)

    def close(self) -> None:
        """Stop the workers."""
        for handler in self._handlers:
            BackgroundEventLoop().run_coroutine(handler.stop())
        self._client.close()


def _select_workers_and_mocks(
    definition: JsonObject, workers: Iterable[AnyWorker] | None, mocks: Mapping[str, Mock]
) -> list[Any]:
    """Return the workers that a definition needs, wrapped by the mocks."""
    known = workers_by_task_type(workers)
    task_types = _task_types_by_reference(definition)
    unknown = [name for name in mocks if name not in task_types and name not in task_types.values()]
    if unknown:
        raise ValueError(f"mocks for {unknown}, which are neither reference names nor task types of the workflow")
    for task_type in {name for ref, name in task_types.items() if ref in mocks or name in mocks}:
        is_all_mocked = task_type in mocks or all(ref in mocks for ref, name in task_types.items() if name == task_type)
        if task_type in known or is_all_mocked:  # otherwise `select_workers` reports the missing worker
            known[task_type] = Worker(task_type, _MockedWorker(known.get(task_type), deepcopy(dict(mocks))))
    return select_workers(definition, list(known.values()))


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

    def __init__(self, worker: Any, mocks: dict[str, Mock]) -> None:
        self._worker = worker
        self._mocks = mocks

    def __call__(self, task: Task) -> Any:
        ref = _LOOP_SUFFIX.sub("", task.reference_task_name or "")
        name = ref if ref in self._mocks else task.task_def_name or ""
        if name not in self._mocks:
            return make_call(self._worker)(task)
        mock = self._mocks[name]
        if isinstance(mock, list):
            mock = mock.pop(0) if len(mock) > 1 else mock[0]
        if isinstance(mock, BaseException):
            raise mock
        return mock(task.input_data) if callable(mock) else mock
