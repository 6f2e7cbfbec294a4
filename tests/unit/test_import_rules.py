"""The effects of importing, and the direction of imports."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import conductor

ROOT = Path(next(iter(conductor.__path__)))
#: Ours, and msgspec with what it takes along.
LIGHT = {"conductor", "msgspec", "typing_extensions"}
DECORATOR = "from conductor.client.worker.worker_task import worker_task"
#: All in one process of the suite, which reads the sources once.
pytestmark = pytest.mark.xdist_group("imports")
#: Global state that importing must not change, as expressions.
STATES = [
    "__import__('multiprocessing').get_start_method(allow_none=True)",
    "[str(h) for h in logging.getLogger().handlers]",
    "logging.getLogger().level",
    "logging.getLoggerClass().__name__",
    "logging.getLogRecordFactory().__name__",
    "[str(f) for f in warnings.filters]",
    "[str(signal.getsignal(s)) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGCHLD)]",
    "[str(sys.excepthook), str(threading.excepthook)]",
    "[t.name for t in threading.enumerate()]",
    "sorted(os.environ)",
    "str(asyncio.get_event_loop_policy().__class__)",
]


def run(code: str) -> Any:
    """Run code in a fresh interpreter; what it prints last, as JSON."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "COV"))}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def modules_loaded_by(statement: str) -> set[str]:
    """Return the modules that a statement loads beyond the standard library."""
    code = f"import sys, json, asyncio\nbefore = set(sys.modules)\n{statement}\n"
    loaded = run(code + "print(json.dumps(sorted(set(sys.modules) - before)))")
    return {name for name in loaded if name.partition(".")[0] not in sys.stdlib_module_names}


@cache
def states_around_imports() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the global state before and after the imports."""
    read = "{" + ", ".join(f"{state!r}: {state}" for state in STATES) + "}"
    before, after = run(
        "import asyncio, json, logging, os, signal, sys, threading, warnings\n"
        f"before = {read}\n{DECORATOR}\n"
        "from conductor.client.automator.task_handler import TaskHandler\n"
        "from conductor.client.automator.task_handler_asyncio import TaskHandlerAsyncIO\n"
        f"print(json.dumps([before, {read}]))"
    )
    return before, after


class TestTheDecorator:
    """P28: importing it is cheap and changes nothing."""

    @pytest.mark.parametrize("statement", [DECORATOR, "from conductor import worker_task", "import conductor"])
    def test_the_decorator_loads_few_modules(self, statement: str) -> None:
        loaded = modules_loaded_by(statement)
        assert len(loaded) <= 44, sorted(loaded)

    def test_the_decorator_loads_no_http_library_and_nothing_heavy(self) -> None:
        names = {name.partition(".")[0] for name in modules_loaded_by(DECORATOR)}
        assert names <= LIGHT

    def test_using_the_decorator_loads_nothing_heavy_either(self) -> None:
        use = f"{DECORATOR}\n@worker_task(task_definition_name='x')\ndef f(a: int) -> dict: return {{}}"
        assert {name.partition(".")[0] for name in modules_loaded_by(use)} <= LIGHT

    @pytest.mark.parametrize("state", STATES)
    def test_the_decorator_changes_no_global_state(self, state: str) -> None:
        before, after = states_around_imports()
        assert before[state] == after[state]

    def test_the_sdk_works_without_the_server_and_the_command_line(self) -> None:
        blocked = "starlette httptools jsonschema_rs typer rich prometheus_client pydantic attrs httpx"
        code = (
            f"import sys\nfor name in {blocked.split()!r}: sys.modules[name] = None\n"
            "from conductor.client.automator.task_handler import TaskHandler\n"
            "from conductor.client.automator.task_handler_asyncio import TaskHandlerAsyncIO\n"
            "from conductor.client.orkes_clients import OrkesClients\n"
            "TaskHandler(); TaskHandlerAsyncIO()\nprint('true')"
        )
        assert run(code) is True


@cache
def imports() -> dict[str, set[str]]:
    """Map each module to the modules of this package that it imports, at its top or inside a function."""
    return {name: set(_imported(_run_time_nodes(tree))) - {name} for name, tree in sources()}


@cache
def top_imports() -> dict[str, set[str]]:
    """Map each module to the modules that it imports at its top: they are loaded together."""
    return {name: set(_imported(_run_time_nodes(tree, inside=False))) - {name} for name, tree in sources()}


@cache
def sources() -> tuple[tuple[str, ast.Module], ...]:
    return tuple((_name(path), ast.parse(path.read_text())) for path in sorted(ROOT.rglob("*.py")))


def _name(path: Path) -> str:
    parts = ("conductor", *path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def known_modules() -> set[str]:
    return {name for name, _ in sources()}


def _imported(nodes: Iterator[ast.AST]) -> Iterator[str]:
    known = known_modules()
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("conductor"):
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name if name in known else node.module for name in inner)


def _run_time_nodes(tree: ast.AST, *, inside: bool = True) -> Iterator[ast.AST]:
    """Without what only type checkers or `python -m` see."""
    left = [tree]
    while left:
        for node in ast.iter_child_nodes(left.pop()):
            if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "__name__ == '__main__'"):
                continue
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not inside:
                continue
            yield node
            if not isinstance(node, ast.expr):  # no import is inside an expression
                left.append(node)


def _words(tree: ast.AST) -> Iterator[str]:
    """Names and texts in the code; comments are none of it."""
    for node in ast.walk(tree):
        for _, value in ast.iter_fields(node):
            if isinstance(value, str):
                yield value


def importers_of(prefix: str) -> set[str]:
    return {name for name, targets in imports().items() if any(_within(target, prefix) for target in targets)}


def _within(name: str, prefix: str) -> bool:
    return name == prefix or name.startswith(f"{prefix}.")


def circles(graph: dict[str, set[str]]) -> list[str]:
    """The modules that import each other, and those above them."""
    while leaves := {name for name, targets in graph.items() if not targets & graph.keys()}:
        graph = {name: targets for name, targets in graph.items() if name not in leaves}
    return sorted(graph)


AUTOMATOR = "conductor.client.automator."
#: From the faces down. What stands in a line may import the lines below it, and its own.
LAYERS: list[list[str]] = [
    ["run_for_duration", "preload"],
    ["task_handler", "task_handler_asyncio", "task_runner", "async_task_runner", "task_runner_asyncio"],
    ["supervisor", "pickling"],
    ["worker_process"],
    ["child", "recovery"],
    ["worker_group", "recycling"],
    ["engine", "session", "prefetch"],
    ["poller", "executor", "reporter", "lease", "redelivery", "heartbeat", "registration"],
    ["step_recorder", "step_file"],
    ["isolation", "server_probe"],
    ["process_deaths"],
    [
        "polled_tasks",
        "running_task",
        "progress",
        "delivery",
        "journal",
        "adopted_journal",
        "thread_pool",
        "blocked_loop",
        "json_schema_generator",
    ],
    ["task_trace", "execution_marks"],
]


COORDINATOR = "conductor.coordinator."
#: The coordinator's rooms, from the top down. A room may import the rooms below it, and itself.
ROOMS = [
    "server",
    "http",
    "system",
    "dry_run",
    "core",
    "task_authority",
    "workflow_service",
    "reader",
    "schedules",
    "events",
    "workflows",
    "tasks",
    "views",
    "definitions",
    "audit",
    "keys",
    "settings",
    "language",
    "replication",
    "store",
    "server_metrics",
    "request_errors",
    "limits",
]


class TestRooms:
    """The coordinator: server → http → system → core → schedules → workflows → tasks → views → definitions → …"""

    def test_every_room_has_its_place(self) -> None:
        found = {name.removeprefix(COORDINATOR).partition(".")[0] for name in imports() if name.startswith(COORDINATOR)}
        assert found == set(ROOMS)

    @pytest.mark.parametrize("room", ROOMS)
    def test_no_room_imports_one_above_it(self, room: str) -> None:
        above = ROOMS[: ROOMS.index(room)]
        wrong = {
            (name, target)
            for name, targets in imports().items()
            if _within(name, COORDINATOR + room)
            for target in targets
            if any(_within(target, COORDINATOR + higher) for higher in above)
        }
        assert not wrong

    def test_the_languages_know_no_store(self) -> None:
        assert not {name for name in importers_of(COORDINATOR + "store") if _within(name, COORDINATOR + "language")}


#: Route module → what it uses of the core, directly or by the faces `tasks`, `workflows` and `reader` of its request.
FACES = {
    "admin": {"is_draining", "probe", "read_replication"},
    "by_reference": {"reader", "tasks", "workflows", "write"},
    "dry_runs": {"clock", "reader", "workflows"},
    "events": {"reader", "write"},
    "keys": {"keys", "write"},
    "maintenance": {"reader", "store", "workflows", "write"},
    "metadata": {"find_syntax_errors", "reader", "write"},
    "messages": {"workflows", "reader", "write"},
    "metrics": {
        "counts",
        "fast_loops",
        "probe",
        "read_replication",
        "reader",
        "request_times",
        "started_ms",
        "store",
        "tasks",
    },
    "reports": {"poll_headers", "tasks", "write"},
    "schedules": {"clock", "reader", "write"},
    "schemas": {"reader", "write"},
    "search": {"reader"},
    "settings": {"secrets", "write"},
    "signals": {"reader", "workflows"},
    "tasks": {"change_feed", "poll_headers", "reader", "store", "tasks", "write"},
    "views": {
        "change_feed",
        "clock",
        "fast_loops",
        "keep",
        "load_history",
        "probe",
        "read_replication",
        "reader",
        "secrets",
        "started_ms",
        "store",
        "tasks",
    },  # fmt: skip
    "workflow_actions": {"reader", "tasks", "workflows", "write"},
    "workflows": {"reader", "workflows", "write"},
}


def faces_used_by(tree: ast.Module) -> set[str]:
    """Return the faces of `request`, and the attributes of the core itself, that a module uses."""
    attributes = [(ast.unparse(node.value), node.attr) for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    return {
        name
        for owner, name in attributes
        if owner in ("core", "request.core", "self._core")
        or (owner == "request" and name in ("reader", "tasks", "workflows", "write"))
    }


class TestFaces:
    """Routes and system tasks use only the face of the core that they need."""

    def test_each_route_module_uses_only_its_faces(self) -> None:
        routes = COORDINATOR + "http.routes."
        found = {name.removeprefix(routes): faces_used_by(tree) for name, tree in sources() if name.startswith(routes)}
        assert {name: faces for name, faces in found.items() if faces} == FACES

    def test_system_tasks_know_tasks_and_workflows_only(self) -> None:
        system = COORDINATOR + "system."
        knowing = {name for name in importers_of(COORDINATOR + "core") if name.startswith(system)}
        assert knowing == {system + "system_workers"}


class TestDirection:
    """Face → engine → poll, lease, execute, report → http.api → api client → rest. Models, events, wire are leaves."""

    def test_every_module_of_the_automator_has_its_layer(self) -> None:
        placed = [name for layer in LAYERS for name in layer]
        found = {n.removeprefix(AUTOMATOR) for n in imports() if n.startswith(AUTOMATOR)}
        assert sorted(placed) == sorted(found)

    @pytest.mark.parametrize("level", range(len(LAYERS)), ids=lambda n: LAYERS[n][0])
    def test_no_layer_imports_one_above_it(self, level: int) -> None:
        above = {AUTOMATOR + name for layer in LAYERS[:level] for name in layer}
        for name in LAYERS[level]:
            assert not imports()[AUTOMATOR + name] & above, name

    def test_poll_execute_and_report_do_not_know_each_other(self) -> None:
        """Only the engine calls these modules."""
        parts = {AUTOMATOR + name for name in ("poller", "executor", "reporter", "journal", "thread_pool")}
        allowed = {(AUTOMATOR + "executor", AUTOMATOR + "thread_pool"), (AUTOMATOR + "reporter", AUTOMATOR + "journal")}
        pairs = {(name, other) for name in parts for other in imports()[name] & parts}
        assert pairs <= allowed

    def test_imports_make_no_circles(self) -> None:
        assert not circles(top_imports())

    def test_late_imports_of_the_client_make_none_either(self) -> None:
        """A late import loads a heavy library on first use. It never hides that two modules need each other."""
        assert not circles({name: targets for name, targets in imports().items() if _within(name, "conductor.client")})

    @pytest.mark.parametrize(
        ("below", "above"),
        [
            ("conductor.client.http.api", "conductor.client.automator"),
            ("conductor.client.http.async_api_client", "conductor.client.http.api"),
            ("conductor.client.http.async_rest", "conductor.client.http.async_api_client"),
            ("conductor.client.http", "conductor.client.worker"),
            ("conductor.client.worker", "conductor.client.http.api"),
            ("conductor.client.worker", "conductor.client.automator"),
            ("conductor.client.context", "conductor.client.worker"),
            ("conductor.client.event", "conductor.client.automator"),
            ("conductor.client.telemetry", "conductor.client.automator"),
            ("conductor.client.configuration", "conductor.client.http"),
            ("conductor.client.automator", "conductor.coordinator"),
            ("conductor.coordinator", "conductor.client.automator"),
            ("conductor.client", "conductor.coordinator"),
            ("conductor.client", "conductor.testing"),
            ("conductor.coordinator", "conductor.testing"),
            ("conductor.client", "conductor.cli"),
            ("conductor.coordinator", "conductor.cli"),
        ],
    )
    def test_a_lower_package_does_not_import_a_higher_one(self, below: str, above: str) -> None:
        assert not {name for name in importers_of(above) if _within(name, below) and not _within(name, above)}

    @pytest.mark.parametrize(
        "leaf",
        [
            "conductor.protocol.statuses",
            "conductor.protocol.wire",
            "conductor.common.clock",
            "conductor.common.lazy_names",
            "conductor.version",
            "conductor.telemetry.exposition",
            "conductor.telemetry.log_format",
            "conductor.telemetry.tracing",
            "conductor.common.backoff",
            "conductor.common.machine",
            "conductor.client.background_event_loop",
            "conductor.client.event.task_runner_events",
        ],
    )
    def test_leaves_import_nothing_of_ours(self, leaf: str) -> None:
        assert not imports()[leaf]

    def test_models_import_only_models_and_the_wire(self) -> None:
        models = "conductor.client.http.models"
        known = (models, "conductor.protocol", "conductor.common.lazy_names")
        for name, targets in imports().items():
            if name.startswith(models):
                assert all(target.startswith(known) for target in targets), name

    def test_only_one_file_knows_the_http_library(self) -> None:
        knowing = [name for name, tree in sources() if any("pyreqwest" in word for word in _words(tree))]
        assert knowing == ["conductor.client.http.async_rest"]


class TestLoggers:
    """P25: loggers have the names of their modules."""

    def test_loggers_are_named_after_their_modules(self) -> None:
        found = 0
        for name, tree in sources():
            if _within(name, "conductor.cli"):  # a program, which may turn the loggers of others
                continue
            for node in ast.walk(tree):
                if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("getLogger") and node.args:
                    found += 1
                    assert ast.unparse(node.args[0]) == "__name__", f"{name}: {ast.unparse(node)}"
        assert found > 10

    def test_loggers_are_in_place_when_a_handler_is_made(self) -> None:
        names = run(
            "import json, logging\n"
            "from conductor.client.automator.task_handler import TaskHandler\n"
            "TaskHandler()\n"
            "ours = [n for n in logging.root.manager.loggerDict if n.startswith('conductor')]\n"
            "print(json.dumps(ours))"
        )
        known = {name for name, _ in sources()}
        assert names
        assert set(names) <= known | {name.rpartition(".")[0] for name in known} | {"conductor", "conductor.client"}
