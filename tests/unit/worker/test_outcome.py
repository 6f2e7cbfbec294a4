"""A TaskResult made by the user: one that the server would refuse fails the task instead."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from conductor.client.http.models.task import Task
from conductor.client.http.models.task_result import TaskResult
from conductor.client.worker.worker import Worker


def given(**fields: Any) -> TaskResult:
    """Return the outcome of a function that returns a result with these fields."""

    def work() -> TaskResult:
        made = TaskResult()
        for name, value in fields.items():
            setattr(made, name, value)
        return made

    return Worker("job", work).execute(Task(task_id="t1", workflow_instance_id="w1"))


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"task_id": "other"}, "TaskResult.task_id: is 'other', but the task is 't1'"),
        ({"status": "NONSENSE"}, "TaskResult.status: is 'NONSENSE'; there are "),
        ({"callback_after_seconds": 10**12}, "TaskResult.callback_after_seconds: is 1000000000000; it must be 0 to"),
        ({"callback_after_seconds": -1}, "TaskResult.callback_after_seconds: is -1; it must be 0 to"),
    ],
)
def test_a_result_that_no_server_accepts_fails_the_task_with_the_reason(fields: dict[str, Any], reason: str) -> None:
    result = given(**fields)
    assert (result.task_id, result.status) == ("t1", "FAILED_WITH_TERMINAL_ERROR")
    assert (result.reason_for_incompletion or "").startswith(reason)


def test_results_share_nothing_that_can_be_changed() -> None:
    one, other = (Worker("job", dict).execute(Task(task_id="t1", workflow_instance_id="w1")) for _ in range(2))
    for field in msgspec.structs.fields(TaskResult):
        if isinstance(value := getattr(one, field.name), (dict, list)):
            assert value is not getattr(other, field.name), field.name


def test_logs_may_be_plain_texts() -> None:
    result = given(logs=["one", 2])
    assert (result.status, [line.log for line in result.logs]) == ("COMPLETED", ["one", "2"])


@pytest.mark.parametrize("logs", [None, []])
def test_no_logs_are_no_logs(logs: list[str] | None) -> None:
    assert given(logs=logs).logs == []
