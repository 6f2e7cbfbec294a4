"""What `@worker_task` says at once about functions that cannot work, or probably do not work, as workers."""

from __future__ import annotations

import functools
import subprocess
import sys
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conductor.client.http.models.task import Task
from conductor.client.http.models.task_def import TaskDef
from conductor.client.worker import registry
from conductor.client.worker.function_checks import WorkerWarning
from conductor.client.worker.worker import Worker
from conductor.client.worker.worker_task import worker_task


@pytest.fixture(autouse=True)
def _no_workers_remain() -> Iterator[None]:
    before = registry.list_workers()
    yield
    registry.clear()
    for worker in before:
        registry.register(worker)


def hides_the_signature(function: Callable[..., Any]) -> Callable[..., Any]:
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


def keeps_the_signature(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


def add(a: int, b: int = 1) -> int:
    return a + b


def one_without_annotation(name):  # type: ignore[no-untyped-def]
    return name


def mutable_default(name: str, seen: list[str] = []) -> int:  # noqa: B006
    return len(seen)


def star_args(name: str, *rest: str) -> str:
    return name


def generator(name: str) -> Iterator[str]:
    yield name


async def async_generator(name: str) -> AsyncIterator[str]:
    yield name


class Greeter:
    def greet(self, name: str) -> str:
        return f"Hello {name}"


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (one_without_annotation, "single parameter 'name' without an annotation, so it receives the whole Task"),
        (lambda a: {"a": a}, "single parameter 'a' without an annotation.*: write a `def` that annotates it with"),
        (mutable_default, r"mutable default \[\] for 'seen'.*share: use None"),
        (star_args, r"takes \*rest, which stays empty"),
        (hides_the_signature(add), r"takes \(\*args, \*\*kwargs\).*functools.wraps"),
    ],
)
def test_a_function_that_probably_gets_other_arguments_causes_a_warning(
    function: Callable[..., Any], message: str
) -> None:
    with pytest.warns(WorkerWarning, match=message) as caught:
        worker_task("checked")(function)
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (generator, "generator is a generator, and a worker returns one result: return a list"),
        (async_generator, "async_generator is a generator"),
        (Greeter.greet, r"Greeter.greet is a method, and a task has no 'self'.*Worker\('checked', obj.greet\)"),
    ],
)
def test_a_function_that_cannot_be_a_worker_is_refused(function: Callable[..., Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        worker_task("checked")(function)


def whole_task(task):  # type: ignore[no-untyped-def]
    return task


def annotated_task(one: Task) -> str:
    return one.task_id or ""


def anything(**given: Any) -> dict[str, Any]:
    return given


@pytest.mark.parametrize(
    "function", [add, whole_task, annotated_task, anything, keeps_the_signature(add), Greeter().greet]
)
def test_ordinary_functions_cause_no_warning(function: Callable[..., Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        worker_task("checked")(function)


def test_the_decorator_without_a_name_says_how_it_is_written() -> None:
    with pytest.raises(TypeError, match="needs the name of a task type, as in @worker_task"):
        worker_task()


# -- the task definition


def test_retries_and_timeout_of_the_decorator_are_registered_u2_21() -> None:
    worker_task("checked", retries=4, retry_delay_s=5, backoff="exponential", timeout_s=60)(add)
    worker = registry.list_workers()[-1]
    assert worker.register_task_def is True
    assert worker.task_def is not None
    assert worker.task_def.to_dict() == {
        "name": "",
        "retryCount": 4,
        "retryDelaySeconds": 5,
        "retryLogic": "EXPONENTIAL_BACKOFF",
        "timeoutSeconds": 60,
        "timeoutPolicy": "RETRY",
        "responseTimeoutSeconds": 60,
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"retries": -1}, "retries must be a whole number of at least 0, got -1"),
        ({"timeout_s": 0}, "timeout_s must be a whole number of at least 1, got 0"),
        ({"backoff": "EXPONENTIAL"}, "backoff must be one of 'fixed', 'linear', 'exponential', got 'EXPONENTIAL'"),
        ({"retries": 1, "task_def": TaskDef()}, "takes either task_def, or retries"),
        ({"retries": 1, "register_task_def": False}, "leave out register_task_def=False"),
        ({"task_def": TaskDef(retry_logic="EXPONENTIAL")}, "task_def.retry_logic.*did you mean 'EXPONENTIAL_BACKOFF'"),
        ({"task_def": TaskDef(retry_count=-3)}, "task_def.retry_count must be 0 or more, got -3"),
    ],
)
def test_impossible_definitions_are_refused_when_the_function_is_decorated(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        worker_task("checked", **options)(add)


def test_a_failure_because_of_a_missing_input_is_not_retried_u1_6() -> None:
    def shout(name: str) -> str:
        return name.upper()

    result = Worker("shout", shout).execute(Task(task_id="t", task_def_name="shout", input_data={"nam": "Ada"}))
    assert result.status == "FAILED_WITH_TERMINAL_ERROR"
    assert "missing input: 'name' was not given" in (result.reason_for_incompletion or "")


def test_worker_processes_do_not_repeat_the_warnings_of_the_main_process(tmp_path: Path) -> None:
    """Each process imports the module of its worker, and a person needs each warning once."""
    (tmp_path / "shared_list.py").write_text(
        "from conductor import worker_task\n@worker_task('a')\ndef a(x: list = []): ...\n"
    )
    program = (
        "import importlib, multiprocessing\n"
        "if __name__ == '__main__':\n"
        "    import shared_list\n"
        "    spawn = multiprocessing.get_context('spawn')\n"
        "    child = spawn.Process(target=importlib.import_module, args=('shared_list',))\n"
        "    child.start(); child.join()\n"
    )
    (tmp_path / "program.py").write_text(program)
    run = subprocess.run([sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert run.stderr.count("mutable default") == 1, run.stderr


def test_a_function_that_is_decorated_twice_is_named_u4_33() -> None:
    once = worker_task("first_type")(add)
    with pytest.warns(WorkerWarning, match="worker 'second_type': add is already the worker of 'first_type'.*one"):
        worker_task("second_type")(once)
