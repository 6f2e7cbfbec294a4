"""A tree of sub-workflows is terminated in steps of bounded size that survive a restart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from conductor.coordinator.store.lookup import find_workflow
from conductor.coordinator.workflows import executions, workflow_actions
from tests.unit.coordinator.core_harness import Harness, simple

#: Sub-workflows of each workflow, on two levels.
WIDTH = 6
ALL = 1 + WIDTH + WIDTH * WIDTH


def forked(child: str) -> list[dict[str, Any]]:
    """A fork whose branches are sub-workflows, and its join."""
    refs = [f"s{n}" for n in range(WIDTH)]
    branches = [
        [{"name": ref, "taskReferenceName": ref, "type": "SUB_WORKFLOW", "subWorkflowParam": {"name": child}}]
        for ref in refs
    ]
    fork = {"name": "fork", "taskReferenceName": "fork", "type": "FORK_JOIN", "forkTasks": branches}
    return [fork, {"name": "join", "taskReferenceName": "join", "type": "JOIN", "joinOn": refs}]


@pytest.fixture
def root(harness: Harness) -> str:
    """A tree of three levels; every leaf waits for a worker."""
    harness.workflow_def("leaf", simple("work"))
    harness.workflow_def("middle", *forked("leaf"))
    harness.workflow_def("root", *forked("middle"), failureWorkflow="leaf")
    root = harness.start("root")
    harness.settle()
    assert by_status(harness) == {"RUNNING": ALL}
    return root


@pytest.fixture
def short_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executions, "STEPS_PER_TRANSACTION", 4)


def by_status(harness: Harness) -> dict[str, int]:
    found = harness.store.call(lambda tx: tx.select("SELECT status, count(*) FROM workflow GROUP BY status", ()))
    return dict(found)


def marks(harness: Harness) -> int:
    return int(harness.store.call(lambda tx: tx.select("SELECT count(*) FROM termination", ()))[0][0])


def test_a_small_tree_ends_with_its_root_a09(harness: Harness, root: str) -> None:
    harness.act(root, workflow_actions.terminate, reason="enough")
    assert (by_status(harness), marks(harness)) == ({"TERMINATED": ALL}, 0)
    child = harness.workflow(root)["tasks"][1]["subWorkflowId"]
    assert harness.workflow(child)["reasonForIncompletion"] == "Parent workflow has been terminated with reason: enough"


@pytest.mark.usefixtures("short_steps")
class TestALargeTree:
    def test_a_large_tree_ends_in_several_transactions_and_others_are_served_between_a09(
        self, harness: Harness, root: str
    ) -> None:
        harness.act(root, workflow_actions.terminate, reason="enough")
        assert harness.workflow(root)["status"] == "TERMINATED"
        running = [by_status(harness)["RUNNING"]]
        while running[-1]:
            again = harness.tick()
            other = harness.start("leaf")
            harness.act(other, workflow_actions.terminate)
            running.append(by_status(harness).get("RUNNING", 0))
            assert again == (0 if running[-1] else None)
        assert all(0 < before - after <= 4 for before, after in zip(running, running[1:], strict=False))
        assert marks(harness) == 0
        assert harness.poll(count=100) == []

    def test_a_large_tree_goes_on_ending_after_a_restart_a09(self, harness: Harness, root: str) -> None:
        harness.act(root, workflow_actions.terminate, reason="enough")
        assert by_status(harness)["RUNNING"] > 0
        harness.restart()
        harness.settle()
        assert (by_status(harness), marks(harness)) == ({"TERMINATED": ALL}, 0)

    def test_a_large_tree_goes_on_ending_when_its_root_is_removed_a09(self, harness: Harness, root: str) -> None:
        harness.act(root, workflow_actions.terminate, reason="enough")
        harness.store.call(lambda tx: harness.core.workflows.executions.remove(tx, find_workflow(tx, root)))
        harness.settle()
        assert by_status(harness) == {"TERMINATED": ALL - 1}

    def test_a_large_tree_ends_like_this_for_whatever_reason_a09(self, harness: Harness, root: str) -> None:
        """A leaf fails for good: its parents fail, and the other branches are terminated."""
        harness.task_def("work", retryCount=0)
        harness.report(harness.poll_one(), "FAILED_WITH_TERMINAL_ERROR", reasonForIncompletion="no")
        assert by_status(harness)["RUNNING"] > 1
        harness.settle()
        assert harness.workflow(root)["status"] == "FAILED"
        # The leaf, its parent and the root; and the failure workflow that runs.
        assert by_status(harness) == {"FAILED": 3, "TERMINATED": ALL - 3, "RUNNING": 1}

    def test_ending_a_root_that_runs_again_does_not_touch_new_sub_workflows_a09(
        self, harness: Harness, root: str
    ) -> None:
        harness.act(root, workflow_actions.terminate, reason="enough")
        harness.act(root, workflow_actions.retry)
        harness.settle()
        assert harness.workflow(root)["status"] == "RUNNING"
        assert by_status(harness) == {"TERMINATED": ALL - 1, "RUNNING": ALL}

    def test_a_large_tree_that_is_restarted_is_not_told_of_the_old_sub_workflows_a09(
        self, harness: Harness, root: str
    ) -> None:
        harness.act(root, workflow_actions.terminate, reason="enough")
        harness.act(root, workflow_actions.restart)
        harness.settle()
        assert harness.workflow(root)["status"] == "RUNNING"
        assert by_status(harness) == {"TERMINATED": ALL - 1, "RUNNING": ALL}


def test_a_workflow_that_only_shares_an_idempotency_key_is_left_alone_a09(harness: Harness) -> None:
    harness.workflow_def("leaf", simple("work"))
    params = {"name": "leaf", "idempotencyKey": "shared"}
    harness.workflow_def(
        "root", {"name": "s", "taskReferenceName": "s", "type": "SUB_WORKFLOW", "subWorkflowParam": params}
    )
    other = harness.start("leaf", idempotency_key="shared")
    root = harness.start("root")
    harness.act(root, workflow_actions.terminate)
    assert (harness.workflow(root)["status"], harness.workflow(other)["status"]) == ("TERMINATED", "RUNNING")
    assert marks(harness) == 0


def test_a_file_keeps_the_marks_of_a_process_that_was_killed_a09(tmp_path: Path) -> None:
    """See `tests/integration/test_coordinator_termination.py` for the process itself."""
    with Harness(tmp_path / "a.db") as harness:
        harness.workflow_def("leaf", simple("work"))
        leaf = harness.start("leaf")
        pk = harness.store.call(lambda tx: find_workflow(tx, leaf).pk)
        harness.store.call(lambda tx: tx.select(f"INSERT INTO termination VALUES ({pk}, 'why')", ()))
    with Harness(tmp_path / "a.db") as newer:
        newer.settle()
        assert newer.workflow(leaf)["reasonForIncompletion"] == "why"
