"""The context of a running task: its identity, logs, output, callback and cancellation."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from conductor.client.context.task_context import (
    TaskContext,
    TaskInProgress,
    current_context,
    get_task_context,
    task_context,
)
from conductor.client.http.models.task import Task
from conductor.client.worker.exception import TaskCancelled


def a_task(task_id: str = "t-1", **fields: Any) -> Task:
    values: dict[str, Any] = {
        "task_def_name": "job",
        "workflow_instance_id": "w-1",
        "poll_count": 2,
        "retry_count": 1,
        "input_data": {"x": 1},
    }
    return Task(task_id=task_id, **(values | fields))


class TestIdentity:
    def test_the_ids_of_a_task_are_attributes_and_getters(self) -> None:
        context = TaskContext(a_task(), "me")
        assert context.task_id == context.get_task_id() == "t-1"
        assert context.workflow_instance_id == context.get_workflow_instance_id() == "w-1"
        assert context.task_def_name == context.get_task_def_name() == "job"
        assert context.poll_count == context.get_poll_count() == 2
        assert context.retry_count == context.get_retry_count() == 1
        assert context.input == context.get_input() == {"x": 1}
        assert context.worker_id == "me"

    def test_a_task_that_says_little_is_no_trouble(self) -> None:
        context = TaskContext(Task())
        assert (context.task_id, context.workflow_instance_id, context.task_def_name) == ("", "", "")
        assert (context.poll_count, context.retry_count, context.input) == (0, 0, {})


class TestTheCurrentOne:
    def test_outside_a_task_there_is_no_context(self) -> None:
        assert current_context() is None
        with pytest.raises(RuntimeError, match="outside of a task"):
            get_task_context()

    def test_the_context_exists_only_while_the_task_runs(self) -> None:
        context = TaskContext(a_task())
        with task_context(context) as given:
            assert get_task_context() is context is given
        assert current_context() is None

    def test_the_context_is_gone_after_an_error_too(self) -> None:
        with pytest.raises(ZeroDivisionError), task_context(TaskContext(a_task())):
            raise ZeroDivisionError
        assert current_context() is None

    def test_nested_ones_come_back(self) -> None:
        outer, inner = TaskContext(a_task("outer")), TaskContext(a_task("inner"))
        with task_context(outer):
            with task_context(inner):
                assert get_task_context() is inner
            assert get_task_context() is outer

    async def test_coroutines_do_not_mix_theirs_up(self) -> None:
        everyone_in = asyncio.Barrier(20)

        async def work(name: str) -> bool:
            with task_context(TaskContext(a_task(name))):
                await everyone_in.wait()
                return get_task_context().task_id == name

        assert all(await asyncio.gather(*(work(f"t-{n}") for n in range(20))))

    async def test_threads_and_coroutines_of_a_task_have_its_context(self) -> None:
        with task_context(TaskContext(a_task())):
            child = asyncio.create_task(self._own_id())
            in_thread = asyncio.to_thread(lambda: get_task_context().task_id)
            assert await child == await in_thread == "t-1"

    async def _own_id(self) -> str:
        return get_task_context().task_id

    def test_threads_do_not_mix_theirs_up(self) -> None:
        everyone_in = threading.Barrier(4)

        def work(name: str) -> bool:
            with task_context(TaskContext(a_task(name))):
                everyone_in.wait(60)
                return get_task_context().task_id == name

        with ThreadPoolExecutor(4) as pool:
            assert all(pool.map(work, ["a", "b", "c", "d"]))


class TestLogs:
    def test_carry_the_task_and_the_time_in_milliseconds(self) -> None:
        """P14: seconds in place of milliseconds would be in 1970."""
        before_ms = time.time_ns() // 1_000_000
        context = TaskContext(a_task())
        context.add_log("half way")
        (entry,) = context.logs
        assert (entry.log, entry.task_id) == ("half way", "t-1")
        assert before_ms <= entry.created_time <= time.time_ns() // 1_000_000

    def test_anything_can_be_logged(self) -> None:
        context = TaskContext(a_task())
        context.add_log(42)  # type: ignore[arg-type]
        assert context.logs[0].log == "42"

    def test_no_log_line_is_lost_between_threads(self) -> None:
        context = TaskContext(a_task())
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda n: context.add_log(str(n)), range(500)))
        assert {entry.log for entry in context.logs} == {str(n) for n in range(500)}


class TestSayings:
    def test_output_grows_with_each_update(self) -> None:
        context = TaskContext(a_task())
        context.set_output({"a": 1, "b": 1})
        context.set_output({"b": 2})
        assert context.output == {"a": 1, "b": 2}

    def test_a_callback_is_a_number_of_seconds(self) -> None:
        context = TaskContext(a_task())
        assert context.get_callback_after_seconds() == 0
        context.set_callback_after(30)
        assert context.get_callback_after_seconds() == 30
        with pytest.raises(ValueError, match="-1"):
            context.set_callback_after(-1)


class TestCancellation:
    def test_a_new_task_is_not_cancelled(self) -> None:
        context = TaskContext(a_task())
        assert (context.cancelled, context.cancel_reason) == (False, None)
        context.raise_if_cancelled()
        assert not context.wait_cancelled(0)

    def test_a_cancellation_stays_with_its_first_reason(self) -> None:
        context = TaskContext(a_task())
        context.cancel("lease lost")
        context.cancel("worker shutting down")
        assert (context.cancelled, context.cancel_reason) == (True, "lease lost")
        with pytest.raises(TaskCancelled, match="lease lost"):
            context.raise_if_cancelled()

    def test_a_cancellation_wakes_its_waiters(self) -> None:
        context = TaskContext(a_task())
        woken: list[bool] = []
        waiting = threading.Thread(target=lambda: woken.append(context.wait_cancelled(10)))
        waiting.start()
        context.cancel("lease lost")
        waiting.join(60)
        assert woken == [True]
        assert context.wait_cancelled(10)


class TestTaskInProgress:
    def test_task_in_progress_says_when_to_come_back_and_how_far_it_is(self) -> None:
        again = TaskInProgress(callback_after_seconds=30, output={"done": 5})
        assert (again.callback_after_seconds, again.output) == (30, {"done": 5})

    def test_task_in_progress_needs_nothing(self) -> None:
        assert (TaskInProgress().callback_after_seconds, TaskInProgress().output) == (60, {})

    def test_task_in_progress_keeps_no_hold_of_the_given_output(self) -> None:
        given = {"done": 5}
        again = TaskInProgress(output=given)
        given["done"] = 6
        assert again.output == {"done": 5}

    def test_task_in_progress_refuses_the_past(self) -> None:
        with pytest.raises(ValueError, match="-5"):
            TaskInProgress(-5)

    def test_task_in_progress_reads_well(self) -> None:
        assert repr(TaskInProgress(1, {"a": 2})) == "TaskInProgress(callback_after_seconds=1, output={'a': 2})"
