"""A restored copy never repeats an id, and no result from after the copy counts for another task."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from conductor.coordinator.store.ids import Ids
from conductor.coordinator.store.online_backup import back_up
from conductor.coordinator.store.statements import Epoch
from conductor.testing import FakeClock
from tests.unit.coordinator.core_harness import Harness, Task

SECRET = b"0123456789abcdef"

#: Events of a coordinator: a workflow starts, a worker polls, reports, sends a heartbeat, or time passes.
_actions = st.lists(st.sampled_from(["start", "poll", "complete", "requeue", "heartbeat", "restart"]), max_size=12)


class Life:
    """A coordinator, its workers, and every id that it has given out."""

    def __init__(self, database: Path, clock: FakeClock, held: list[Task] | None = None) -> None:
        self.harness = Harness(database, clock)
        self.held: list[Task] = list(held or ())
        self.workflows: list[str] = []
        self.leases: list[tuple[str, str]] = []

    def act(self, actions: list[str]) -> None:
        for action in actions:
            getattr(self, action)()

    def start(self) -> None:
        self.workflows.append(self.harness.start("one_work"))

    def poll(self) -> None:
        tasks = self.harness.poll()
        self.held += tasks
        self.leases += [(task["taskId"], task["leaseId"]) for task in tasks]

    def complete(self) -> None:
        if self.held:
            self.harness.report(self.held.pop(0), reportId=f"done-{len(self.leases)}")

    def requeue(self) -> None:
        if self.held:
            self.harness.report(self.held.pop(0), "IN_PROGRESS", reportId=f"back-{len(self.leases)}")

    def heartbeat(self) -> None:
        for task in self.held:
            self.harness.heartbeat(task)

    def restart(self) -> None:
        self.harness.restart()


@given(before=_actions, tail=_actions, after=_actions)
def test_a_restored_copy_repeats_no_id_and_mixes_up_no_result_a13(
    tmp_path_factory: Any, before: list[str], tail: list[str], after: list[str]
) -> None:
    directory: Path = tmp_path_factory.mktemp("restored")
    clock = FakeClock()
    first = Life(directory / "a.db", clock)
    first.harness.start_one()
    first.act(before)
    known_to_copy = list(first.held)
    first.harness.close()
    shutil.copy(directory / "a.db", directory / "copy.db")
    first.harness.open()
    first.workflows, first.leases = [], []
    first.act(["start", "poll", *tail])
    lost = [task for task in first.held if task not in known_to_copy]
    first.harness.close()

    second = Life(directory / "copy.db", clock)
    second.act(["start", "poll", *after])
    assert not set(first.workflows) & set(second.workflows), "no workflow id is given out twice"
    assert not set(first.leases) & set(second.leases), "no lease id is given out twice"
    statuses = {workflow: second.harness.workflow(workflow)["status"] for workflow in second.workflows}
    for task in lost:
        assert second.harness.heartbeat(task).verdict in ("CANCELLED", "REJECTED")
        late = second.harness.report(task, reportId="late", outputData={"of": "another"})
        assert late.verdict in ("CANCELLED", "REJECTED"), "every late report has a final verdict"
    assert statuses == {workflow: second.harness.workflow(workflow)["status"] for workflow in second.workflows}
    for task in second.held:
        assert second.harness.report(task, reportId="own").verdict == "COMMITTED", "a worker's own result counts"
    second.harness.close()


def test_leases_that_the_copy_knows_stay_valid_a13(tmp_path: Path) -> None:
    with Harness(tmp_path / "a.db") as harness:
        workflow = harness.start_one()
        held = harness.poll_one()
    shutil.copy(tmp_path / "a.db", tmp_path / "copy.db")
    with Harness(tmp_path / "copy.db", harness.clock) as restored:
        assert restored.heartbeat(held).verdict == "COMMITTED"
        assert restored.report(held).verdict == "COMMITTED"
        assert restored.workflow(workflow)["status"] == "COMPLETED"


def test_a_report_without_a_lease_id_completes_no_other_workflow_a13(tmp_path: Path) -> None:
    with Harness(tmp_path / "a.db") as harness:
        harness.start_one()
        harness.poll_one()
        back_up(tmp_path / "a.db", tmp_path / "copy.db")
        harness.start("one_work")
        lost = harness.poll_one()
    with Harness(tmp_path / "copy.db", harness.clock) as restored:
        other = restored.start("one_work")
        late = restored.report(lost | {"leaseId": None})
        assert late.status == 404
        assert restored.workflow(other)["status"] == "RUNNING"


def test_two_restores_of_one_copy_give_out_different_ids_a13(tmp_path: Path) -> None:
    with Harness(tmp_path / "a.db") as harness:
        harness.start_one()
    found = []
    for name in ("b.db", "c.db"):
        shutil.copy(tmp_path / "a.db", tmp_path / name)
        with Harness(tmp_path / name) as restored:
            found.append((restored.start("one_work"), restored.poll_one()["leaseId"]))
    assert found[0][0] != found[1][0]
    assert found[0][1] != found[1][1]


def test_ids_from_before_epochs_stay_what_they_were() -> None:
    old, new = Ids(SECRET), Ids(SECRET, [Epoch(1, 10, 20, 30, b"n" * 16)])
    assert new.workflow(9) == old.workflow(9)
    assert new.task_pk(old.task(19)) == 19
    assert new.lease_no(5, old.lease(5, 3)) == 3
    assert new.workflow(10) != old.workflow(10)
    assert new.workflow_pk(old.workflow(10)) is None


def test_a_lease_of_an_epoch_that_the_file_does_not_have_is_unknown() -> None:
    ids, other = Ids(SECRET), Ids(SECRET, [Epoch(1, 1, 1, 1, b"n" * 16)])
    assert ids.lease_no(1, other.lease(1, other.next_lease_no(0))) is None
