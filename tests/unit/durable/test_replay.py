"""The replay check and the killer of the test kit, and random programs with crashes between any two of their steps."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import Coroutine
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductor import durable
from conductor.client.http.models.task_def import TaskDef
from conductor.client.worker.worker import Worker
from conductor.client.workflow import ConductorWorkflow
from conductor.client.workflow.task.simple_task import SimpleTask
from conductor.durable import sync as blocking
from conductor.protocol.steps import Step
from conductor.testing import check_replay
from conductor.testing.replay import MemorySteps, WorkerKiller, install_killer, run_once, run_to_end


def double(number: int) -> int:
    return 2 * number


async def onboard(name: str) -> dict[str, Any]:
    number = await durable.step(double, 21)
    await durable.sleep(days=1)
    child = await durable.call("child", {"name": name})
    answer = await durable.wait_for("approval", timeout_s=60)
    late = await durable.wait_for("approval", timeout_s=60)
    return {"number": number, "child": child, "by": answer and answer["by"], "late": late, "at": await durable.now()}


def test_a_function_that_replays() -> None:
    found = check_replay(onboard, "Ada", messages={"approval": [{"by": "Grace"}]}, calls={"child": {"n": 1}})
    del found["at"]
    assert found == {"number": 42, "child": {"n": 1}, "by": "Grace", "late": None}


def test_a_cancelled_wait_takes_no_message() -> None:
    async def refuse() -> None:
        raise Refused

    async def program() -> Any:
        waiting = asyncio.create_task(durable.wait_for("approval"))
        with contextlib.suppress(Refused):
            await durable.step(refuse)
        waiting.cancel()
        await asyncio.wait([waiting])
        await durable.step(double, 1)
        return await durable.wait_for("approval")

    assert check_replay(program, messages={"approval": [{"n": 1}, {"n": 2}]}) == {"n": 1}


def test_the_first_difference_is_named() -> None:
    runs: list[int] = []

    async def chooses_by_chance() -> int:
        runs.append(1)
        return await durable.step(double, len(runs), name="first")

    async def adds_a_step() -> None:
        runs.append(1)
        for number in range(len(runs)):
            await durable.step(double, 1, name=f"step-{number}")

    def returns_another_value() -> int:
        runs.append(1)
        blocking.step(double, 1)
        return len(runs)

    async def skips_a_step() -> None:
        runs.append(1)
        if len(runs) == 1:
            await durable.step(double, 1)

    for function, message in [
        (chooses_by_chance, "step first does not match its record"),
        (adds_a_step, "it runs step step-1, which the first run did not record"),
        (returns_another_value, "it returns 2, and the first run returned 1"),
        (skips_a_step, "it does not run step double"),
    ]:
        runs.clear()
        with pytest.raises(AssertionError, match=message):
            check_replay(function)


def test_a_worker_is_killed_between_two_lines(run_workflow: Any, kill_worker: WorkerKiller) -> None:
    calls: list[str] = []

    async def program() -> dict[str, Any]:
        for name in ("a", "b", "c"):
            await durable.step(calls.append, name, name=name)
        return {"calls": len(calls)}

    kill_worker.after_step(1)
    kill_worker.before_record(3)
    made = ConductorWorkflow(None, "w") >> SimpleTask("program", "p")
    run = run_workflow(made, workers=[Worker("program", program, task_def=TaskDef(retry_count=0))])
    assert run.output == {"calls": 4}
    assert calls == ["a", "b", "c", "c"]  # the third step ran again, because it was not recorded
    assert kill_worker.kills == 2
    assert len(run.execution.tasks) == 1  # a death is not a failed attempt


def test_a_killed_worker_is_replaced_at_once_although_another_branch_waits(
    run_workflow: Any, kill_worker: WorkerKiller
) -> None:
    calls: list[str] = []

    async def work() -> None:
        await durable.sleep(hours=1)
        await durable.step(calls.append, "a", name="a")
        await durable.step(calls.append, "b", name="b")

    async def program() -> dict[str, Any]:
        await asyncio.gather(work(), durable.wait_for("approval"))
        return {}

    kill_worker.after_step(1)
    made = ConductorWorkflow(None, "w") >> SimpleTask("program", "p")
    run = run_workflow(made, workers=[Worker("program", program)]).skip(hours=1)
    assert (run.status, calls) == ("RUNNING", ["a", "b"])
    assert run.send("approval").status == "COMPLETED"


def test_branches_that_meet_the_record_of_a_failure_continue_after_it() -> None:
    async def refuse() -> None:
        raise Refused

    async def fail_and_continue() -> int:
        with pytest.raises(Refused):
            await durable.step(refuse)
        return await durable.step(double, 1, name="after")

    async def double(number: int) -> int:
        return 2 * number

    async def count(rounds: int) -> int:
        for _ in range(rounds):
            await asyncio.sleep(0)
        return await durable.step(double, rounds, name=f"step-{rounds}")

    async def program() -> list[int]:
        return await asyncio.gather(fail_and_continue(), *map(count, range(20)))

    assert asyncio.run(run_to_end(program, MemorySteps())) == [2, *range(0, 40, 2)]


def test_a_branch_that_returns_through_many_levels_reaches_its_next_step_before_the_suspension() -> None:
    async def nest(levels: int) -> int:
        if not levels:
            return await durable.step(double, 1, name="inner")
        (found,) = await asyncio.gather(nest(levels - 1))
        return found

    async def work() -> None:
        await durable.step(double, await nest(15), name="after")

    async def program() -> None:
        await asyncio.gather(work(), durable.wait_for("approval"))

    store = MemorySteps()
    asyncio.run(run_once(program, store))
    assert {name for name, _ in store.steps} == {"inner", "after", "approval"}


def test_a_failure_that_ends_the_attempt_while_it_is_recorded_is_forgotten() -> None:
    class SlowSteps(MemorySteps):
        async def record(self, steps: list[Step]) -> None:
            await asyncio.sleep(0.05)
            await super().record(steps)

    attempts: list[int] = []

    async def refuse_once() -> None:
        attempts.append(1)
        if len(attempts) == 1:
            raise Refused

    async def work_later() -> None:
        while not attempts:
            await asyncio.sleep(0)
        await durable.step(double, 1, name="later")

    async def program() -> int:
        await asyncio.gather(durable.step(refuse_once), work_later())
        return len(attempts)

    async def run_twice() -> int:
        store = SlowSteps()
        with pytest.raises(Refused):
            await run_to_end(program, store)
        await asyncio.sleep(0.1)
        found: int = await run_to_end(program, store)
        return found

    assert asyncio.run(run_twice()) == 2


def test_a_step_that_is_recorded_when_another_branch_ends_the_attempt_does_not_run_again() -> None:
    class SlowSteps(MemorySteps):
        async def record(self, steps: list[Step]) -> None:
            await asyncio.sleep(0.05)
            await super().record(steps)

    calls: list[str] = []

    async def refuse_once() -> None:
        while not calls:
            await asyncio.sleep(0)
        if "refused" not in calls:
            calls.append("refused")
            raise Refused

    async def charge() -> None:
        calls.append("charge")

    async def program() -> None:
        await asyncio.gather(durable.step(refuse_once), durable.step(charge))

    async def run_twice() -> None:
        store = SlowSteps()
        with pytest.raises(Refused):
            await run_to_end(program, store)
        await run_to_end(program, store)

    asyncio.run(run_twice())
    assert calls == ["charge", "refused"]


def test_the_report_that_suspends_a_task_does_not_overtake_a_record() -> None:
    class SlowSteps(MemorySteps):
        async def record(self, steps: list[Step]) -> None:
            begun.set()
            for _ in range(100):
                await asyncio.sleep(0)
            assert not suspended, "the lease has ended"
            await super().record(steps)

        async def suspend(self, steps: list[Step]) -> tuple[list[Step], int]:
            suspended.append(1)
            return [], 0

    suspended: list[int] = []
    begun = asyncio.Event()
    store = SlowSteps()

    async def work() -> None:
        while not begun.is_set():  # until the record of the sleep has begun
            await asyncio.sleep(0)
        raise Refused

    async def program() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(refuse_and_wait())
            group.create_task(durable.sleep(days=1))

    async def refuse_and_wait() -> None:
        with pytest.raises(Refused):
            await durable.step(work)
        await durable.wait_for("approval")

    asyncio.run(run_once(program, store))
    assert ("sleep", 1) in store.steps


def test_a_function_whose_version_check_is_cancelled_can_wait_afterwards() -> None:
    attempts: list[int] = []

    async def check_version() -> None:
        if len(attempts) == 2:
            await durable.version("fix-7")

    async def fail() -> None:
        for _ in range(3):
            await asyncio.sleep(0)
        raise Refused

    async def program() -> int:
        attempts.append(1)
        await durable.step(double, 1, name="first")
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(check_version())
                group.create_task(fail())
        except* Refused:
            await durable.step(double, 2, name="second")
        await durable.sleep(days=1)
        await durable.sleep(days=1)
        return len(attempts)

    assert asyncio.run(asyncio.wait_for(run_to_end(program, MemorySteps()), 5)) == 3


def test_a_killed_worker_records_no_cancellation_of_other_branches(kill_worker: WorkerKiller) -> None:
    calls: list[str] = []

    async def charge() -> None:
        calls.append("charge")
        await asyncio.sleep(0.01)

    async def program() -> int:
        async with asyncio.TaskGroup() as group:
            group.create_task(durable.step(calls.append, "reserve", name="reserve"))
            group.create_task(durable.step(charge))
        return len(calls)

    kill_worker.after_step(1)
    assert asyncio.run(run_to_end(program, MemorySteps())) == 3
    assert sorted(calls) == ["charge", "charge", "reserve"]


# -- random programs --------------------------------------------------------------------------------------------------


class Refused(Exception):
    pass


OPERATIONS = ("step", "refused", "sleep", "message", "call", "now", "version", "fork")


class Model:
    """A random program, its value, and how often each of its steps has run."""

    def __init__(self, seed: int, length: int, operations: tuple[str, ...] = OPERATIONS) -> None:
        self.seed = seed
        self.length = length
        self.operations = operations
        self.ran: Counter[str] = Counter()

    def run_step(self, name: str, value: int) -> int:
        self.ran[name] += 1
        return value

    def refuse(self, name: str) -> None:
        self.ran[name] += 1
        raise Refused(name)

    async def program(self) -> list[Any]:
        return await self.branch(random.Random(self.seed), "r", self.length, 0)

    async def branch(self, rng: random.Random, path: str, length: int, depth: int) -> list[Any]:
        """Run random operations. The result depends only on the seed."""
        found: list[Any] = []
        for place in range(length):
            kind, name = rng.choice(self.operations), f"{path}.{place}"
            number = rng.randrange(100)
            if kind == "step":
                found.append(await durable.step(self.run_step, name, number, name=name))
            elif kind == "refused":
                try:
                    await durable.step(self.refuse, name, name=name)
                except Refused as error:
                    found.append(str(error))
            elif kind == "sleep":
                await durable.sleep(number, name=name)
            elif kind == "message":
                found.append(await durable.wait_for(name, timeout_s=number))
            elif kind == "call":
                found.append(await durable.call("child", {"n": number}, name=name))
            elif kind == "now":
                await durable.now(name=name)
            elif kind == "version":
                found.append(await durable.version(name))
            elif depth < 2:
                parts = [(random.Random(rng.random()), f"{name}.{part}", rng.randrange(3)) for part in range(2)]
                branches = [self.branch(*part, depth + 1) for part in parts]
                if kind == "fork":
                    found.append(await asyncio.gather(*branches))
                else:
                    await self.run_failing_group(name, number, branches)
        return found

    async def run_failing_group(self, name: str, number: int, branches: list[Coroutine[Any, Any, Any]]) -> None:
        """Run branches in a group that is cancelled by a failure."""

        async def fail() -> None:
            if number % 2:
                await durable.sleep(1, name=f"{name}.before")
            await durable.step(self.refuse, f"{name}.failure", name=f"{name}.failure")

        try:
            async with asyncio.TaskGroup() as group:
                for work in (*branches, fail()):
                    group.create_task(work)
        except* Refused:
            await durable.step(self.run_step, f"{name}.after", number, name=f"{name}.after")


def run_with_crashes(seed: int, length: int, points: list[tuple[int, bool]]) -> None:
    """Run a random program without and with crashes, and compare results and effects."""
    plain, crashed = Model(seed, length), Model(seed, length)
    expected = asyncio.run(run_to_end(plain.program, MemorySteps(calls={"child": {"n": 1}})))
    assert set(plain.ran.values()) <= {1}
    killer = WorkerKiller()
    for number, is_recorded in points:
        (killer.after_step if is_recorded else killer.before_record)(number)
    install_killer(killer)
    try:
        found = asyncio.run(run_to_end(crashed.program, MemorySteps(calls={"child": {"n": 1}})))
    finally:
        install_killer(None)
    assert found == expected
    assert crashed.ran.keys() == plain.ran.keys()
    # A refused step runs again if the program had not continued to another step; other steps only before their record.
    extra = sum(crashed.ran.values()) - sum(plain.ran.values())
    assert extra == 0 or killer.kills


async def replay_failing_groups(seed: int, length: int) -> None:
    """Run a random program whose groups fail, and replay it: no step may run again, or for the first time."""
    model, store = Model(seed, length, (*OPERATIONS, "group", "group")), MemorySteps()

    async def program() -> None:
        await model.program()
        await durable.step(model.run_step, "last", 1, name="last")  # records what was refused before

    await run_to_end(program, store)
    ran, recorded = model.ran.copy(), set(store.steps)
    await run_to_end(program, store)
    assert (model.ran, set(store.steps)) == (ran, recorded)


CRASHES = st.lists(st.tuples(st.integers(1, 25), st.booleans()), max_size=6)


@given(st.integers(0, 2**32), st.integers(1, 8), CRASHES)
def test_random_programs_have_the_same_result_with_crashes(
    seed: int, length: int, points: list[tuple[int, bool]]
) -> None:
    run_with_crashes(seed, length, points)


@given(st.integers(0, 2**32), st.integers(1, 5))
def test_a_replay_of_random_failing_groups_runs_no_step(seed: int, length: int) -> None:
    asyncio.run(asyncio.wait_for(replay_failing_groups(seed, length), 20))


@pytest.mark.slow
def test_many_random_programs_with_crashes() -> None:
    rng = random.Random(7)
    for _ in range(3000):
        points = [(rng.randrange(1, 40), rng.random() < 0.5) for _ in range(rng.randrange(12))]
        run_with_crashes(rng.randrange(2**32), rng.randrange(1, 14), points)
