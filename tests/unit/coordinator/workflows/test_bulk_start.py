"""Bulk starts: few transactions of bounded length, ids or errors in order, and idempotency keys that count once."""

from __future__ import annotations

from typing import Any

import pytest

from conductor.coordinator.request_errors import ApiError
from conductor.coordinator.workflows import bulk_start
from conductor.coordinator.workflows.effects import Start
from tests.unit.coordinator.core_harness import Harness, simple

CHILD = {"name": "child", "taskReferenceName": "child", "type": "SUB_WORKFLOW"}


@pytest.fixture(autouse=True)
def registered(harness: Harness) -> None:
    harness.workflow_def("flow", simple("work"))


def start(harness: Harness, *starts: Start | ApiError) -> list[Any]:
    """Start the workflows in one turn. Return the id of each, or the status of its error."""
    executions = harness.core.workflows.executions
    results = harness.store.call(lambda tx: bulk_start.start_turn(executions, starts, None, tx))
    return [result.status if isinstance(result, ApiError) else result for result in results]


def test_ids_and_errors_come_in_the_order_of_the_starts(harness: Harness) -> None:
    results = start(harness, Start(name="flow"), Start(name="absent"), ApiError(400, "bad"), Start(name="flow"))
    assert results[1:3] == [404, 400]
    assert [harness.workflow(results[at])["status"] for at in (0, 3)] == ["RUNNING", "RUNNING"]
    assert len(harness.poll(count=10)) == 2


def test_the_starts_of_one_turn_share_a_commit(harness: Harness) -> None:
    before = harness.store.commits
    start(harness, *(Start(name="flow", input={"n": n}) for n in range(20)))
    assert harness.store.commits - before == 1


class TestIdempotencyKeys:
    def test_idempotency_keys_count_between_elements_and_between_bulks(self, harness: Harness) -> None:
        first = start(harness, *(Start(name="flow", idempotency_key=key) for key in ("a", "b", "a")))
        assert first[0] == first[2] != first[1]
        second = start(harness, *(Start(name="flow", idempotency_key=key) for key in ("b", "c")))
        assert second[0] == first[1]
        assert second[1] not in first
        assert len(harness.poll(count=10)) == 3

    def test_strategies_are_honoured(self, harness: Harness) -> None:
        keyed: dict[str, Any] = {"name": "flow", "idempotency_key": "a"}
        results = start(
            harness,
            Start(**keyed),
            Start(**keyed, idempotency_strategy="FAIL"),
            Start(**keyed, idempotency_strategy="FAIL_ON_RUNNING"),
        )
        assert results[1:] == [409, 409]

    def test_the_key_of_a_sub_workflow_of_an_earlier_element_counts_too(self, harness: Harness) -> None:
        params = {"name": "flow", "idempotencyKey": "shared"}
        harness.workflow_def("parent", {**CHILD, "subWorkflowParam": params})
        parent, other = start(harness, Start(name="parent"), Start(name="flow", idempotency_key="shared"))
        assert harness.workflow(parent)["tasks"][0]["subWorkflowId"] == other

    def test_idempotency_keys_are_looked_up_together(self, harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
        looked_up: list[str] = []
        monkeypatch.setattr(
            "conductor.coordinator.store.transaction.Tx.first",
            _noting(looked_up, "idempotent workflow"),
        )
        start(harness, *(Start(name="flow", idempotency_key=str(n)) for n in range(50)))
        assert looked_up == []


def _noting(seen: list[str], name: str) -> Any:
    from conductor.coordinator.store.statements import Query
    from conductor.coordinator.store.transaction import Tx

    first = Tx.first

    def noting(self: Tx, query: Query[Any], *args: Any) -> Any:
        if query.name == name:
            seen.append(name)
        return first(self, query, *args)

    return noting


def test_a_start_that_is_refused_halfway_leaves_nothing_and_hurts_no_other(harness: Harness) -> None:
    """The definition is stored before the input is found to be wrong."""
    schema = {"name": "s", "version": 1, "type": "JSON", "data": {"type": "object", "required": ["x"]}}
    inline = {"name": "inline", "version": 1, "tasks": [simple("other")], "inputSchema": schema, "enforceSchema": True}
    snapshots = harness.store.call(lambda tx: tx.select("SELECT count(*) FROM snapshot", ()))
    results = start(harness, Start(name="flow"), Start(name="inline", workflow_def=inline), Start(name="flow"))
    assert results[1] == 400
    assert [harness.workflow(results[at])["status"] for at in (0, 2)] == ["RUNNING", "RUNNING"]
    (after,) = harness.store.call(lambda tx: tx.select("SELECT count(*) FROM snapshot", ()))
    assert after[0] == snapshots[0][0] + 1  # that of `flow`
    assert len(harness.poll(count=10)) == 2


def test_a_start_whose_first_step_fails_ends_alone(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    harness.workflow_def("broken", simple("breaks"))
    decide = "conductor.coordinator.workflows.executions.decide"
    real = harness.core.workflows.executions.start.__globals__["decide"]

    def failing(state: Any, *args: Any, **more: Any) -> Any:
        if state.definition["name"] == "broken":
            raise ValueError("no decision")
        return real(state, *args, **more)

    monkeypatch.setattr(decide, failing)
    results = start(harness, Start(name="flow"), Start(name="broken"), Start(name="flow"))
    assert [harness.workflow(result)["status"] for result in results] == ["RUNNING", "FAILED", "RUNNING"]


def test_a_turn_ends_after_its_time_with_at_least_one_start(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_start, "TURN_S", -1)
    results = start(harness, *(Start(name="flow") for _ in range(5)))
    assert len(results) == 1
