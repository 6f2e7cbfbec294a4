"""A Conductor server for tests: real sockets, tasks in memory, and scripted faults."""

from __future__ import annotations

import copy
import ssl
from collections import Counter
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar
from uuid import uuid4

from conductor.client.http.models.task import Task
from conductor.client.http.models.workflow import Workflow
from conductor.common.clock import SYSTEM_CLOCK, Clock
from conductor.protocol.wire import DEFAULT_RESPONSE_TIMEOUT_S
from conductor.testing.fake_clock import FakeClock
from conductor.testing.fault_player import FaultPlayer
from conductor.testing.fault_script import Behaviour, FaultScript, Gates, RequestChoice, matches
from conductor.testing.http11 import RawRequest, StubConnection
from conductor.testing.listener import Listener
from conductor.testing.metadata_routes import MetadataRoutes, Versioned
from conductor.testing.report_rules import ReportRules
from conductor.testing.request import JsonObject, Request
from conductor.testing.router import Router
from conductor.testing.stub_queue import StubQueue
from conductor.testing.stub_tokens import StubTokens
from conductor.testing.task_routes import TaskRoutes
from conductor.testing.wait_until import DEFAULT_TIMEOUT_S, Watch
from conductor.testing.workflow_routes import WorkflowRoutes

T = TypeVar("T")


class ConductorStub:
    """A Conductor server for tests, in a thread of its own.

    Use it as a context manager, with `with` or `async with`. It delivers the tasks that the test adds and accepts
    their results. It does not retry, time out or run workflows. `script` makes requests fail, and `hold`
    delays them.

    Args:
        leases: Behave as the coordinator does: leases, verdicts and batch reports.
        auth: A key and a secret. Every request then needs a token.
        token_ttl_s: Lifetime of a token, in seconds.
        schemas: Serve the schema endpoints, which an open-source Conductor server does not have.
        hold_partial_batches: Let a long poll wait for a full batch, as Conductor servers with an SQL queue do.
        ssl_context: Serve HTTPS with this context.
        port: The port; 0 chooses a free one.
        clock: The clock of long polls, callbacks, delays and tokens. With a `FakeClock`, each wait of the stub counts
            as a sleeper of the clock, but is not added to its list `sleeps`.
    """

    def __init__(
        self,
        *,
        leases: bool = False,
        auth: tuple[str, str] | None = None,
        token_ttl_s: float = 3600.0,
        schemas: bool = False,
        hold_partial_batches: bool = False,
        ssl_context: ssl.SSLContext | None = None,
        port: int = 0,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._clock = clock.twin() if isinstance(clock, FakeClock) else clock
        self._watch = Watch(self._describe)
        self._listener = Listener(self._serve, port, ssl_context)
        self._script = FaultScript()
        self._gates = Gates(self._watch)
        self._requests: list[Request] = []
        self._queue = StubQueue(self._clock)
        self._reports = ReportRules(self._queue, leases=leases)
        self._metadata = MetadataRoutes(schemas=schemas)
        self._workflows = WorkflowRoutes(self._clock)
        self._tokens = StubTokens(auth, token_ttl_s, self._clock)
        tasks = TaskRoutes(
            self._queue,
            self._reports,
            self._watch,
            self._clock,
            leases=leases,
            hold_partial_batches=hold_partial_batches,
        )
        router = Router(self._tokens.routes(), tasks.routes(), self._metadata.routes(), self._workflows.routes())
        self._player = FaultPlayer(self._tokens, router, self._watch, self._clock)

    # -- lifecycle ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start listening. After a `stop`, the stub has the same port and state as before."""
        self._listener.start()

    def stop(self) -> None:
        """Reset all connections and stop listening. Tasks and recorded requests stay."""
        self._listener.stop()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def port(self) -> int:
        """The port that the stub listens on."""
        return self._listener.port

    @property
    def url(self) -> str:
        """The URL for a `Configuration`; it ends in `/api`."""
        return f"{self._listener.scheme}://127.0.0.1:{self.port}/api"

    # -- tasks ----------------------------------------------------------------------------------------------------

    def add_task(self, task_type: str, input_data: Mapping[str, Any] | None = None, **fields: Any) -> str:
        """Queue a task.

        Args:
            task_type: The task type.
            input_data: The input of the task.
            **fields: Any other field of a `Task`, in snake_case.

        Returns:
            The task id.
        """
        now_ms = self._clock.wall_ms()
        values: JsonObject = {
            "task_id": str(uuid4()),
            "workflow_instance_id": str(uuid4()),
            "task_def_name": task_type,
            "task_type": task_type,
            "input_data": dict(input_data or {}),
            "reference_task_name": f"{task_type}_ref",
            "response_timeout_seconds": DEFAULT_RESPONSE_TIMEOUT_S,
            "scheduled_time": now_ms,
            "update_time": now_ms,
        }
        task = Task(**(values | fields))
        with self._watch.held:
            self._queue.add(task)
        return task.task_id

    def task(self, task_id: str) -> Task:
        """Return a copy of the task as it is now."""
        with self._watch.held:
            return copy.deepcopy(self._queue.tasks[task_id])

    def set_status(self, task_id: str, status: str) -> None:
        """Change the status of a task from outside, for example to CANCELED or TIMED_OUT. This ends its lease."""
        with self._watch.held:
            self._queue.set_status(self._queue.tasks[task_id], status)

    def requeue(self, task_id: str) -> None:
        """Deliver a task again, even if a worker has it; the next poll supersedes its lease."""
        with self._watch.held:
            self._queue.make_ready(self._queue.tasks[task_id])

    def requeue_postponed(self) -> list[str]:
        """Deliver all tasks that wait for their `callbackAfterSeconds` at once, and return their ids."""
        with self._watch.held:
            postponed = self._queue.list_postponed()
            for task in postponed:
                self._queue.make_ready(task)
            return [task.task_id for task in postponed]

    def logs(self, task_id: str) -> list[str]:
        """Return the log lines of a task."""
        with self._watch.held:
            return [line.log for line in self._queue.logs[task_id]]

    # -- scripted faults ------------------------------------------------------------------------------------------

    def script(self, route: RequestChoice, *behaviours: Behaviour, repeat: bool = False) -> None:
        """Play behaviours, one per request of a route. Afterwards the stub answers normally.

        Args:
            route: "poll", "update", "heartbeat", "reports", "log", "task", "token", "taskdefs", "schema", "workflow",
                "other", or a function that selects requests.
            *behaviours: What to do with the next requests.
            repeat: Start over after the last behaviour.
        """
        with self._watch.held:
            self._script.add(route, behaviours, repeat=repeat)

    def clear_script(self, route: RequestChoice | None = None) -> None:
        """Remove the remaining behaviours of one route, or of all routes."""
        with self._watch.held:
            self._script.clear(route)

    def hold(self, route: RequestChoice) -> None:
        """Hold the requests of a route back until `release`. Held requests are not processed."""
        self._gates.close(route)

    def release(self, route: RequestChoice | None = None) -> None:
        """Process the held requests of one route, or of all routes."""
        self._gates.open(route)

    def held(self, route: RequestChoice) -> int:
        """Return the number of held requests of a route."""
        return self._gates.count_waiting(route)

    def expire_tokens(self) -> None:
        """Let every access token expire now."""
        self._tokens.expire_all()

    # -- recorded requests and state ------------------------------------------------------------------------------

    @property
    def requests(self) -> list[Request]:
        """Every request in order of arrival, including those that failed or were never answered."""
        with self._watch.held:
            return list(self._requests)

    def requests_of(self, route: RequestChoice) -> list[Request]:
        """Return the requests of one route."""
        return [request for request in self.requests if matches(route, request)]

    def polls(self, task_type: str | None = None) -> list[Request]:
        """Return the polls for one task type, or all polls."""
        return [request for request in self.requests_of("poll") if task_type in (None, request.task_type)]

    @property
    def parked_polls(self) -> int:
        """The number of long polls that wait for tasks."""
        return self._queue.count_parked()

    @property
    def results(self) -> list[JsonObject]:
        """The bodies of all reports that were answered with a success."""
        with self._watch.held:
            return list(self._reports.results)

    def results_for(self, task_id: str) -> list[JsonObject]:
        """Return the results of one task."""
        return [result for result in self.results if result["taskId"] == task_id]

    @property
    def heartbeats(self) -> list[JsonObject]:
        """The bodies of all heartbeats, including rejected ones."""
        return [request.json for request in self.requests_of("heartbeat")]

    @property
    def task_defs(self) -> dict[str, JsonObject]:
        """The registered task definitions by name, as they were sent."""
        return dict(self._metadata.task_defs)

    @property
    def workflow_defs(self) -> Versioned:
        """The registered workflow definitions by name and version, as they were sent."""
        return dict(self._metadata.workflow_defs)

    @property
    def schemas(self) -> Versioned:
        """The registered schemas by name and version, as they were sent."""
        return dict(self._metadata.schemas)

    @property
    def workflows(self) -> list[Workflow]:
        """The started workflows."""
        return list(self._workflows.workflows.values())

    @property
    def tokens(self) -> list[str]:
        """The issued tokens, oldest first."""
        return list(self._tokens.issued)

    # -- waiting --------------------------------------------------------------------------------------------------

    def wait_for(self, predicate: Callable[[], T], timeout: float = DEFAULT_TIMEOUT_S) -> T:
        """Block until the predicate returns a true value. The predicate is called after every request.

        Returns:
            The value of the predicate.

        Raises:
            TimeoutError: The predicate stayed false for `timeout` real seconds.
        """
        return self._watch.wait_for(predicate, timeout)

    async def until(self, predicate: Callable[[], T], timeout: float = DEFAULT_TIMEOUT_S) -> T:
        """Wait on the event loop until the predicate returns a true value; see `wait_for`."""
        return await self._watch.until(predicate, timeout)

    def wait_results(self, n: int, timeout: float = DEFAULT_TIMEOUT_S) -> list[JsonObject]:
        """Block until there are at least `n` results, and return all results."""
        self.wait_for(lambda: len(self._reports.results) >= n, timeout)
        return self.results

    async def until_results(self, n: int, timeout: float = DEFAULT_TIMEOUT_S) -> list[JsonObject]:
        """Wait on the event loop until there are at least `n` results, and return all results."""
        await self.until(lambda: len(self._reports.results) >= n, timeout)
        return self.results

    def _describe(self) -> str:
        counts = Counter(request.route for request in self._requests)
        routes = ", ".join(f"{n} {route}" for route, n in counts.most_common()) or "none"
        last = f"; the last: {self._requests[-1]}" if self._requests else ""
        return f"requests seen: {routes}; results: {len(self._reports.results)}{last}"

    async def _serve(self, connection: StubConnection, raw: RawRequest) -> None:
        """Serve one request, on the listener's thread."""
        request = Request.of(raw, connection.number)
        with self._watch.held:
            self._requests.append(request)
        self._watch.notify()
        await self._gates.pass_through(request)
        with self._watch.held:
            behaviour = self._script.next_behaviour(request)
        await self._player.play(behaviour, connection, request, close=not raw.keep_alive)
        self._watch.notify()
