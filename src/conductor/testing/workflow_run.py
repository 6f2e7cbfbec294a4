"""Workflows under test: run by workers of the test's process or by mocks; time passes when the test says so."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any

from conductor.client.background_event_loop import BackgroundEventLoop
from conductor.client.configuration.configuration import Configuration
from conductor.client.http.models.start_workflow_request import StartWorkflowRequest
from conductor.client.http.models.task import Task
from conductor.client.http.models.workflow import Workflow
from conductor.client.task_client import TaskClient
from conductor.client.worker.worker import Worker
from conductor.client.workflow_client import WorkflowClient
from conductor.local.workflow_runner import register_and_start, story_of, workers_by_name, workers_for
from conductor.testing.fake_clock import FakeClock

#: How many real seconds a test is patient with the workflow under test.
PATIENCE_S = 20.0
_PAUSE_S = 0.005
#: Steps that somebody outside, or time, must end.
_WAITING_TYPES = ("WAIT", "HUMAN", "WAIT_FOR_WEBHOOK")
_NOBODYS_TASK = "nobody does this"
_LOOP_SUFFIX = re.compile(r"__\d+$")


class WorkflowRun:
    """One execution under test. It has run as far as it can by itself: to its end, or until it waits."""

    def __init__(self, workflow_id: str, client: WorkflowClient, clock: FakeClock) -> None:
        self.workflow_id = workflow_id
        self._client = client
        self._clock = clock
        self._settle()

    @property
    def execution(self) -> Workflow:
        """The execution as it stands, with its tasks."""
        return self._client.get_workflow(self.workflow_id)

    @property
    def status(self) -> str:
        """RUNNING, COMPLETED, FAILED, …"""
        return self.execution.status

    @property
    def output(self) -> dict[str, Any]:
        """What the workflow gave. An execution that has not completed is an AssertionError that says why."""
        execution = self.execution
        if not execution.is_successful():
            raise AssertionError(story_of(execution))
        return execution.output

    @property
    def waiting(self) -> list[str]:
        """The reference names of the steps that it waits in, also in sub-workflows; empty when it has ended."""
        return [task.reference_task_name or "" for _, task in self._open() if self._waits(task)]

    def task(self, reference_name: str) -> Task:
        """The latest attempt at a step; an AssertionError when the execution has not come there."""
        found = self.execution.task(reference_name)
        if found is None:
            raise AssertionError(f"the workflow has not come to {reference_name!r}: {story_of(self.execution)}")
        return found

    def until_waiting(self, reference_name: str) -> WorkflowRun:
        """The same run, which must wait in that step now."""
        if reference_name not in self.waiting:
            raise AssertionError(f"it does not wait in {reference_name!r}: {story_of(self.execution)}")
        return self

    def complete(self, reference_name: str, output: Mapping[str, Any] | None = None) -> WorkflowRun:
        """End the step that it waits in with an output, and let it run on."""
        return self._end(reference_name, "COMPLETED", output)

    def fail(self, reference_name: str, output: Mapping[str, Any] | None = None) -> WorkflowRun:
        """End the step that it waits in as FAILED, and let it run on."""
        return self._end(reference_name, "FAILED", output)

    def skip(self, seconds: float = 0, *, minutes: float = 0, hours: float = 0, days: float = 0) -> WorkflowRun:
        """Let so much time pass, in no time, and let it run on."""
        self._clock.advance(seconds + 60 * minutes + 3600 * hours + 86400 * days)
        # A coordinator acts on all that is due before it answers a poll: so it has done that, when this is answered.
        self._tasks().batch_poll_tasks(_NOBODYS_TASK, count=1, timeout_in_millisecond=0)
        self._settle()
        return self

    def _end(self, reference_name: str, status: str, output: Mapping[str, Any] | None) -> WorkflowRun:
        owners = [workflow_id for workflow_id, task in self._open() if task.reference_task_name == reference_name]
        if not owners:
            raise AssertionError(f"it does not wait in {reference_name!r}: {story_of(self.execution)}")
        self._tasks().update_task_by_ref_name(owners[0], reference_name, status, output or {})
        self._settle()
        return self

    def _tasks(self) -> TaskClient:
        return TaskClient(self._client.asynchronous.api_client)

    def _settle(self) -> None:
        """Wait until nothing is left that workers or the coordinator do by themselves."""
        deadline_s = time.monotonic() + PATIENCE_S
        calm = 0
        while time.monotonic() < deadline_s:
            execution = self.execution
            if execution.is_terminal:
                return
            under_way = self._open()
            if under_way and all(self._waits(task) for _, task in under_way):
                calm += 1
                if calm > 1:
                    return
            else:
                calm = 0
            time.sleep(_PAUSE_S)
        raise AssertionError(f"neither ended nor waiting after {PATIENCE_S:g} s: {story_of(self.execution)}")

    def _waits(self, task: Task) -> bool:
        """Whether somebody outside, or time, must end it or let it begin: a retry waits for its delay, for example.

        One whose time has come does not wait: however busy the machine is, it is about to go on.
        """
        if task.status != "SCHEDULED" and task.task_type not in _WAITING_TYPES:
            return False
        if not task.callback_after_seconds:
            return task.task_type in _WAITING_TYPES
        since_ms = task.update_time or task.scheduled_time or 0
        return since_ms + task.callback_after_seconds * 1000 > self._clock.wall_ms()

    def _open(self) -> list[tuple[str, Task]]:
        """The steps under way and whose they are: of the workflow, and of its sub-workflows instead of them."""
        found: list[tuple[str, Task]] = []
        pending = [self.workflow_id]
        while pending:
            execution = self._client.get_workflow(pending.pop())
            for task in execution.tasks:
                if task.status not in ("SCHEDULED", "IN_PROGRESS"):
                    continue
                if task.task_type == "SUB_WORKFLOW" and task.sub_workflow_id:
                    pending.append(task.sub_workflow_id)
                elif task.task_type not in ("JOIN", "DO_WHILE"):
                    found.append((execution.workflow_id, task))
        return found


class WorkflowBench:
    """Runs workflows on one coordinator for one test; made by the fixture `run_workflow`."""

    def __init__(self, url: str, clock: FakeClock) -> None:
        self._configuration = Configuration(url)
        self._clock = clock
        self._client = WorkflowClient(self._configuration)
        self._handlers: list[Any] = []

    def __call__(
        self,
        workflow: Any,
        input: Mapping[str, Any] | None = None,  # noqa: A002 (what it is called everywhere)
        *,
        workers: Iterable[Any] | None = None,
        mocks: Mapping[str, Any] | None = None,
        correlation_id: str | None = None,
    ) -> WorkflowRun:
        """Start a workflow (a `ConductorWorkflow` or a `WorkflowDef`) and let it run as far as it can by itself.

        Args:
            workflow: What to run.
            input: Its input.
            workers: Workers to use instead of the decorated ones of this process.
            mocks: What steps give instead of being done, by reference name or task type: an output; a function of
                the step's input; an exception; or a list of these, one for each attempt.
            correlation_id: Of the execution.
        """
        definition = workflow.to_workflow_def() if hasattr(workflow, "to_workflow_def") else workflow
        chosen = _with_mocks(definition.to_dict(), workers, mocks or {})
        request = StartWorkflowRequest(
            name=definition.name,
            version=definition.version,
            input=dict(input or {}),
            workflow_def=definition,
            correlation_id=correlation_id,
        )
        started = BackgroundEventLoop().run_coroutine(register_and_start(self._configuration, chosen, request))
        workflow_id, handler = started
        self._handlers.append(handler)
        return WorkflowRun(workflow_id, self._client, self._clock)

    def close(self) -> None:
        """Stop the workers."""
        for handler in self._handlers:
            BackgroundEventLoop().run_coroutine(handler.stop())
        self._client.close()


def _with_mocks(definition: dict[str, Any], workers: Iterable[Any] | None, mocks: Mapping[str, Any]) -> list[Any]:
    """The workers that a definition needs, with the mocks in front of them."""
    known = workers_by_name(workers)
    references = _references(definition)
    unknown = [name for name in mocks if name not in references and name not in references.values()]
    if unknown:
        raise ValueError(f"mocks for {unknown}, which are neither steps nor task types of the workflow")
    mocked = {task for ref, task in references.items() if ref in mocks or task in mocks}
    for task in mocked:
        all_of_it = task in mocks or all(ref in mocks for ref, name in references.items() if name == task)
        if task not in known and not all_of_it:
            continue  # some of its steps need a worker: said below
        known[task] = Worker(task, _Mocked(known.get(task), deepcopy(dict(mocks))))
    return workers_for(definition, list(known.values()))


def _references(definition: Any) -> dict[str, str]:
    """Reference name to task type, of all steps that workers do."""
    found: dict[str, str] = {}
    if isinstance(definition, dict):
        if definition.get("type") == "SIMPLE" and "taskReferenceName" in definition:
            found[definition["taskReferenceName"]] = definition["name"]
        for value in definition.values():
            found |= _references(value)
    elif isinstance(definition, list):
        for value in definition:
            found |= _references(value)
    return found


class _Mocked:
    """A worker's function with mocks in front of it."""

    def __init__(self, worker: Any, mocks: dict[str, Any]) -> None:
        self._worker = worker
        self._mocks = mocks

    def __call__(self, task: Task) -> Any:
        ref = _LOOP_SUFFIX.sub("", task.reference_task_name or "")
        name = ref if ref in self._mocks else task.task_def_name or ""
        if name not in self._mocks:
            from conductor.client.worker.worker import call_of

            return call_of(self._worker)(task)
        mock = self._mocks[name]
        if isinstance(mock, list):
            mock = mock.pop(0) if len(mock) > 1 else mock[0]
        if isinstance(mock, BaseException):
            raise mock
        return mock(task.input_data) if callable(mock) else mock
