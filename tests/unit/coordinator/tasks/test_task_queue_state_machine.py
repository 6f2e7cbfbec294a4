"""The contract of leases and reports under random events.

Several workers, clock jumps, duplicated, delayed and lost messages, and restarts. A small model predicts each verdict.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from conductor.coordinator.workflows import workflow_actions as workflow_actions
from conductor.protocol.statuses import TERMINAL_TASK_STATUSES
from conductor.protocol.wire import Verdict
from tests.unit.coordinator.core_harness import Harness

LEASE_S = 10
TASK_DEF = {"responseTimeoutSeconds": LEASE_S, "retryDelaySeconds": 0, "retryCount": 1_000_000}
STATUSES = st.sampled_from(["COMPLETED", "FAILED", "IN_PROGRESS"])


#: How often the invariants were looked at: once a step.
steps_taken = 0


@dataclass(eq=False)
class Lease:
    """The model of one delivery."""

    task: dict[str, Any]
    expires_ms: int
    ended: bool = False
    first: tuple[str, Verdict] | None = None
    committed: int = 0


@dataclass
class Model:
    leases: list[Lease] = field(default_factory=list)
    workflows: dict[str, str] = field(default_factory=dict)
    terminal_commits: dict[str, int] = field(default_factory=dict)

    def valid(self, lease: Lease, now_ms: int) -> bool:
        return not lease.ended and now_ms < lease.expires_ms

    def last_of(self, task_id: str) -> Lease:
        return [lease for lease in self.leases if lease.task["taskId"] == task_id][-1]

    def end_leases_of(self, workflow: str) -> None:
        for lease in self.leases:
            if lease.task["workflowInstanceId"] == workflow:
                lease.ended = True


class Contract(RuleBasedStateMachine):
    leases: Bundle[Lease] = Bundle("leases")
    reports: Bundle[tuple[Lease, dict[str, Any]]] = Bundle("reports")

    @initialize()
    def open(self) -> None:
        self.directory = Path(tempfile.mkdtemp())
        self.harness = Harness(self.directory / "coordinator.db")
        self.model = Model()
        self.serial = 0

    def teardown(self) -> None:
        if hasattr(self, "harness"):
            self.nothing_vanishes()
            self.harness.close()
            shutil.rmtree(self.directory)

    # -- what happens

    @rule(target=leases, worker=st.sampled_from(["w1", "w2", "w3"]), fresh=st.booleans())
    def poll(self, worker: str, fresh: bool) -> Any:
        """A worker asks for a task; sometimes a new workflow has just been started."""
        if fresh or not self.model.workflows:
            self.model.workflows[self.harness.start_one(task_def=TASK_DEF)] = "RUNNING"
        found = self.harness.poll(worker=worker)
        if not found:
            return multiple()
        (task,) = found
        for older in self.model.leases:
            if older.task["taskId"] == task["taskId"]:
                assert not self.model.valid(older, self.now_ms), "two workers hold one task"
        lease = Lease(task, task["leaseExpiresAt"])
        assert lease.expires_ms == self.now_ms + LEASE_S * 1000
        self.model.leases.append(lease)
        return lease

    @rule(lease=leases)
    def heartbeat(self, lease: Lease) -> None:
        valid, outcome = self.model.valid(lease, self.now_ms), self.harness.heartbeat(lease.task)
        if valid:
            assert outcome.lease_expires_ms is not None
            lease.expires_ms = outcome.lease_expires_ms
            assert lease.expires_ms == self.now_ms + LEASE_S * 1000
        else:
            assert outcome.lease_expires_ms is None
            kept = lease.committed and self.model.last_of(lease.task["taskId"]) is lease
            assert outcome.verdict is (Verdict.COMMITTED if kept else Verdict.CANCELLED)

    @rule(target=reports, lease=leases, status=STATUSES, arrives=st.booleans())
    def report(self, lease: Lease, status: str, arrives: bool) -> tuple[Lease, dict[str, Any]]:
        """A worker reports; some reports are lost or delayed on their way."""
        self.serial += 1
        said = {"status": status, "reportId": f"r{self.serial}"}
        if arrives:
            self.arrive((lease, said))
        return lease, said

    @rule(sent=reports)
    def arrive_again(self, sent: tuple[Lease, dict[str, Any]]) -> None:
        """A report arrives late, or once more."""
        self.arrive(sent)

    @rule(sent=consumes(reports))
    def lost(self, sent: tuple[Lease, dict[str, Any]]) -> None:
        """No worker will send the report any more."""

    def arrive(self, sent: tuple[Lease, dict[str, Any]]) -> None:
        lease, said = sent
        valid = self.model.valid(lease, self.now_ms)
        verdict = self.harness.report(lease.task, **said).verdict
        assert verdict is self.expected(lease, said, valid)
        if lease.first is None:
            lease.first = said["reportId"], verdict
            if verdict is Verdict.COMMITTED:
                self.committed(lease, said["status"])

    def expected(self, lease: Lease, said: dict[str, Any], valid: bool) -> Verdict:
        if lease.first is not None:
            report_id, verdict = lease.first
            return verdict if report_id == said["reportId"] else Verdict.REJECTED
        return Verdict.COMMITTED if valid else Verdict.CANCELLED

    def committed(self, lease: Lease, status: str) -> None:
        lease.ended = True
        lease.committed += 1
        task_id, workflow = lease.task["taskId"], lease.task["workflowInstanceId"]
        if status != "IN_PROGRESS":
            self.model.terminal_commits[task_id] = self.model.terminal_commits.get(task_id, 0) + 1
        if status == "COMPLETED":
            self.model.workflows[workflow] = "COMPLETED"

    @rule(
        seconds=st.sampled_from([0.001, 1, LEASE_S / 2, LEASE_S - 0.001, LEASE_S, 10 * LEASE_S]), noticed=st.booleans()
    )
    def time_passes(self, seconds: float, noticed: bool) -> None:
        """Sometimes the timer notices, sometimes the next message comes first."""
        self.harness.clock.advance(seconds)
        if noticed:
            self.harness.tick()

    @rule()
    def restart(self) -> None:
        self.harness.restart()

    @rule(data=st.data())
    def terminate(self, data: st.DataObject) -> None:
        running = [workflow for workflow, status in self.model.workflows.items() if status == "RUNNING"]
        if running:
            workflow = data.draw(st.sampled_from(running))
            self.harness.act(workflow, workflow_actions.terminate, reason="why")
            self.model.workflows[workflow] = "TERMINATED"
            self.model.end_leases_of(workflow)

    # -- what always holds

    @property
    def now_ms(self) -> int:
        return self.harness.clock.wall_ms()

    @invariant()
    def one_commit_per_lease_and_one_terminal_per_task(self) -> None:
        global steps_taken
        steps_taken += 1
        if hasattr(self, "model"):
            assert all(lease.committed <= 1 for lease in self.model.leases)
            assert all(count == 1 for count in self.model.terminal_commits.values())

    def nothing_vanishes(self) -> None:
        """Time passes, a diligent worker comes: every workflow that was not terminated completes."""
        self.harness.advance(LEASE_S)
        while tasks := self.harness.poll(count=100):
            for task in tasks:
                assert self.harness.report(task).verdict is Verdict.COMMITTED
                self.model.workflows[task["workflowInstanceId"]] = "COMPLETED"
        for workflow, status in self.model.workflows.items():
            found = self.harness.workflow(workflow)
            assert found["status"] == status != "RUNNING"
            assert all(task["status"] in TERMINAL_TASK_STATUSES for task in found["tasks"])


def run(examples: int, steps: int) -> None:
    run_state_machine_as_test(
        Contract,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_the_contract_holds_over_a_few_hundred_steps() -> None:
    run(examples=20, steps=40)


@pytest.mark.slow
def test_the_contract_holds_over_ten_thousand_steps() -> None:
    before = steps_taken
    run(examples=250, steps=60)
    assert steps_taken - before >= 10_000
