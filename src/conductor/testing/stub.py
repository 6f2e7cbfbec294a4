"""A Conductor server for tests: real sockets, tasks in memory, and as badly behaved as the test wants."""

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
from conductor.testing.fault_player import Player
from conductor.testing.fault_script import Behaviour, Gates, RequestChoice, Script, fits
from conductor.testing.http11 import Connection, RawRequest
from conductor.testing.listener import Listener
from conductor.testing.metadata_routes import MetadataRoutes
from conductor.testing.report_rules import Reports
from conductor.testing.request import Request
from conductor.testing.router import Router
from conductor.testing.stub_queue import StubQueue
from conductor.testing.stub_tokens import Tokens
from conductor.testing.task_routes import TaskRoutes
from conductor.testing.wait_until import DEFAULT_TIMEOUT_S, Watch
from conductor.testing.workflow_routes import WorkflowRoutes

T = TypeVar("T")


class ConductorStub:
    """A plain Conductor server in a thread of its own, for tests.

    Usable as `with` and as `async with`. It hands out the tasks a test adds and takes their results, but retries
    nothing, times nothing out and runs no workflows. What it shall do wrong is said by `script` and `hold`.

    - `leases` makes it speak as a coordinator does: leases, verdicts, batch reports.
    - `auth`, a key and a secret, makes it ask for tokens; they live `token_ttl_s`.
    - `schemas` gives it the schema endpoint, which an open-source server lacks.
    - `hold_partial_batches` makes a long poll wait for a full batch, as servers on an SQL store do.
    - `clock` times long polls, callbacks, delays and tokens. With a `FakeClock`, what the stub waits for counts among
      the clock's sleepers but does not show in its `sleeps`.
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
        self._script = Script()
        self._gates = Gates(self._watch)
        self._requests: list[Request] = []
        self._queue = StubQueue(self._clock)
        self._reports = Reports(self._queue, leases=leases)
        self._metadata = MetadataRoutes(schemas=schemas)
        self._workflows = WorkflowRoutes(self._clock)
        self._tokens = Tokens(auth, token_ttl_s, self._clock)
        tasks = TaskRoutes(
            self._queue,
            self._reports,
            self._watch,
            self._clock,
            leases=leases,
            hold_partial_batches=hold_partial_batches,
        )
        router = Router(*(part.routes() for part in (self._tokens, tasks, self._metadata, self._workflows)))
        self._player = Player(self._tokens, router, self._watch, self._clock)

    # -- life -----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Listen; after a `stop` on the same port as before, with all that was known then."""
        self._listener.start()

    def stop(self) -> None:
        """Cut all connections and listen no more. Tasks and records stay."""
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
        """The port it listens on."""
        return self._listener.port

    @property
    def url(self) -> str:
        """What a Configuration takes; ends in `/api`."""
        return f"{self._listener.scheme}://127.0.0.1:{self.port}/api"

    # -- tasks ----------------------------------------------------------------------------------------------------

    def add_task(self, task_type: str, input_data: Mapping[str, Any] | None = None, **fields: Any) -> str:
        """Queue a task and return its id. Any field of a Task may be given in snake_case."""
        now_ms = self._clock.wall_ms()
        values: dict[str, Any] = {
            "task_id": str(uuid4()),
            "workflow_instance_id": str(uuid4()),
            "task_def_name": task_type,
            "reference_task_name": f"{task_type}_ref",
            "response_timeout_seconds": DEFAULT_RESPONSE_TIMEOUT_S,
            "scheduled_time": now_ms,
            "update_time": now_ms,
        }
        task = Task(**(values | {"task_type": task_type, "input_data": dict(input_data or {})} | fields))
        with self._watch.held:
            self._queue.add(task)
        return task.task_id

    def task(self, task_id: str) -> Task:
        """The task as it is now."""
        with self._watch.held:
            return copy.deepcopy(self._queue.tasks[task_id])

    def set_status(self, task_id: str, status: str) -> None:
        """Change a task behind its worker's back: CANCELED, TIMED_OUT, … End its lease too, if it has one."""
        with self._watch.held:
            self._queue.set_status(self._queue.tasks[task_id], status)

    def requeue(self, task_id: str) -> None:
        """Hand a task out again, whoever has it; the next poll supersedes its lease."""
        with self._watch.held:
            self._queue.make_ready(self._queue.tasks[task_id])

    def requeue_postponed(self) -> list[str]:
        """Hand out at once all tasks that wait for their `callbackAfterSeconds`, and return their ids."""
        with self._watch.held:
            postponed = self._queue.postponed()
            for task in postponed:
                self._queue.make_ready(task)
            return [task.task_id for task in postponed]

    def logs(self, task_id: str) -> list[str]:
        """The lines logged for a task."""
        with self._watch.held:
            return [line.log for line in self._queue.logs[task_id]]

    # -- what it shall do wrong -----------------------------------------------------------------------------------

    def script(self, route: RequestChoice, *behaviours: Behaviour, repeat: bool = False) -> None:
        """Play these behaviours, one a request, for the requests of a route; with `repeat` over and over.

        A route is "poll", "update", "heartbeat", "reports", "log", "task", "token", "taskdefs", "schema", "workflow",
        "other", or a function that picks requests.
        """
        with self._watch.held:
            self._script.add(route, behaviours, repeat=repeat)

    def clear_script(self, route: RequestChoice | None = None) -> None:
        """Behave again, for one route or for all."""
        with self._watch.held:
            self._script.clear(route)

    def hold(self, route: RequestChoice) -> None:
        """Let the requests of a route wait, before they have any effect, until `release`."""
        self._gates.close(route)

    def release(self, route: RequestChoice | None = None) -> None:
        """Let them go, of one route or of all."""
        self._gates.open(route)

    def held(self, route: RequestChoice) -> int:
        """How many requests of the route are waiting."""
        return self._gates.waiting(route)

    def expire_tokens(self) -> None:
        """End every access token now."""
        self._tokens.expire()

    # -- what it saw ----------------------------------------------------------------------------------------------

    @property
    def requests(self) -> list[Request]:
        """Every request, in the order of arrival, whatever became of it."""
        with self._watch.held:
            return list(self._requests)

    def requests_of(self, route: RequestChoice) -> list[Request]:
        """The requests of one route."""
        return [request for request in self.requests if fits(route, request)]

    def polls(self, task_type: str | None = None) -> list[Request]:
        """The polls, of one task type or of all."""
        return [r for r in self.requests_of("poll") if task_type in (None, r.task_type)]

    @property
    def parked_polls(self) -> int:
        """How many long polls are waiting for work."""
        return self._queue.parked()

    @property
    def results(self) -> list[dict[str, Any]]:
        """Every report that was answered with a success, as it came."""
        with self._watch.held:
            return list(self._reports.results)

    def results_for(self, task_id: str) -> list[dict[str, Any]]:
        """Those about one task."""
        return [result for result in self.results if result["taskId"] == task_id]

    @property
    def heartbeats(self) -> list[dict[str, Any]]:
        """Every heartbeat, as it came, whatever became of it."""
        return [request.json for request in self.requests_of("heartbeat")]

    @property
    def task_defs(self) -> dict[str, dict[str, Any]]:
        """The registered task definitions by name, as they came."""
        return dict(self._metadata.task_defs)

    @property
    def workflow_defs(self) -> dict[tuple[str, int], dict[str, Any]]:
        """The registered workflow definitions by name and version, as they came."""
        return dict(self._metadata.workflow_defs)

    @property
    def schemas(self) -> dict[tuple[str, int], dict[str, Any]]:
        """The registered schemas by name and version, as they came."""
        return dict(self._metadata.schemas)

    @property
    def workflows(self) -> list[Workflow]:
        """The started workflows."""
        return list(self._workflows.workflows.values())

    @property
    def tokens(self) -> list[str]:
        """The tokens given so far."""
        return list(self._tokens.issued)

    # -- waiting --------------------------------------------------------------------------------------------------

    def wait_for(self, predicate: Callable[[], T], timeout: float = DEFAULT_TIMEOUT_S) -> T:
        """Block until the predicate gives something true, and return that. It is asked after every request."""
        return self._watch.wait_for(predicate, timeout)

    async def until(self, predicate: Callable[[], T], timeout: float = DEFAULT_TIMEOUT_S) -> T:
        """The same for a test on an event loop."""
        return await self._watch.until(predicate, timeout)

    def wait_results(self, n: int, timeout: float = DEFAULT_TIMEOUT_S) -> list[dict[str, Any]]:
        """Block until that many results have come, and return them."""
        self.wait_for(lambda: len(self._reports.results) >= n, timeout)
        return self.results

    async def until_results(self, n: int, timeout: float = DEFAULT_TIMEOUT_S) -> list[dict[str, Any]]:
        """The same for a test on an event loop."""
        await self.until(lambda: len(self._reports.results) >= n, timeout)
        return self.results

    def _describe(self) -> str:
        counts = Counter(request.route for request in self._requests)
        seen = ", ".join(f"{n} {route}" for route, n in counts.most_common()) or "none"
        last = "; the last: " + str(self._requests[-1]) if self._requests else ""
        return f"requests seen: {seen}; results: {len(self._reports.results)}{last}"

    async def _serve(self, connection: Connection, raw: RawRequest) -> None:
        """Runs on the listener's thread, once for every request."""
        request = Request.of(raw, connection.number)
        with self._watch.held:
            self._requests.append(request)
        self._watch.notify()
        await self._gates.go_through(request)
        with self._watch.held:
            behaviour = self._script.play(request)
        await self._player.play(behaviour, connection, request, close=not raw.keep_alive)
        self._watch.notify()
