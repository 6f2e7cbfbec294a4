"""Injected parameters: declared, refused, created, cleaned up, and replaced in tests."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Annotated, Any

import pytest

from conductor import DependencyError, Depends, StartError, Task, Worker, override_dependency, worker_task
from conductor.client.automator.json_schema_generator import generate_json_schemas
from conductor.client.worker.resources import Resources
from conductor.client.worker.signature import read_signature
from conductor.client.worker.worker import make_call
from conductor.client.workflow.authoring import workflow
from conductor.client.workflow.authoring_errors import WorkflowError

#: Events in order.
happened: list[str] = []


@pytest.fixture(autouse=True)
def _empty_log() -> None:
    happened.clear()


class Db:
    def __init__(self, name: str = "real") -> None:
        self.name = name


async def get_db() -> AsyncIterator[Db]:
    happened.append("db up")
    try:
        yield Db()
    finally:
        happened.append("db down")


def get_session(db: Annotated[Db, Depends(get_db)]) -> Iterator[str]:
    happened.append("session up")
    try:
        yield f"session of {db.name}"
    except ValueError:
        happened.append("rolled back")
    finally:
        happened.append("session down")


async def get_user() -> str:
    await asyncio.sleep(0)
    return "ada"


Session = Annotated[str, Depends(get_session, scope="task")]


def sync_work(number: int, session: Session, user: Annotated[str, Depends(get_user, scope="task")]) -> dict[str, Any]:
    happened.append(f"work {number}")
    if number < 0:
        raise ValueError("negative")
    return {"session": session, "user": user, "thread": threading.get_ident()}


async def async_work(
    number: int, session: Session, user: Annotated[str, Depends(get_user, scope="task")]
) -> dict[str, Any]:
    return sync_work(number, session, user)


def task_of(**inputs: Any) -> Task:
    return Task(task_id="t", task_def_name="work", input_data=inputs)


async def called(function: Callable[..., Any], *tasks: Task) -> list[Any]:
    """Run tasks through the function in one process, as a worker would. Return the results."""
    answers = []
    async with Resources(functions=[function]) as resources:
        call = make_call(Worker("work", function), resources=resources)
        for task in tasks:
            answers.append(
                await (call(task) if inspect.iscoroutinefunction(function) else asyncio.to_thread(call, task))
            )
    return answers


BOTH = pytest.mark.parametrize("function", [sync_work, async_work])


class TestScopes:
    @BOTH
    async def test_a_value_of_the_process_is_made_once_and_one_of_the_task_each_time(
        self, function: Callable[..., Any]
    ) -> None:
        answers = await called(function, task_of(number=1), task_of(number=2))
        assert [(answer["session"], answer["user"]) for answer in answers] == [("session of real", "ada")] * 2
        one = ["session up", "work 1", "session down"]
        assert happened == ["db up", *one, "session up", "work 2", "session down", "db down"]

    @BOTH
    async def test_a_task_failure_reaches_the_provider_and_cannot_be_hidden(self, function: Callable[..., Any]) -> None:
        with pytest.raises(ValueError, match="negative"):
            await called(function, task_of(number=-1))
        assert happened == ["db up", "session up", "work -1", "rolled back", "session down", "db down"]

    async def test_a_value_is_shared_by_all_who_ask_for_it_in_one_task(self) -> None:
        def connection() -> object:
            return object()

        def first(it: Annotated[object, Depends(connection, scope="task")]) -> object:
            return it

        def work(
            a: Annotated[object, Depends(first, scope="task")], b: Annotated[object, Depends(connection, scope="task")]
        ) -> dict[str, Any]:
            return {"same": a is b, "id": a}

        answers = await called(work, task_of(), task_of())
        assert [answer["same"] for answer in answers] == [True, True]
        assert answers[0]["id"] is not answers[1]["id"]

    @pytest.mark.parametrize("decorate", [contextmanager, lambda function: function])
    async def test_context_managers_and_classes_provide_too(self, decorate: Any) -> None:
        def one() -> Iterator[str]:
            yield "given"
            happened.append("left")

        get_name = decorate(one)

        def work(db: Annotated[Db, Depends(Db)], name: Annotated[str, Depends(get_name)]) -> str:
            return f"{db.name} {name}"

        assert await called(work, task_of()) == ["real given"]
        assert happened == ["left"]

    async def test_an_async_context_manager_provides_too(self) -> None:
        @asynccontextmanager
        async def get_name() -> AsyncIterator[str]:
            yield "given"
            happened.append("left")

        async def work(name: Annotated[str, Depends(get_name)]) -> str:
            return name

        assert await called(work, task_of()) == ["given"]
        assert happened == ["left"]


class TestAnInjectedParameterIsNoInput:
    def test_an_injected_parameter_is_not_in_the_schema(self) -> None:
        schema = generate_json_schemas(sync_work, "work", strict_schema=True)["input"]
        assert schema is not None
        assert list(schema["properties"]) == schema["required"] == ["number"]

    def test_an_injected_parameter_is_not_taken_from_the_input(self) -> None:
        def work(name: Annotated[str, Depends(lambda: "given")], **rest: Any) -> dict[str, Any]:
            return {"name": name, "rest": rest}

        result = Worker("work", work).execute(task_of(name="forged", more=1))
        assert result.output_data == {"name": "given", "rest": {"more": 1}}

    def test_strict_input_refuses_it(self) -> None:
        def work(name: Annotated[str, Depends(lambda: "given")]) -> str:
            return name

        result = Worker("work", work, strict_schema=True).execute(task_of(name="forged"))
        assert result.status == "FAILED_WITH_TERMINAL_ERROR"

    def test_an_injected_parameter_is_not_reported_as_missing_input(self, caplog: pytest.LogCaptureFixture) -> None:
        assert Worker("work", sync_work).execute(task_of(number=1)).status == "COMPLETED"
        assert "came without" not in caplog.text

    def test_the_task_is_still_found_beside_it(self) -> None:
        def work(task, name: Annotated[str, Depends(lambda: "given")]):  # type: ignore[no-untyped-def]
            return {"id": task.task_id, "name": name}

        assert Worker("work", work).execute(task_of()).output_data == {"id": "t", "name": "given"}

    def test_an_injected_parameter_is_no_parameter_of_a_step(self) -> None:
        step: Any = worker_task("work")(sync_work)
        with workflow("flow") as flow:
            step(7)
            with pytest.raises(WorkflowError, match="user"):
                step(number=1, user="ada")
        assert flow.to_workflow_def().tasks[0].input_parameters == {"number": 7}


class TestRefused:
    def test_an_unknown_scope_is_refused(self) -> None:
        with pytest.raises(DependencyError, match=r"Depends\(get_user, scope='request'\): the scope is 'process' or"):
            Depends(get_user, scope="request")  # type: ignore[arg-type]

    def test_a_provider_that_provides_nothing_is_refused(self) -> None:
        with pytest.raises(DependencyError, match="needs a function"):
            Depends("get_user")  # type: ignore[arg-type]

    def test_a_circle_by_its_names(self) -> None:
        with pytest.raises(DependencyError, match="ring_a → ring_b → ring_a"):
            make_call(Worker("work", in_a_ring))

    def test_a_process_that_needs_a_task(self) -> None:
        def model(session: Session) -> str:
            return session

        def work(it: Annotated[str, Depends(model)]) -> None: ...

        with pytest.raises(DependencyError, match=r"model is created once per process and cannot use get_session"):
            make_call(Worker("work", work))

    def test_a_parameter_that_nobody_fills(self) -> None:
        def connect(url: str) -> str:
            return url

        def work(it: Annotated[str, Depends(connect)]) -> None: ...

        with pytest.raises(DependencyError, match="parameter .url. of .*connect has no value"):
            make_call(Worker("work", work))

    @pytest.mark.parametrize(
        ("annotation", "words"),
        [
            ("Annotated[str, Depends]", "has Depends without a provider"),
            ("Annotated[str, Depends(get_user), Depends(get_db)]", "2 providers: get_user and get_db"),
            ("Annotated[str, Depends(gone)]", "cannot be resolved"),
        ],
    )
    def test_a_malformed_dependency_is_refused(self, annotation: str, words: str) -> None:
        def work(it: str) -> None: ...

        work.__annotations__["it"] = annotation
        with pytest.raises(DependencyError, match=words):
            read_signature(work)

    def test_a_default_in_place_of_an_annotation(self) -> None:
        def work(it: str = Depends(get_user)) -> None: ...  # type: ignore[assignment]

        with pytest.raises(DependencyError, match=r"write Annotated\["):
            read_signature(work)


def ring_a(b: Annotated[str, Depends(ring_b)]) -> str:
    return b


def ring_b(a: Annotated[str, Depends(ring_a)]) -> str:
    return a


def in_a_ring(a: Annotated[str, Depends(ring_a)]) -> str:
    return a


class TestOverride:
    def test_an_override_holds_inside_of_the_block_and_also_deeper_down(self) -> None:
        worker = Worker("work", sync_work)
        with override_dependency(get_db, lambda: Db("fake")), override_dependency(get_user, lambda: "bob"):
            output = worker.execute(task_of(number=1)).output_data
            assert (output["session"], output["user"]) == ("session of fake", "bob")
            with override_dependency(get_user, lambda: "eve"):
                assert worker.execute(task_of(number=1)).output_data["user"] == "eve"
            assert worker.execute(task_of(number=1)).output_data["user"] == "bob"
        assert worker.execute(task_of(number=1)).output_data["user"] == "ada"


class TestSetUp:
    async def test_a_failed_set_up_is_a_start_error_and_earlier_resources_are_closed(self) -> None:
        def broken() -> str:
            raise OSError("no such host")

        def work(db: Annotated[Db, Depends(get_db)], it: Annotated[str, Depends(broken)]) -> None: ...

        with pytest.raises(StartError, match=r"broken of module .* could not be set up: OSError: no such host"):
            async with Resources(functions=[work]):
                pytest.fail("it was not set up")
        assert happened == ["db up", "db down"]

    async def test_a_failed_clean_up_does_not_affect_other_resources(self, caplog: pytest.LogCaptureFixture) -> None:
        def bad() -> Iterator[str]:
            yield "bad"
            raise OSError("cannot close")

        def work(db: Annotated[Db, Depends(get_db)], it: Annotated[str, Depends(bad)]) -> None: ...

        async with Resources(functions=[work]):
            pass
        assert happened == ["db up", "db down"]
        assert "Resource could not be cleaned up" in caplog.text
