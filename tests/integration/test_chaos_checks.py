"""The checks of a chaos run can fail: they accept a good run and find each broken promise."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.integration.chaos.attacks import Attacks, Targets
from tests.integration.chaos.checks import Checks
from tests.integration.chaos.kills import BRANCHES, Found
from tests.integration.chaos.proxy import Seen


class Story:
    """A run with one job of one step. Process 1 loses its lease after the effect, process 2 reports the result."""

    def __init__(self) -> None:
        self.killed_pids: set[int] = set()
        self.lines = [
            self._line("began", 1, 10, lease="a"),
            self._line("effect", 1, 20, lease="a"),
            self._line("lost", 1, 30, lease="a"),
            self._line("began", 2, 40, lease="b"),
            self._line("effect", 2, 50, lease="b"),
            self._line("ended", 2, 60, lease="b"),
            self._line("verdict", 2, 80, lease="b", verdict="COMMITTED"),
        ]
        self.seen = [self.report(2, 70, "b")]
        self.task = {
            "taskId": "t",
            "workflowInstanceId": "w",
            "referenceTaskName": "step",
            "status": "COMPLETED",
            "outputData": {"token": "b"},
        }
        self.committed = {"t": ["b"]}

    def _line(self, kind: str, pid: int, at_ns: int, *, lease: str, **more: Any) -> dict[str, Any]:
        about = {"task": "t", "job": 1, "step": "step", "lease": lease, "token": lease}
        return {"kind": kind, "pid": pid, "at_ns": at_ns, **about, **more}

    def report(self, pid: int, sent_ns: int, lease: str) -> Seen:
        """A report that this process has sent."""
        body = {"outputData": {"token": lease}}
        return Seen("t", lease, lease, "COMPLETED", False, pid, sent_ns, "none", body)

    def drop(self, kind: str, pid: int) -> None:
        """That line was never written."""
        self.lines = [line for line in self.lines if (line["kind"], line["pid"]) != (kind, pid)]

    def checks(self, directory: Path) -> Checks:
        """Return the result of the checks."""
        log = directory / "execution_log"
        log.write_text("".join(json.dumps(line) + "\n" for line in self.lines))
        return Checks(
            seed=1,
            seconds=1.0,
            execution_log=log,
            waiting=0,
            seen=self.seen,
            fates=Counter(),
            requests=Counter(),
            workflows=[{"workflowId": "w", "status": "COMPLETED", "tasks": [self.task]}],
            unfinished=set(),
            attacks=Counter(),
            full_disks_noticed=0,
            disks={},
            killed_pids=self.killed_pids,
            committed=self.committed,
        )


def test_a_lost_lease_explains_a_repeated_effect(tmp_path: Path) -> None:
    checks = Story().checks(tmp_path)
    assert checks.problems == []
    assert checks.figures()["repeated side effects"] == 1
    assert checks.figures()["of them because of"] == {"lease lost": 1}


def test_verdicts_on_two_executions_of_one_process_may_be_written_down_in_either_order(tmp_path: Path) -> None:
    story = Story()
    handed_back = {**story.lines[-1], "lease": "a", "token": "a"}
    story.lines[-1] = {**story.lines[-1], "verdict": "CANCELLED"}
    story.lines.append(handed_back)
    assert story.checks(tmp_path).disowned == []


def test_a_verdict_on_what_was_given_back_for_a_dead_process_is_no_result(tmp_path: Path) -> None:
    story = Story()
    story.lines.append(story._line("began", 3, 22, lease="c"))
    story.lines.append(story._line("lost", 3, 33, lease="c"))
    story.lines.append(story._line("verdict", 3, 34, lease="c", verdict="COMMITTED"))  # on `a`, which was given back
    story.seen.append(Seen("t", "a", "a", "IN_PROGRESS", False, 3, 31, "none", {}))
    assert story.checks(tmp_path).lost == []
    story.seen.pop()
    assert len(story.checks(tmp_path).lost) == 1


def test_a_result_that_was_left_to_the_journal_explains_one_too(tmp_path: Path) -> None:
    """The process that adopts the journal hears the verdict, and may have no listener."""
    story = Story()
    story.drop("lost", 1)
    story.drop("verdict", 1)
    story.lines.append(story._line("given up", 1, 40, lease="a", journaled=True))
    assert story.checks(tmp_path).problems == []


def test_a_killed_process_explains_one_too(tmp_path: Path) -> None:
    story = Story()
    story.drop("lost", 1)
    story.killed_pids = {1}
    assert story.checks(tmp_path).problems == []


def unexplained(story: Story) -> None:
    story.drop("lost", 1)


def twice_under_one_lease(story: Story) -> None:
    story.lines.insert(2, dict(story.lines[1]))


def speaks_on(story: Story) -> None:
    story.seen.append(story.report(1, 31, "a"))


def another_result(story: Story) -> None:
    story.task["outputData"] = {"token": "c"}


def committed_twice(story: Story) -> None:
    story.committed = {"t": ["a", "b"]}


def never_committed(story: Story) -> None:
    story.committed = {}


def not_ended(story: Story) -> None:
    story.task["status"] = "IN_PROGRESS"


def thinks_discarded(story: Story) -> None:
    story.lines[-1]["verdict"] = "CANCELLED"


def no_verdict(story: Story) -> None:
    story.drop("verdict", 2)
    story.task["outputData"] = {}


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (unexplained, "repeated for no reason"),
        (twice_under_one_lease, "task t had 2 effects under lease a"),
        (speaks_on, "pid 1 sent COMPLETED for task t"),
        (another_result, "task t was COMMITTED to pid 2, but the server has"),
        (committed_twice, "terminal COMMITTED reports ['a', 'b']"),
        (never_committed, "terminal COMMITTED reports None"),
        (not_ended, "but workflow w is over"),
        (thinks_discarded, "stored, but its worker thinks it was discarded"),
        (no_verdict, "no verdict came"),
    ],
)
def test_a_broken_promise_is_noticed(broken: Callable[[Story], None], said: str, tmp_path: Path) -> None:
    story = Story()
    broken(story)
    assert said in "\n".join(story.checks(tmp_path).problems)


def found(**changed: Any) -> Found:
    """A kill run of one workflow in which all is well, but for what is changed."""
    tasks = [
        {
            "taskId": f"t{n}",
            "workflowInstanceId": "w",
            "referenceTaskName": f"t{n}",
            "taskType": "work",
            "status": "COMPLETED",
            "outputData": {"token": n},
        }
        for n in range(BRANCHES)
    ]
    verdicts = [
        {"kind": "verdict", "verdict": "COMMITTED", "task": f"t{n}", "output": {"token": n}} for n in range(BRANCHES)
    ]
    whole: dict[str, Any] = {
        "seed": 1,
        "kills": 1,
        "execution_log": [{"kind": "started", "number": 0, "workflow": "w"}, *verdicts],
        "count": 1,
        "workflows": [{"workflowId": "w", "status": "COMPLETED", "tasks": tasks}],
    }
    return Found(**{**whole, **changed})


def test_kills_that_cost_nothing_break_no_promise() -> None:
    assert found().problems == []


def test_an_answered_start_that_is_gone_is_noticed() -> None:
    assert "workflow w was started and is not there" in found(workflows=[]).lost


def test_a_committed_output_that_is_another_is_noticed() -> None:
    fine = found()
    fine.workflows[0]["tasks"][3]["outputData"] = {"token": "another"}
    assert [line for line in fine.lost if "'task': 't3'" in line]


def test_a_second_workflow_of_one_start_is_noticed() -> None:
    assert found(count=2).twice == ["2 workflows of 1 starts"]


def test_the_same_seed_draws_the_same_attacks() -> None:
    def drawn(seed: int) -> list[str]:
        nobody: Any = None
        attacks = Attacks(Targets(nobody, nobody, []), random.Random(seed), (0, 0), 50)
        return [attacks.choose(number) for number in range(50)]

    assert drawn(1) == drawn(1) != drawn(2)
