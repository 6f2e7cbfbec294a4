"""Everything that a function can do, and workers of every form that do it. Worker processes import this module too."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
from collections import UserDict, namedtuple
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import Path
from typing import Any
from uuid import UUID

import attrs
import msgspec
import pydantic

from conductor.client.context.task_context import TaskInProgress, get_task_context
from conductor.client.event.task_runner_events import (
    TaskExecutionCompleted,
    TaskExecutionFailure,
    TaskExecutionStarted,
    TaskUpdateCompleted,
)
from conductor.client.http.models.task import Task
from conductor.client.http.models.task_result import TaskResult
from conductor.client.http.models.task_result_status import TaskResultStatus
from conductor.client.worker.exception import NonRetryableException
from conductor.client.worker.worker import Worker
from conductor.client.worker.worker_interface import WorkerInterface


@dataclass
class Point:
    x: int
    y: int | None = None


@dataclass
class Line:
    points: list[Point]
    colour: Colour


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


class Struct(msgspec.Struct, rename="camel"):
    order_id: int
    notes: str | None = None


class Model(pydantic.BaseModel):
    name: str
    born: date


@attrs.define
class Attrs:
    a: int
    b: list[int]


Pair = namedtuple("Pair", "left right")


class Odd(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Unreadable(UserDict[str, int]):
    def items(self) -> Any:
        raise LookupError("nobody may look inside")


def result(**fields: Any) -> TaskResult:
    made = TaskResult(**({"status": TaskResultStatus.COMPLETED} | fields))
    made.log("of the result")
    return made


def say(value: Any = None, *, error: BaseException | None = None, **sayings: Any) -> Any:
    """Speak through the context, then return or raise."""
    context = get_task_context()
    for text in sayings.get("logs", []):
        context.add_log(text)
    if "callback" in sayings:
        context.set_callback_after(sayings["callback"])
    if "output" in sayings:
        context.set_output(sayings["output"])
    if error is not None:
        raise error
    return value


def throw(error: BaseException) -> Any:
    raise error


async def later(act: Callable[[], Any]) -> Any:
    await asyncio.sleep(0)
    return act()


@dataclass(frozen=True)
class Case:
    """An act, and what must be reported of it."""

    act: Callable[[], Any]
    status: str = "COMPLETED"
    output: Any = field(default_factory=dict)
    reason: str | None = None
    logs: tuple[str, ...] = ()
    callback_s: int = 0
    #: The class of the cause in the failure event.
    cause: str | None = None

    @property
    def completed(self) -> bool:
        return self.cause is None


def failed(act: Callable[[], Any], reason: str, cause: str, **more: Any) -> Case:
    return Case(act, **({"status": "FAILED", "reason": reason, "cause": cause} | more))


def terminal(act: Callable[[], Any], reason: str, cause: str = "NonRetryableException", **more: Any) -> Case:
    return failed(act, reason, cause, status="FAILED_WITH_TERMINAL_ERROR", **more)


def unsendable(value: Any, reason: str) -> Case:
    return terminal(lambda: value, reason, "OutputError")


LOOP: list[Any] = []
LOOP.append(LOOP)
MOMENT = datetime(2024, 2, 29, 12, 30, tzinfo=UTC)

CASES: dict[str, Case] = {
    # return values
    "dict": Case(lambda: {"a": 1, "b": None}, output={"a": 1, "b": None}),
    "empty dict": Case(dict, output={}),
    "dataclass": Case(lambda: Point(1, 2), output={"x": 1, "y": 2}),
    "dataclass with None": Case(lambda: Point(1), output={"x": 1, "y": None}),
    "nested dataclasses": Case(
        lambda: Line([Point(1), Point(2, 3)], Colour.RED),
        output={"points": [{"x": 1, "y": None}, {"x": 2, "y": 3}], "colour": "red"},
    ),
    "msgspec struct": Case(lambda: Struct(7), output={"orderId": 7, "notes": None}),
    "pydantic model": Case(
        lambda: Model(name="Ada", born=date(1815, 12, 10)), output={"name": "Ada", "born": "1815-12-10"}
    ),
    "attrs": Case(lambda: Attrs(1, [2]), output={"a": 1, "b": [2]}),
    "named tuple": Case(lambda: Pair(1, [2]), output={"left": 1, "right": [2]}),
    "None": Case(lambda: None, output={"result": None}),
    "text": Case(lambda: "Grüße", output={"result": "Grüße"}),
    "int": Case(lambda: 42, output={"result": 42}),
    "huge int": Case(lambda: 2**70, output={"result": 2**70}),
    "float": Case(lambda: 1.5, output={"result": 1.5}),
    "bool": Case(lambda: True, output={"result": True}),
    "list": Case(lambda: [1, "two", None], output={"result": [1, "two", None]}),
    "tuple": Case(lambda: (1, 2), output={"result": [1, 2]}),
    "set": Case(lambda: {5}, output={"result": [5]}),
    "enum": Case(lambda: Colour.RED, output={"result": "red"}),
    "int enum": Case(lambda: {"level": Level.HIGH}, output={"level": 3}),
    "datetime": Case(lambda: MOMENT, output={"result": "2024-02-29T12:30:00Z"}),
    "decimal": Case(lambda: {"price": Decimal("9.90")}, output={"price": "9.90"}),
    "uuid": Case(lambda: UUID(int=1), output={"result": "00000000-0000-0000-0000-000000000001"}),
    "bytes": Case(lambda: b"\x00\xff", output={"result": "AP8="}),
    "path": Case(lambda: {"where": Path("/tmp")}, output={"where": "/tmp"}),
    "nested everything": Case(
        lambda: {"a": [{"b": (Point(1), {Colour.RED})}], 5: None},
        output={"a": [{"b": [{"x": 1, "y": None}, ["red"]]}], "5": None},
    ),
    # results of their own
    "TaskResult": Case(lambda: result(output_data={"a": 1}), output={"a": 1}, logs=("of the result",)),
    "TaskResult with objects": Case(
        lambda: result(output_data={"p": Point(1)}), output={"p": {"x": 1, "y": None}}, logs=("of the result",)
    ),
    "TaskResult failed": Case(
        lambda: result(status=TaskResultStatus.FAILED, reason_for_incompletion="on purpose"),
        status="FAILED",
        reason="on purpose",
        logs=("of the result",),
    ),
    "TaskResult terminal": Case(
        lambda: result(status=TaskResultStatus.FAILED_WITH_TERMINAL_ERROR, reason_for_incompletion="for good"),
        status="FAILED_WITH_TERMINAL_ERROR",
        reason="for good",
        logs=("of the result",),
    ),
    "TaskResult in progress": Case(
        lambda: result(status=TaskResultStatus.IN_PROGRESS, callback_after_seconds=609),
        status="IN_PROGRESS",
        callback_s=609,
        logs=("of the result",),
    ),
    "TaskInProgress": Case(
        lambda: TaskInProgress(630, {"done": 0.5}), status="IN_PROGRESS", output={"done": 0.5}, callback_s=630
    ),
    # what the context says
    "logs": Case(lambda: say({"a": 1}, logs=["one", "two"]), output={"a": 1}, logs=("one", "two")),
    "logs and a TaskResult": Case(
        lambda: say(result(), logs=["of the context"]), logs=("of the result", "of the context")
    ),
    "set_output": Case(lambda: say({"b": 2}, output={"a": 1, "b": 1}), output={"a": 1, "b": 2}),
    "set_output and None": Case(lambda: say(None, output={"a": 1}), output={"a": 1, "result": None}),
    "set_callback_after": Case(
        lambda: say({"half": True}, callback=615), status="IN_PROGRESS", output={"half": True}, callback_s=615
    ),
    "set_callback_after and TaskInProgress": Case(
        lambda: say(TaskInProgress(630), callback=615), status="IN_PROGRESS", callback_s=615
    ),
    # failures
    "NonRetryableException": terminal(lambda: throw(NonRetryableException("no such order")), "no such order"),
    "NonRetryableException()": terminal(lambda: throw(NonRetryableException()), "NonRetryableException"),
    "ValueError": failed(lambda: throw(ValueError("bad")), "ValueError: bad", "ValueError"),
    "ValueError()": failed(lambda: throw(ValueError()), "ValueError", "ValueError"),
    "KeyError": failed(lambda: dict[str, int]()["missing"], "KeyError: 'missing'", "KeyError"),
    "FileNotFoundError": failed(
        lambda: Path("missing.txt").read_text(),
        "FileNotFoundError: [Errno 2] No such file or directory: 'missing.txt'",
        "FileNotFoundError",
    ),
    "chained": failed(lambda: chained(), "RuntimeError: outer", "RuntimeError"),
    "group": failed(
        lambda: throw(ExceptionGroup("two", [ValueError(1), KeyError(2)])),
        "ExceptionGroup: two (2 sub-exceptions)",
        "ExceptionGroup",
    ),
    "a long message": failed(lambda: throw(ValueError("x" * 2000)), "ValueError: " + "x" * 488, "ValueError"),
    "an exception without words": failed(lambda: throw(Odd()), "Odd: (its message cannot be read)", "Odd"),
    "SystemExit": failed(lambda: throw(SystemExit(3)), "SystemExit: 3", "SystemExit"),
    "KeyboardInterrupt": failed(lambda: throw(KeyboardInterrupt()), "KeyboardInterrupt", "KeyboardInterrupt"),
    "GeneratorExit": failed(lambda: throw(GeneratorExit("own")), "GeneratorExit: own", "GeneratorExit"),
    "CancelledError": failed(lambda: throw(asyncio.CancelledError()), "CancelledError", "CancelledError"),
    "TimeoutError": failed(lambda: throw(TimeoutError("slow")), "TimeoutError: slow", "TimeoutError"),
    "logs of a failure": failed(
        lambda: say(error=ValueError("bad"), logs=["before", "the fall"]),
        "ValueError: bad",
        "ValueError",
        logs=("before", "the fall"),
    ),
    "output of a failure": failed(
        lambda: say(error=ValueError("bad"), output={"so far": 3}),
        "ValueError: bad",
        "ValueError",
        output={"so far": 3},
    ),
    # what cannot be sent
    "an object": unsendable({"a": [object()]}, "output.a[0]: object of type object cannot be sent as JSON"),
    "NaN": unsendable({"a": {"b": float("nan")}}, "output.a.b: nan cannot be sent as JSON"),
    "infinity": unsendable([float("inf")], "output.result[0]: inf cannot be sent as JSON"),
    "a lone surrogate": unsendable({"a": "\ud800"}, "output.a: text with a lone surrogate at 0 cannot be sent as JSON"),
    "a loop": unsendable({"l": LOOP}, "output.l[0]: refers to itself and cannot be sent as JSON"),
    "an odd key": unsendable({"a": {(1, 2): 3}}, "output.a: a key of type tuple cannot be sent as JSON"),
    "an unreadable object": unsendable(
        {"a": Unreadable({"b": 1})}, "output: cannot be read: LookupError: nobody may look inside"
    ),
    "a TaskResult that cannot be sent": terminal(
        lambda: result(output_data={"a": object()}),
        "output.a: object of type object cannot be sent as JSON",
        "OutputError",
    ),
    # a function that returns an awaitable
    "a coroutine": Case(lambda: later(lambda: Point(1)), output={"x": 1, "y": None}),
    "a coroutine that fails": failed(
        lambda: later(lambda: throw(ValueError("later"))), "ValueError: later", "ValueError"
    ),
    "a coroutine with TaskInProgress": Case(
        lambda: later(lambda: TaskInProgress(605, {"a": 1})), status="IN_PROGRESS", output={"a": 1}, callback_s=605
    ),
    "a coroutine that speaks": Case(
        lambda: later(lambda: say({"a": 1}, logs=["late"], output={"b": 2})), output={"a": 1, "b": 2}, logs=("late",)
    ),
}


def chained() -> None:
    try:
        throw(KeyError("inner"))
    except KeyError as error:
        raise RuntimeError("outer") from error


def act_bare(case: str, number: int = 0) -> Any:
    return CASES[case].act()


async def act_bare_async(case: str, number: int = 0) -> Any:
    await asyncio.sleep(0)
    return CASES[case].act()


class ActClass(WorkerInterface):
    thread_count = 4
    idle_poll_timeout = 0

    def execute(self, task: Task) -> Any:
        return CASES[task.input_data["case"]].act()


class ActClassAsync(WorkerInterface):
    thread_count = 4
    idle_poll_timeout = 0

    async def execute(self, task: Task) -> Any:
        await asyncio.sleep(0)
        return CASES[task.input_data["case"]].act()


#: The four ways to write a worker, and those of them whose parameters are filled from the input.
FORMS = ("def", "async def", "class def", "class async def")
BARE = FORMS[:2]
#: Input that does not fit.
MISFIT = {"case": "dict", "number": "no number"}


def workers() -> list[WorkerInterface]:
    options: dict[str, Any] = {"thread_count": 4, "idle_poll_timeout": 0}
    return [
        Worker("def", act_bare, **options),
        Worker("async def", act_bare_async, **options),
        ActClass("class def"),
        ActClassAsync("class async def"),
    ]


class EventFile:
    """A listener that any process can have: one line of JSON for each event, appended in one write."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def on_task_execution_started(self, event: TaskExecutionStarted) -> None:
        self._note(event)

    def on_task_execution_completed(self, event: TaskExecutionCompleted) -> None:
        self._note(event)

    def on_task_execution_failure(self, event: TaskExecutionFailure) -> None:
        self._note(event)

    def on_task_update_completed(self, event: TaskUpdateCompleted) -> None:
        self._note(event)

    def _note(self, event: Any) -> None:
        said = {key: value for key, value in dataclasses.asdict(event).items() if isinstance(value, str | int)}
        cause = getattr(event, "cause", None)
        line = {"event": type(event).__name__, "cause": cause and type(cause).__name__, **said}
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, json.dumps(line).encode() + b"\n")
        os.close(file)

    def read(self) -> list[dict[str, Any]]:
        """All events so far, of all processes."""
        return [json.loads(line) for line in self.path.read_text().splitlines()]
