"""Durable steps on a coordinator: what is recorded, what a replay skips, and what a failure leaves."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import itertools
import json
import re
import subprocess
import sys
import threading
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from urllib.request import urlopen

import pytest

from conductor import durable
from conductor.client.automator.polled_tasks import Grant
from conductor.client.automator.running_task import RunningTask
from conductor.client.automator.session import Session
from conductor.client.automator.step_recorder import StepRecorder
from conductor.client.automator.task_handler_asyncio import TaskHandlerAsyncIO
from conductor.client.configuration.configuration import Configuration
from conductor.client.context.task_context import TaskContext
from conductor.client.http.models.task import Task
from conductor.client.http.models.task_def import TaskDef
from conductor.client.worker.exception import NonRetryableException
from conductor.client.worker.worker import Worker
from conductor.client.worker.worker_config import resolve_worker_config
from conductor.client.workflow import ConductorWorkflow
from conductor.client.workflow.task.simple_task import SimpleTask
from conductor.durable import DurableError, ReplayMismatch
from conductor.durable import run as durable_run
from conductor.durable import sync as blocking
from conductor.protocol.steps import Step, StepKind, StepState
from conductor.testing import ConductorStub
from conductor.testing.fake_clock import FakeClock
from conductor.testing.replay import MemorySteps, run_to_end

RETRIES = TaskDef(retry_count=3, retry_delay_seconds=0)


def one_task(name: str = "program") -> ConductorWorkflow:
    return ConductorWorkflow(None, "w") >> SimpleTask(name, "p")


def worker(function: Any, task_def: TaskDef = RETRIES, name: str = "program") -> Worker:
    return Worker(name, function, task_def=task_def)


class Calls(list[Any]):
    """Functions that record their calls."""

    def note(self, value: Any) -> Any:
        self.append(value)
        return value

    async def note_async(self, value: Any) -> Any:
        return self.note(value)


@dataclass
class Account:
    number: int
    owner: str


class Declined(Exception):
    def __init__(self, card: str, *, code: int) -> None:
        super().__init__(f"{card} declined")
        self.code = code


def test_a_retry_replays_the_steps_of_the_attempts_before_it(run_workflow: Any) -> None:
    calls, attempts = Calls(), Calls()

    async def program() -> dict[str, Any]:
        attempts.note(1)
        first = await durable.step(calls.note, "a", name="first")
        second = await durable.step(calls.note_async, "b", name="second")
        third = await durable.step(calls.note, "c", name="second")
        if len(attempts) < 3:
            raise RuntimeError("try again")
        return {"all": [first, second, third]}

    run = run_workflow(one_task(), workers=[worker(program)])
    assert run.output == {"all": ["a", "b", "c"]}
    assert (calls, len(attempts)) == (["a", "b", "c"], 3)


def test_a_def_replays_too_and_results_have_their_types(run_workflow: Any) -> None:
    calls, attempts, threads = Calls(), Calls(), set()

    def open_account(owner: str) -> Account:
        threads.add(threading.current_thread())
        return Account(calls.note(7), owner)

    def program() -> dict[str, Any]:
        threads.add(threading.current_thread())
        account = blocking.step(open_account, "Ada")
        assert isinstance(account, Account)
        if len(attempts.note(attempts) or attempts) < 2:
            raise RuntimeError("try again")
        return {"owner": account.owner, "number": account.number}

    run = run_workflow(one_task(), workers=[worker(program)])
    assert run.output == {"owner": "Ada", "number": 7}
    assert calls == [7]
    assert len(threads) <= 2  # the step runs on the thread of its program


def test_an_exception_that_the_program_catches_is_recorded(run_workflow: Any) -> None:
    calls, codes = Calls(), Calls()

    def charge(card: str) -> None:
        calls.note(card)
        raise Declined(card, code=51)

    async def program() -> dict[str, Any]:
        try:
            await durable.step(charge, "visa")
        except Declined as error:
            codes.note((error.code, str(error)))
            await durable.step(calls.note, "invoice", name="invoice")
        if len(codes) < 2:
            raise RuntimeError("try again")
        return {}

    run_workflow(one_task(), workers=[worker(program)]).output  # noqa: B018
    assert calls == ["visa", "invoice"]
    assert codes == [(51, "visa declined")] * 2


def test_a_step_whose_iterator_is_empty_fails_instead_of_waiting_forever(run_workflow: Any) -> None:
    async def program() -> dict[str, Any]:
        await durable.step(next, iter([]), name="first")
        return {}

    def blocking_program() -> dict[str, Any]:
        blocking.step(next, iter([]), name="first")
        return {}

    for function in (program, blocking_program):
        run = run_workflow(one_task(), workers=[worker(function, TaskDef(retry_count=0))])
        (task,) = run.execution.tasks
        assert (task.status, "raised StopIteration" in task.reason_for_incompletion) == ("FAILED", True)


def test_a_caught_error_in_the_result_of_a_step_is_recorded(run_workflow: Any) -> None:
    calls = Calls()

    def charge() -> object:
        calls.note("charge")
        return object()

    async def program() -> dict[str, Any]:
        try:
            await durable.step(charge)
        except NonRetryableException:
            await durable.step(calls.note, "invoice", name="invoice")
        await durable.sleep(days=1)
        return {}

    run = run_workflow(one_task(), workers=[worker(program)])
    assert run.skip(days=1).status == "COMPLETED"
    assert calls == ["charge", "invoice"]


def test_a_caught_refusal_of_a_record_is_recorded(run_workflow: Any) -> None:
    calls = Calls()

    def load(name: str) -> str:
        return str(calls.note(name)) * 1_000_000

    async def program() -> dict[str, Any]:
        for number in range(10):
            await durable.step(load, str(number), name=f"part-{number}")
        try:
            await durable.step(load, "x", name="too-much")
        except durable.StepTooLarge:
            await durable.step(calls.note, "invoice", name="invoice")
        await durable.sleep(days=1)
        return {}

    run = run_workflow(one_task(), workers=[worker(program)])
    assert run.skip(days=1).status == "COMPLETED"
    assert calls == [*map(str, range(10)), "x", "invoice"]


class Killed(BaseException):
    """An exception that `except Exception` does not catch."""


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError, Killed])
def test_a_step_that_raises_no_exception_class_fails_and_its_failure_is_recorded(
    run_workflow: Any, error: type[BaseException]
) -> None:
    calls, names = Calls(), Calls()

    def charge() -> None:
        calls.note("charge")
        raise error("boom")

    async def charge_async() -> None:
        charge()

    async def program() -> dict[str, Any]:
        for number, function in enumerate((charge, charge_async)):
            found = await asyncio.gather(
                durable.step(function, name=f"charge-{number}"),
                durable.step(calls.note, "other", name=f"other-{number}"),
                return_exceptions=True,
            )
            names.note(str(found[0]))
        await durable.sleep(days=1)
        return {}

    def blocking_program() -> dict[str, Any]:
        for number, function in enumerate((charge, charge_async)):
            try:
                blocking.step(function, name=f"charge-{number}")
            except durable.StepFailed as failure:
                names.note(str(failure))
        blocking.sleep(days=1)
        return {}

    for function in (program, blocking_program):
        calls.clear()
        names.clear()
        run = run_workflow(one_task(), workers=[worker(function)])
        assert run.skip(days=1).status == "COMPLETED"
        assert calls.count("charge") == 2
        texts = [f"step charge-{number} failed: {error.__module__}:{error.__qualname__}: boom" for number in (0, 1)]
        assert names == texts * 2


def test_a_step_that_the_program_has_cancelled_does_not_run_again(run_workflow: Any) -> None:
    calls, begun = Calls(), asyncio.Event()

    async def charge() -> None:
        calls.note("charge")
        begun.set()
        await asyncio.sleep(60)

    async def charge_later() -> None:
        await durable.sleep(hours=1, name="before-charge")
        await durable.step(charge)

    async def fail_later() -> None:
        await durable.sleep(hours=1, name="before-failure")
        await begun.wait()
        raise RuntimeError("too late")

    async def program() -> dict[str, Any]:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(fail_later())
                group.create_task(charge_later())
        except* RuntimeError:
            await durable.step(calls.note, "invoice", name="invoice")
        await durable.sleep(days=1)
        return {}

    run = run_workflow(one_task(), workers=[worker(program)])
    assert run.skip(hours=1).skip(days=1).output == {}
    assert calls == ["charge", "invoice"]


def test_a_cancelled_step_runs_again_if_the_failure_that_cancelled_it_is_forgotten(run_workflow: Any) -> None:
    calls, begun = Calls(), asyncio.Event()

    async def load() -> None:
        if calls.note("load") and calls.count("load") == 1:
            await begun.wait()
            raise RuntimeError("try again")

    async def charge() -> str:
        begun.set()
        if calls.note("charge") and calls.count("charge") == 1:
            await asyncio.sleep(60)
        return "charged"

    async def program() -> dict[str, Any]:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(durable.step(load))
                charged = group.create_task(durable.step(charge))
        except* RuntimeError:
            await durable.step(calls.note, "clean up", name="clean-up")
            raise
        return {"charge": charged.result()}

    run = run_workflow(one_task(), workers=[worker(program)])
    assert run.output == {"charge": "charged"}
    assert sorted(calls) == ["charge", "charge", "clean up", "load", "load"]


def test_a_step_that_is_cancelled_while_it_is_recorded_does_not_run_again_and_is_cancelled_again() -> None:
    class SlowSteps(MemorySteps):
        async def record(self, steps: list[Any]) -> None:
            await asyncio.sleep(0.2)
            await super().record(steps)

    calls, attempts = Calls(), Calls()

    async def charge_and_ship() -> None:
        await durable.step(calls.note_async, "charge", name="charge")
        await durable.step(calls.note_async, "ship", name="ship")

    async def program() -> int:
        branch = asyncio.create_task(charge_and_ship())
        await asyncio.wait([branch], timeout=0.05)
        branch.cancel()
        await asyncio.wait([branch])
        assert branch.cancelled()
        await durable.step(calls.note, "invoice", name="invoice")
        if len(attempts.note(1) and attempts) == 1:
            await durable.sleep(days=1)
        return len(attempts)

    assert asyncio.run(run_to_end(program, SlowSteps())) == 2
    assert calls == ["charge", "invoice"]


def test_a_sleep_beside_a_step_does_not_end_before_its_due_time_is_stored() -> None:
    calls, woken = Calls(), asyncio.Event()

    class SlowSteps(MemorySteps):
        async def record(self, steps: list[Any]) -> None:
            for _ in range(1000):  # much longer than the sleep, and the event loop runs
                await asyncio.sleep(0.0001)
            await super().record(steps)
            calls.extend(f"stored {step.name}" for step in steps)

    async def nap() -> None:
        await durable.sleep(0.001)
        calls.note("woken")
        woken.set()

    async def program() -> None:
        await asyncio.gather(durable.step(woken.wait, name="other"), nap())

    asyncio.run(run_to_end(program, SlowSteps()))
    assert calls == ["stored sleep", "woken", "stored other"]


def test_a_wait_that_the_program_has_cancelled_is_cancelled_again(run_workflow: Any, coordinator: Any) -> None:
    calls = Calls()

    def refuse() -> None:
        raise ValueError

    async def charge_later(wait: Any) -> None:
        await wait
        await durable.step(calls.note, "charge", name="charge")

    async def program() -> dict[str, Any]:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(durable.step(refuse))
                group.create_task(charge_later(durable.sleep(days=1)))
                group.create_task(charge_later(durable.wait_for("approval")))
        except* ValueError:
            await durable.step(calls.note, "invoice", name="invoice")
        await durable.sleep(days=2, name="long")
        answer = await durable.wait_for("approval")
        return {"by": answer and answer["by"]}

    run = run_workflow(one_task(), workers=[worker(program)])
    with urlopen(f"{coordinator.url}/view/workflow/{run.workflow_id}") as answer:
        waits = {step["name"]: step.get("waits") for step in json.load(answer)["tasks"][0]["steps"]}
    assert waits["sleep"] == waits["approval"] == "was cancelled by the function"
    assert run.skip(days=1).send("approval", by="Ada").skip(days=1).output == {"by": "Ada"}
    assert calls == ["invoice"]


def test_a_replay_begins_no_step_that_another_branch_had_prevented() -> None:
    calls, attempts, reached = Calls(), Calls(), asyncio.Event()

    def refuse() -> None:
        raise ValueError

    async def charge() -> None:
        await durable.step(str, 1, name="before-charge")
        if len(attempts) == 1:
            reached.set()
            await asyncio.Event().wait()  # until the failure of the other branch cancels this one
        await durable.step(calls.note, "charge", name="charge")

    async def fail() -> None:
        await durable.step(str, 1, name="before-failure")
        await reached.wait()
        await durable.step(refuse)

    async def program() -> int:
        attempts.note(1)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(charge())
                group.create_task(fail())
        except* ValueError:
            await durable.step(calls.note, "invoice", name="invoice")
        await durable.sleep(days=1)
        return len(attempts)

    assert asyncio.run(run_to_end(program, MemorySteps())) == 2
    assert calls == ["invoice"]


def test_failures_of_nested_groups_are_replayed_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durable_run, "MAX_CANCELLATION_DELAY_S", 1.0)
    calls, begun = Calls(), asyncio.Event()

    def refuse() -> None:
        raise ValueError

    async def charge() -> None:
        calls.note("charge")
        begun.set()
        await asyncio.sleep(60)

    async def inner() -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(durable.sleep(days=9))
                group.create_task(durable.step(refuse, name="refuse-inner"))
        except* ValueError:
            await durable.step(calls.note, "compensate", name="compensate")
        await durable.step(charge)

    async def fail_later() -> None:
        await begun.wait()
        await durable.step(refuse, name="refuse-outer")

    async def program() -> str:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(inner())
                group.create_task(fail_later())
        except* ValueError:
            await durable.step(calls.note, "invoice", name="invoice")
        await durable.sleep(days=1, name="long")
        return "done"

    assert asyncio.run(run_to_end(program, MemorySteps())) == "done"
    assert calls == ["compensate", "charge", "invoice"]


def test_failures_at_the_same_time_are_replayed_as_in_the_first_attempt() -> None:
    paid = Calls()

    async def program() -> list[str]:
        running, both_run = itertools.count(1), asyncio.Event()

        async def fail() -> None:
            if next(running) == 2:
                asyncio.get_running_loop().call_soon(both_run.set)
            await both_run.wait()
            raise ValueError

        async def catch() -> None:
            try:
                await durable.step(fail, name="caught")
            except ValueError:
                caught.append("caught")
            await durable.sleep(days=1)

        caught: list[str] = []
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_run(durable.step(fail, name="first")))
                group.create_task(catch())
        except* ValueError:
            await durable.step(paid.note, caught, name="refund")
        await durable.sleep(days=1, name="end")
        return caught

    assert [asyncio.run(run_to_end(program, MemorySteps()))] == paid


def test_a_message_that_a_cancelled_wait_has_received_goes_to_the_next_wait(run_workflow: Any) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def refuse() -> None:
        begun.set()
        go_on.wait(20)
        raise ValueError

    async def program() -> dict[str, Any]:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(durable.wait_for("approval"))
                group.create_task(durable.step(refuse))
        except* ValueError:
            await durable.step(str, 1, name="invoice")
        answer = await durable.wait_for("approval")
        return {"by": answer and answer["by"]}

    def approve() -> None:
        begun.wait(20)
        (found,) = client.search(query="workflowType = 'w'").results
        client.send_message(found.workflow_id, {"name": "approval", "by": "Ada"})
        go_on.set()

    client = run_workflow._client
    thread = threading.Thread(target=approve)
    thread.start()
    run = run_workflow(one_task(), workers=[worker(program)])
    thread.join()
    assert run.output == {"by": "Ada"}


def test_a_replay_that_does_not_cancel_a_cancelled_step_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durable_run, "MAX_CANCELLATION_DELAY_S", 0.0)
    attempts, store = Calls(), MemorySteps()

    async def charge() -> None:
        await asyncio.sleep(60)

    async def program() -> None:
        branch = asyncio.create_task(durable.step(charge))
        await asyncio.sleep(0.01)
        if len(attempts.note(1) and attempts) > 1:
            await branch
        branch.cancel()
        await asyncio.wait([branch])
        await durable.step(str, 1, name="after")
        raise RuntimeError("try again")

    with pytest.raises(RuntimeError):
        asyncio.run(run_to_end(program, store))
    with pytest.raises(ReplayMismatch, match="step charge was cancelled by the program in an earlier attempt"):
        asyncio.run(run_to_end(program, store))


def test_an_exception_that_ends_the_attempt_is_not_recorded(run_workflow: Any) -> None:
    calls = Calls()

    async def flaky(name: str) -> str:
        if calls.note(name) and calls.count(name) < 2:
            raise RuntimeError(name)
        return name

    async def slow(name: str) -> str:
        await asyncio.sleep(0.01)
        return await flaky(name)

    async def program() -> dict[str, Any]:
        async with asyncio.TaskGroup() as group:
            group.create_task(durable.step(flaky, "a", name="a"))
            group.create_task(durable.step(slow, "b", name="b"))
        return {"calls": len(calls)}

    run = run_workflow(one_task(), workers=[worker(program)])
    assert run.status == "COMPLETED"


def test_retries_inside_a_step(run_workflow: Any) -> None:
    calls = Calls()

    def flaky() -> int:
        if len(calls.note(1) and calls) < 3:
            raise RuntimeError("again")
        return len(calls)

    async def program() -> dict[str, Any]:
        return {"tries": await durable.step(flaky, retries=2, retry_delay_s=0)}

    assert run_workflow(one_task(), workers=[worker(program)]).output == {"tries": 3}


def test_parallel_steps_of_one_name_are_an_error(run_workflow: Any) -> None:
    calls = Calls()

    async def program() -> dict[str, Any]:
        await asyncio.gather(durable.step(calls.note_async, 1), durable.step(calls.note_async, 2))
        return {}

    run = run_workflow(one_task(), workers=[worker(program)])
    assert run.status == "FAILED"
    (task,) = run.execution.tasks
    assert task.status == "FAILED_WITH_TERMINAL_ERROR"
    assert "two steps named 'note_async' run at the same time" in task.reason_for_incompletion
    assert "name=" in task.reason_for_incompletion


def test_a_name_that_would_record_a_cancellation_is_an_error(run_workflow: Any) -> None:
    async def program() -> dict[str, Any]:
        await durable.step(Calls().note_async, 1, name="cancelled order")
        return {"order": await durable.wait_for("order", timeout_s=3600)}

    (task,) = run_workflow(one_task(), workers=[worker(program)]).execution.tasks
    assert task.status == "FAILED_WITH_TERMINAL_ERROR"
    assert "a step cannot be named 'cancelled order'" in task.reason_for_incompletion


@pytest.mark.parametrize("is_sync", [True, False])
def test_the_result_of_a_call_in_place_of_a_function_is_an_error(is_sync: bool) -> None:
    calls = Calls()
    wrong: Any = calls.note(1) if is_sync else calls.note_async(1)
    with pytest.raises(DurableError, match="step takes a function and its arguments, as in step.*not the result of a"):
        durable.step(wrong)  # type: ignore[unused-coroutine]


@pytest.mark.parametrize("options", [{"seconds": "1h"}, {"hours": "1"}, {"seconds": timedelta(hours=1)}])
def test_a_sleep_of_something_else_than_a_number_is_an_error(options: Any) -> None:
    wrong = re.escape(repr(next(iter(options.values()))))
    with pytest.raises(DurableError, match=rf"sleep takes numbers, as in sleep\(hours=1\); got {wrong}"):
        durable.sleep(**options)  # type: ignore[unused-coroutine]


def test_operations_that_are_not_awaited_are_named(run_workflow: Any, caplog: pytest.LogCaptureFixture) -> None:
    calls = Calls()

    async def program() -> dict[str, Any]:
        with pytest.warns(RuntimeWarning, match=r"coroutine 'durable.step\(note\)' was never awaited"):
            durable.step(calls.note, 1)  # type: ignore[unused-coroutine]
            gc.collect()
        await durable.step(calls.note_async, 2)
        return {}

    run_workflow(one_task(), workers=[worker(program)])
    assert calls == [2]
    (text,) = [message for message in caplog.messages if message.startswith("The function did not await")]
    assert "write `await` before them: step(note) (task_type=program" in text


def test_a_changed_program_is_an_error_that_names_the_step(run_workflow: Any) -> None:
    attempts, calls = Calls(), Calls()

    async def program() -> dict[str, Any]:
        await durable.step(calls.note, f"attempt {len(attempts.note(1) and attempts)}", name="first")
        raise RuntimeError("try again")

    run = run_workflow(one_task(), workers=[worker(program)])
    last = run.execution.tasks[-1]
    assert last.status == "FAILED_WITH_TERMINAL_ERROR"
    assert "step first does not match its record" in last.reason_for_incompletion
    assert "durable.version" in last.reason_for_incompletion
    assert len(run.execution.tasks) == 2


def test_version_tells_old_runs_from_new_ones(run_workflow: Any) -> None:
    attempts = Calls()

    async def program() -> dict[str, Any]:
        attempt = len(attempts.note(1) and attempts)
        await durable.step(attempts.note_async, "first", name="first") if attempt < 0 else None
        is_changed = True if attempt == 1 else None
        if attempt > 1:
            is_changed = await durable.version("fix-7")
        await durable.step(str, "x", name="after")
        if attempt < 4:
            raise RuntimeError("try again")
        return {"old": is_changed, "new": await durable.version("fix-8")}

    assert run_workflow(one_task(), workers=[worker(program)]).output == {"old": False, "new": True}


def test_version_is_true_in_a_branch_although_other_branches_replay(run_workflow: Any) -> None:
    found = Calls()

    async def ship() -> None:
        await durable.sleep(hours=1, name="ship")
        found.note(await durable.version("fix-7"))

    async def program() -> dict[str, Any]:
        await asyncio.gather(ship(), durable.sleep(days=1, name="bill"))
        return {}

    run = run_workflow(one_task(), workers=[worker(program)])
    assert run.skip(hours=1).skip(days=1).status == "COMPLETED"
    assert found == [True, True]


def test_any_callable_can_be_a_step(run_workflow: Any) -> None:
    class Unhashable:
        __hash__ = None  # type: ignore[assignment]

        def __init__(self) -> None:
            self.calls = 0

        def __call__(self, number: int) -> int:
            self.calls += 1
            return 2 * number

    class AsyncUnhashable(Unhashable):
        async def __call__(self, number: int) -> int:  # type: ignore[override]
            return super().__call__(number)

    attempts, plain, coroutine = Calls(), Unhashable(), AsyncUnhashable()

    async def program() -> dict[str, Any]:
        found = [
            await durable.step(plain, 1, name="plain"),
            await durable.step(coroutine, 2, name="coroutine"),
            await durable.step(functools.partial(plain, 3), name="partial"),
            await durable.step(functools.partial(coroutine, number=4), name="coroutine-partial"),
        ]
        if len(attempts.note(1) and attempts) < 2:
            raise RuntimeError("try again")
        return {"found": found}

    assert run_workflow(one_task(), workers=[worker(program)]).output == {"found": [2, 4, 6, 8]}
    assert (plain.calls, coroutine.calls) == (2, 2)


def test_outside_a_task_steps_are_plain_calls() -> None:
    calls = Calls()
    assert blocking.step(calls.note, 1) == 1
    assert blocking.version("x") is True
    assert 0 <= blocking.random() < 1
    blocking.sleep(days=9)
    assert blocking.wait_for("approval") is None

    async def program() -> list[Any]:
        return [await durable.step(calls.note, 2), await durable.step(calls.note_async, 3)]

    assert asyncio.run(program()) == [2, 3]


def test_a_sleep_holds_nothing_and_ends_on_time(run_workflow: Any) -> None:
    calls = Calls()

    async def program() -> dict[str, Any]:
        await durable.step(calls.note, "before", name="before")
        await durable.sleep(days=3)
        await durable.step(calls.note, "after", name="after")
        return {"calls": len(calls)}

    run = run_workflow(one_task(), workers=[worker(program)])
    assert (run.status, calls) == ("RUNNING", ["before"])
    run.skip(days=2)
    assert (run.status, calls) == ("RUNNING", ["before"])
    assert run.skip(days=1).output == {"calls": 2}


def test_parallel_branches_sleep_until_the_first_is_due(run_workflow: Any) -> None:
    calls = Calls()

    async def branch(name: str, days: int) -> None:
        await durable.sleep(days=days, name=f"sleep-{name}")
        await durable.step(calls.note, name, name=name)

    async def program() -> dict[str, Any]:
        async with asyncio.TaskGroup() as group:
            group.create_task(branch("a", 1))
            group.create_task(branch("b", 3))
        return {"calls": list(calls)}

    run = run_workflow(one_task(), workers=[worker(program)])
    assert calls == []
    run.skip(days=1)
    assert (run.status, calls) == ("RUNNING", ["a"])
    assert run.skip(days=2).output == {"calls": ["a", "b"]}


def test_a_replayed_sleep_ends_on_time_although_another_branch_runs_a_step(run_workflow: Any) -> None:
    calls, woken = Calls(), asyncio.Event()

    async def wait_for_the_sleeper() -> None:
        await asyncio.wait_for(woken.wait(), 20)

    async def sleep() -> None:
        await durable.sleep(hours=1, minutes=0.001, name="long")
        woken.set()

    async def work() -> None:
        await durable.sleep(hours=1, name="short")
        calls.note("woken")
        await durable.step(wait_for_the_sleeper)

    async def program() -> dict[str, Any]:
        await asyncio.gather(sleep(), work())
        return {"calls": list(calls)}

    run = run_workflow(one_task(), workers=[worker(program)])
    assert run.skip(hours=1).output == {"calls": ["woken"]}


def register_child(conductor_clients: Any, name: str, task: str) -> None:
    child = ConductorWorkflow(None, name) >> SimpleTask(task, "t").input_parameter("n", "${workflow.input.n}")
    conductor_clients.get_metadata_client().register_workflow_def(child.to_workflow_def(), overwrite=True)


def test_the_rest_of_a_sleep_begins_when_the_task_arrives_and_not_at_the_first_step() -> None:
    clock = FakeClock()
    task = Task(task_id="t", steps=[Step(name="sleep", kind=StepKind.SLEEP, state=StepState.WAITING, wait_ms=3000)])
    config = resolve_worker_config("job", {"worker_id": "w"}, env={})
    running = RunningTask(Grant(task, 0.0), TaskContext(task, "w", None), config, clock.monotonic())
    recorder = StepRecorder(running, None, None, clock)  # type: ignore[arg-type]
    clock.advance(2.0)  # the function works before its first durable operation
    (sleep,) = asyncio.run(recorder.load())
    assert sleep.wait_ms == 1000


def test_a_program_waits_for_a_workflow_and_for_messages(run_workflow: Any, conductor_clients: Any) -> None:
    register_child(conductor_clients, "child", "child_task")
    calls = Calls()

    def child_task(n: int) -> dict[str, int]:
        calls.note(n)
        return {"twice": 2 * n}

    async def program() -> dict[str, Any]:
        child = await durable.call("child", {"n": 21})
        first = await durable.wait_for("approval")
        second = await durable.wait_for("approval", timeout_s=60)
        third = await durable.wait_for("approval", timeout_s=60)
        return {"child": child["twice"], "by": [first and first["by"], second and second["by"], third]}

    conductor_clients.get_metadata_client().register_task_def(TaskDef(name="child_task", retry_count=0))
    run = run_workflow(one_task(), workers=[worker(program), worker(child_task, name="child_task")])
    run.send("other", by="nobody")
    assert [(step.key, step.state) for step in run.steps("p")] == [("child", "DONE"), ("approval", "WAITING")]
    run.send("approval", by="Ada").send("approval", by="Grace")
    assert run.skip(seconds=30).status == "RUNNING"
    assert run.skip_sleeps().output == {"child": 42, "by": ["Ada", "Grace", None]}
    assert calls == [21]


def test_a_call_of_a_workflow_object_asks_for_its_name() -> None:
    with pytest.raises(TypeError, match="call takes the name of a workflow, not a ConductorWorkflow; pass its `name`"):
        durable.call(one_task())  # type: ignore[arg-type, unused-coroutine]


def test_a_failed_call_names_the_workflow_and_its_reason(run_workflow: Any, conductor_clients: Any) -> None:
    register_child(conductor_clients, "child", "child_task")
    conductor_clients.get_metadata_client().register_task_def(TaskDef(name="child_task", retry_count=0))

    def child_task(n: int) -> dict[str, int]:
        raise ValueError(f"no {n}")

    async def program() -> dict[str, Any]:
        failures = []
        for name in ("child", "nothing"):
            try:
                await durable.call(name, {"n": 21})
            except durable.CallFailed as error:
                failures.append((error.workflow_name, str(error)))
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_run(durable.call("child", name="again")))
                group.create_task(_run(durable.sleep(days=1)))
        except* durable.CallFailed as errors:
            failures += [(error.workflow_name, str(error)) for error in errors.exceptions]  # type: ignore[union-attr]
        return {"failures": failures}

    run = run_workflow(one_task(), workers=[worker(program), worker(child_task, name="child_task")])
    first, second, third = run.output["failures"]
    assert first[0] == "child"
    assert first[1].startswith("workflow child.1/")
    assert "no 21" in first[1]
    assert second[1].startswith("workflow nothing could not be started: No such workflow defined. name=nothing")
    assert third[0] == "child"


def test_a_call_whose_output_is_too_large_fails_with_the_name_of_the_step(
    run_workflow: Any, conductor_clients: Any
) -> None:
    register_child(conductor_clients, "child", "child_task")

    def child_task(n: int) -> dict[str, str]:
        return {"n": "x" * n}

    async def program() -> dict[str, Any]:
        try:
            return await durable.call("child", {"n": 1024 * 1024})
        except durable.CallFailed as error:
            return {"reason": error.reason}

    run = run_workflow(one_task(), workers=[worker(program), worker(child_task, name="child_task")])
    assert run.output["reason"].startswith("the result of step child has 1048")
    assert run.output["reason"].endswith("store large data elsewhere and return a reference to it")


async def _run(work: Any) -> Any:
    return await work


def test_a_wait_that_the_coordinator_rejects_fails_the_task_at_once(run_workflow: Any) -> None:
    async def program() -> dict[str, Any]:
        return await durable.call("child", version=-1)

    (task,) = run_workflow(one_task(), workers=[worker(program)]).execution.tasks
    assert task.status == "FAILED_WITH_TERMINAL_ERROR"
    assert "$.steps[0].version" in task.reason_for_incompletion


def test_the_views_show_the_steps_and_what_they_wait_for(run_workflow: Any, coordinator: Any) -> None:
    async def program() -> dict[str, Any]:
        await durable.step(len, "abc", name="measure")
        async with asyncio.TaskGroup() as group:
            group.create_task(_run(durable.sleep(hours=2)))
            group.create_task(_run(durable.wait_for("approval")))
        return {}

    run = run_workflow(one_task(), workers=[worker(program)])
    with urlopen(f"{coordinator.url}/view/workflow/{run.workflow_id}") as answer:
        details = json.load(answer)
    (task,) = details["tasks"]
    assert [(step["name"], step["state"], step.get("result")) for step in task["steps"]] == [
        ("measure", "DONE", "3"),
        ("sleep", "WAITING", None),
        ("approval", "WAITING", None),
    ]
    assert task["steps"][1]["waits"].startswith("sleeps until ")
    assert task["steps"][2]["waits"].startswith("waits for message approval since ")
    assert details["waiting"]["kind"] == "steps"
    assert details["waiting"]["sentence"].startswith("p sleeps until ")
    shown = subprocess.run(
        [sys.executable, "-m", "conductor.cli", "workflow", "show", run.workflow_id, "--url", coordinator.url],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout
    assert "p: 3 durable steps" in shown
    assert "measure" in shown
    assert "waits for message approval" in shown
    send = f"""conductor-worker workflow send {run.workflow_id} --message '{{"name": "approval"}}'"""
    assert send in shown.splitlines()


@pytest.mark.parametrize("is_async", [True, False])
def test_a_lease_that_is_lost_in_a_step_records_nothing(
    run_workflow: Any, conductor_clients: Any, is_async: bool
) -> None:
    calls, after = Calls(), Calls()
    task_client = conductor_clients.get_task_client()

    def lose_lease() -> int:
        if len(calls.note(1) and calls) == 1:
            task_client.requeue_pending_tasks("program")
        return len(calls)

    async def program() -> dict[str, Any]:
        number = await durable.step(lose_lease)
        return {"number": number, "after": await durable.step(after.note, number, name="after")}

    def blocking_program() -> dict[str, Any]:
        number = blocking.step(lose_lease)
        return {"number": number, "after": blocking.step(after.note, number, name="after")}

    run = run_workflow(one_task(), workers=[worker(program if is_async else blocking_program)])
    assert run.output == {"number": 2, "after": 2}
    assert after == [2]  # the program did not go on after the lost lease
    assert [(step.key, step.result_json) for step in run.steps("p")] == [("lose_lease", b"2"), ("after", b"2")]


def test_no_step_begins_after_the_end_of_the_attempt() -> None:
    class SlowSteps(MemorySteps):
        async def record(self, steps: list[Any]) -> None:
            await asyncio.sleep(0.05)
            await super().record(steps)

    calls = Calls()

    def refuse() -> None:
        raise ValueError

    async def work() -> None:
        with contextlib.suppress(ValueError):
            await durable.step(refuse)
        await durable.step(calls.note, "charge", name="charge")  # waits for the record of the failure

    async def fail() -> None:
        await asyncio.sleep(0.02)
        raise RuntimeError

    async def program() -> None:
        await asyncio.gather(work(), fail())

    async def run() -> None:
        with pytest.raises(RuntimeError):
            await run_to_end(program, SlowSteps())
        await asyncio.sleep(0.1)

    asyncio.run(run())
    assert calls == []


def test_a_blocked_def_step_does_not_delay_the_end_of_the_process(conductor_stub: ConductorStub) -> None:
    begun, release, has_ended = threading.Event(), threading.Event(), threading.Event()

    def block() -> None:
        begun.set()
        release.wait(60)
        has_ended.set()

    async def program() -> dict[str, Any]:
        return {"found": await durable.step(block)}

    async def serve() -> None:
        workers = [Worker("program", program)]
        configuration = Configuration(conductor_stub.url)
        async with TaskHandlerAsyncIO(
            workers, configuration, scan_for_annotated_workers=False, poll_timeout=0, shutdown_grace_seconds=0
        ):
            assert await asyncio.to_thread(begun.wait, 60)

    conductor_stub.add_task("program", {})
    asyncio.run(serve())
    assert not has_ended.is_set()
    release.set()


def test_no_step_begins_after_the_end_of_the_lease_although_the_lease_thread_has_not_noticed_it(
    run_workflow: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, attempts = Calls(), Calls()

    def work() -> None:
        calls.note(len(attempts))

    async def program() -> dict[str, Any]:
        await durable.step(work, name="first")
        if len(attempts) == 1:
            attempts[0].deadline = 0.0  # as after a pause of the process that was longer than the lease
        await durable.step(work, name="second")
        return {}

    open_steps = Session.open_steps
    monkeypatch.setattr(Session, "open_steps", lambda self, running: open_steps(self, attempts.note(running)))
    assert run_workflow(one_task(), workers=[worker(program)]).status == "COMPLETED"
    assert calls == [1, 2]


def test_a_branch_that_survives_a_suspension_runs_no_step(run_workflow: Any) -> None:
    calls = Calls()

    async def program() -> dict[str, Any]:
        await asyncio.gather(_run(durable.sleep(days=1)), return_exceptions=True)
        try:
            await durable.step(calls.note, "x", name="x")
        except BaseException:
            await durable.step(calls.note, "y", name="y")
        return {"calls": list(calls)}

    run = run_workflow(one_task(), workers=[worker(program)])
    assert (run.status, calls) == ("RUNNING", [])
    assert run.skip(days=1).output == {"calls": ["x"]}


def test_steps_beyond_a_limit_fail_the_task_with_the_limit(run_workflow: Any) -> None:
    async def large() -> dict[str, Any]:
        await durable.step(str.upper, "x" * (1024 * 1024), name="large")
        return {}

    async def sum_of_large() -> dict[str, Any]:
        for number in range(11):
            await durable.step(str.upper, "x" * 1_000_000, name=f"part-{number}")
        return {}

    async def large_call() -> dict[str, Any]:
        for number in range(11):
            try:
                await durable.call("unknown", {"text": "x" * 1_000_000}, name=f"call-{number}")
            except durable.CallFailed:
                pass
        return {}

    async def wrong_name() -> dict[str, Any]:
        await durable.step(len, "x", name="\udcff")
        return {}

    for program, message in [
        (large, "the result of step large has"),
        (sum_of_large, "the steps of this task have"),
        (wrong_name, "printable characters"),
    ]:
        run = run_workflow(one_task(), workers=[worker(program)])
        (task,) = run.execution.tasks
        assert task.status == "FAILED_WITH_TERMINAL_ERROR"
        assert message in task.reason_for_incompletion
    # The input of a called workflow is stored with the workflow, not with the step.
    assert run_workflow(one_task(), workers=[worker(large_call)]).status == "COMPLETED"
