"""Helpers of the acceptance tests: definitions, workflows, workers and their events, on any target."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

from conductor.client.automator.task_handler_asyncio import TaskHandlerAsyncIO
from conductor.client.configuration.configuration import Configuration
from conductor.client.event.task_runner_events import EVENT_TYPES, handler_name
from conductor.client.http.models.start_workflow_request import StartWorkflowRequest
from conductor.client.http.models.task_def import TaskDef
from conductor.client.http.models.workflow import Workflow
from conductor.client.http.models.workflow_def import WorkflowDef
from conductor.client.http.models.workflow_task import WorkflowTask
from conductor.client.metadata_client import AsyncMetadataClient
from conductor.client.task_client import AsyncTaskClient
from conductor.client.worker.worker import Worker
from conductor.client.workflow_client import AsyncWorkflowClient
from tests.acceptance.servers.targets import Target

T = TypeVar("T")

#: A real server on a busy machine is slow; the coordinator is not.
PATIENCE_S = {True: 240.0, False: 45.0}
#: Between two looks at a server, which rings no bell when a workflow ends.
LOOK_EVERY_S = 0.1


class Events:
    """A listener that remembers everything workers publish, in order, and can be waited on."""

    def __init__(self, patience_s: float) -> None:
        self.all: list[Any] = []
        self._patience_s = patience_s
        self._news = asyncio.Event()
        for event_type in EVENT_TYPES:
            setattr(self, handler_name(event_type), self._note)

    def _note(self, event: Any) -> None:
        self.all.append(event)
        self._news.set()

    def of(self, event_type: type[T]) -> list[T]:
        """Return the events of a type."""
        return [event for event in self.all if isinstance(event, event_type)]

    async def until(self, event_type: type[T], count: int = 1) -> list[T]:
        """Wait until there are that many events of a type."""
        try:
            async with asyncio.timeout(self._patience_s):
                while len(self.of(event_type)) < count:
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            seen = [type(event).__name__ for event in self.all[-20:]]
            raise AssertionError(f"no {count} {event_type.__name__} after {self._patience_s} s, but {seen}") from None
        return self.of(event_type)


class Session:
    """The clients and workers of one test on the server under test."""

    def __init__(self, target: Target, prefix: str) -> None:
        self.target = target
        self.patience_s = PATIENCE_S[target.is_conductor]
        self.configuration = Configuration(server_api_url=target.url)
        self.workflows = AsyncWorkflowClient(self.configuration)
        self.metadata = AsyncMetadataClient(self.configuration)
        self.tasks = AsyncTaskClient(self.configuration)
        self.events = Events(self.patience_s)
        self._prefix = prefix

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for client in (self.workflows, self.metadata, self.tasks):
            await client.close()

    def named(self, name: str) -> str:
        """Return a name that no other test has."""
        return f"{self._prefix}_{name}"

    async def define(self, name: str, **fields: Any) -> None:
        """Register a task definition."""
        await self.metadata.register_task_def(TaskDef(name=name, **fields))

    async def start(self, *steps: str, input: Mapping[str, Any] | None = None, **request: Any) -> str:
        """Start a workflow of these task types, one after the other; each gets the input and the steps before it."""
        definition = WorkflowDef(
            name=self.named("flow"),
            tasks=[self._step(name, number, input or {}) for number, name in enumerate(steps)],
            output_parameters={"last": f"${{step{len(steps) - 1}.output}}"},
        )
        asked = StartWorkflowRequest(name=definition.name, workflow_def=definition, input=dict(input or {}), **request)
        return await self.workflows.start_workflow(asked)

    def _step(self, name: str, number: int, given: Mapping[str, Any]) -> WorkflowTask:
        inputs = {key: f"${{workflow.input.{key}}}" for key in given}
        if number:
            inputs["before"] = f"${{step{number - 1}.output}}"
        return WorkflowTask(name=name, task_reference_name=f"step{number}", input_parameters=inputs)

    async def start_many(self, count: int, *steps: str, **more: Any) -> list[str]:
        """Start that many."""
        return list(await asyncio.gather(*(self.start(*steps, **more) for _ in range(count))))

    async def ended(self, workflow_id: str) -> Workflow:
        """The workflow, when it has ended."""
        await self.until(lambda: self._has_ended(workflow_id), f"the end of workflow {workflow_id}")
        return await self.workflows.get_workflow(workflow_id)

    async def all_ended(self, workflow_ids: Iterable[str]) -> list[Workflow]:
        """The workflows, when the last of them has ended."""
        return [await self.ended(workflow_id) for workflow_id in workflow_ids]

    async def _has_ended(self, workflow_id: str) -> bool:
        return (await self.workflows.get_workflow(workflow_id, include_tasks=False)).is_terminal

    async def until(self, condition: Callable[[], Awaitable[T]], what: str) -> T:
        """Ask the server again and again until it says yes, and return what it said."""
        deadline = time.monotonic() + self.patience_s
        while True:
            if answer := await condition():
                return answer
            assert time.monotonic() < deadline, f"{what} did not come within {self.patience_s} s"
            await asyncio.sleep(LOOK_EVERY_S)

    def handler(self, *workers: Worker, **options: Any) -> TaskHandlerAsyncIO:
        """Workers in this process; use it as `async with`. What they publish is in `events`."""
        return TaskHandlerAsyncIO(
            workers=list(workers), configuration=self.configuration, event_listeners=[self.events], **options
        )
