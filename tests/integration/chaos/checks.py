"""The result of a chaos run: figures to print, and broken promises."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from .execution_log import read
from .proxy import Seen

#: Heartbeats have their own thread: one that was in flight when another thread got a verdict may be this late.
UNDER_WAY_NS = 100_000_000
_ENDED_BY_REPORT = ("COMPLETED", "FAILED", "FAILED_WITH_TERMINAL_ERROR")


def waiting_results(journals: Path) -> int:
    """Results in journals that have no verdict yet."""
    from conductor.client.automator.journal import read_contents

    def count(file: Path) -> int:
        try:
            return len(read_contents(file.read_bytes()).reports)
        except FileNotFoundError:
            return 0

    return sum(count(file) for file in journals.glob("*.journal"))


@dataclass
class Checks:
    """The run as four of its parts saw it: the workers' execution log, the network, the server, and the journals."""

    seed: int
    seconds: float
    execution_log: Path
    #: Results that still wait in a journal.
    waiting: int
    seen: list[Seen]
    fates: Counter[str]
    requests: Counter[str]
    workflows: list[dict[str, Any]]
    unfinished: set[str]
    attacks: Counter[str]
    #: Number of failed writes to a full disk.
    full_disks_noticed: int
    #: How each disk was filled, or why it was not.
    disks: dict[str, str]
    #: Worker processes that were killed.
    killed_pids: set[int]
    #: Drains that did not come to an end.
    stubborn: int = 0
    #: Processes of worker programs that outlived them.
    left_behind: list[str] = field(default_factory=list)
    exit_status: int = 0
    #: task id → ids of its terminal reports that the server calls COMMITTED
    committed: dict[str, list[str]] = field(default_factory=dict)

    def judge_again(self, send: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> None:
        """Ask the server again about every terminal report that ever left a worker: the same id, the same verdict."""
        reports = list({s.report: s.body for s in self.seen if s.report and s.status in _ENDED_BY_REPORT}.values())
        for at in range(0, len(reports), 500):
            part = reports[at : at + 500]
            for report, answer in zip(part, send(part), strict=True):
                if answer["verdict"] == "COMMITTED":
                    self.committed.setdefault(report["taskId"], []).append(report["reportId"])

    @cached_property
    def lines(self) -> dict[str, list[dict[str, Any]]]:
        """The execution log by kind."""
        kinds: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for line in read(self.execution_log):
            kinds[line["kind"]].append(line)
        return kinds

    @cached_property
    def tasks(self) -> dict[str, dict[str, Any]]:
        """Every task the server has, by id."""
        return {task["taskId"]: task for workflow in self.workflows for task in workflow["tasks"]}

    @cached_property
    def _effects(self) -> dict[tuple[int, str], list[dict[str, Any]]]:
        effects: dict[tuple[int, str], list[dict[str, Any]]] = defaultdict(list)
        for line in self.lines["effect"]:
            effects[line["job"], line["step"]].append(line)
        return effects

    @cached_property
    def repeated_effects(self) -> list[tuple[dict[str, Any], str | None]]:
        """Effects beyond the one of each step of each job that counts, each with why it was repeated."""
        repeated = []
        for effects in self._effects.values():
            counts = next((line for line in effects if line["token"] in self.stored_tokens), effects[-1])
            repeated += [(line, self._why_repeated(line)) for line in effects if line is not counts]
        return repeated

    def _why_repeated(self, effect: dict[str, Any]) -> str | None:
        """Return why the next worker could not know of this effect. None: the execution log has no reason."""
        about = effect["task"], effect["lease"]
        if about in self._lost_leases:
            return "lease lost"
        if effect["pid"] in self.killed_pids:
            return "process killed"
        said = self._reports_of.get(about)
        if said and said[-1].status not in _ENDED_BY_REPORT:
            return "handed back by a drain"
        if about in self.left_to_journal:
            return "left to the journal, and judged when another process sent it"
        return "given up without a journal" if about in self.given_up else None

    @cached_property
    def given_up(self) -> set[tuple[str, str | None]]:
        """Leases whose result could neither be sent nor kept, while the journal's disk was full: the log says LOST."""
        return {(line["task"], line.get("lease")) for line in self.lines["given up"] if not line["journaled"]}

    @cached_property
    def left_to_journal(self) -> set[tuple[str, str | None]]:
        """Leases whose result was given up and kept. The process that adopts the journal hears the verdict.

        That process may have no listener. `waiting` shows that no such result is left without a verdict.
        """
        return {(line["task"], line.get("lease")) for line in self.lines["given up"] if line["journaled"]}

    @cached_property
    def _lost_leases(self) -> dict[tuple[str, str | None], dict[str, Any]]:
        """Leases that a worker knew to be gone, and the line in which it first did."""
        lost: dict[tuple[str, str | None], dict[str, Any]] = {}
        for line in sorted([*self.lines["lost"], *self.lines["verdict"]], key=lambda line: line["at_ns"]):
            if line.get("verdict", "CANCELLED") == "CANCELLED" and (lease := self._lease_of(line)):
                lost.setdefault((line["task"], lease), line)
        return lost

    @property
    def unexplained(self) -> list[str]:
        """Effects that were repeated for no reason."""
        return [f"repeated for no reason that is known: {line}" for line, why in self.repeated_effects if why is None]

    @cached_property
    def done_twice(self) -> list[str]:
        """Steps of which the server has more than one COMPLETED task, and leases under which an effect came twice."""
        done = Counter((t["workflowInstanceId"], t["referenceTaskName"]) for t in self._in("COMPLETED"))
        leases = Counter((line["task"], line["lease"]) for line in self.lines["effect"] if line["lease"])
        return [
            *(f"{step} of workflow {id_} was COMPLETED {n} times" for (id_, step), n in done.items() if n > 1),
            *(f"task {id_} had {n} effects under lease {lease}" for (id_, lease), n in leases.items() if n > 1),
        ]

    @cached_property
    def not_ended(self) -> list[str]:
        """Tasks without an end in workflows that have one."""
        return [
            f"task {task['taskId']} is {task['status']}, but workflow {task['workflowInstanceId']} is over"
            for task in self._in("SCHEDULED", "IN_PROGRESS")
            if task["workflowInstanceId"] not in self.unfinished
        ]

    def _in(self, *statuses: str) -> list[dict[str, Any]]:
        return [task for task in self.tasks.values() if task["status"] in statuses]

    @property
    def verdicts(self) -> Counter[str]:
        """Count the verdicts of the workers and their lost leases."""
        told = Counter(str(line["verdict"]) for line in self.lines["verdict"])
        told["lease lost"] = len(self.lines["lost"])
        return told

    @cached_property
    def stored_tokens(self) -> set[str]:
        """Executions whose result the server has."""
        return {str(task.get("outputData", {}).get("token")) for task in self.tasks.values()}

    @cached_property
    def lost(self) -> list[str]:
        """Jobs without an end, and results that a worker was told are stored and are not."""
        return [f"workflow {id_} did not end" for id_ in self.unfinished] + [
            f"task {line['task']} was COMMITTED to pid {line['pid']}, but the server has {self.tasks.get(line['task'])}"
            for line in self.lines["verdict"]
            if line["verdict"] == "COMMITTED" and not self._is_stored(line)
        ]

    def _is_stored(self, line: dict[str, Any]) -> bool:
        task = self.tasks.get(line["task"])
        said = self._reports_of.get((line["task"], self._lease_of(line)), [])
        if task is None:
            return False
        if not said:
            # Nothing was said under this lease. The verdict is on another one of the task, which the process has given
            # back for a dead one: events name tasks, not leases.
            others = [seen for (id_, _), reports in self._reports_of.items() if id_ == line["task"] for seen in reports]
            return any(seen.status not in _ENDED_BY_REPORT for seen in others)
        if said[-1].status not in _ENDED_BY_REPORT:
            return True  # handed back: what the task comes to is the next holder's word
        wanted = said[-1].body.get("outputData", {}).get("token")
        return bool(task["status"] == said[-1].status and task.get("outputData", {}).get("token") == wanted)

    @cached_property
    def _reports_of(self) -> dict[tuple[str, str | None], list[Seen]]:
        reports: dict[tuple[str, str | None], list[Seen]] = defaultdict(list)
        for seen in self.seen:
            if not seen.beat:
                reports[seen.task, seen.lease].append(seen)
        return reports

    @cached_property
    def not_exactly_one(self) -> list[str]:
        """Tasks that ended by a report without exactly one COMMITTED one, and others that have any."""
        wrong = []
        for id_, task in self.tasks.items():
            wanted = 1 if task["status"] in _ENDED_BY_REPORT else 0
            if len(self.committed.get(id_, [])) != wanted:
                wrong.append(
                    f"task {id_} is {task['status']} with terminal COMMITTED reports {self.committed.get(id_)}"
                )
        return wrong

    @cached_property
    def spoken_after_cancelled(self) -> list[str]:
        """Requests about a lease that were sent after the worker knew it to be gone."""
        broken = []
        for seen in self.seen:
            told = self._lost_leases.get((seen.task, seen.lease))
            if told is not None and seen.sent_ns > told["at_ns"] + (UNDER_WAY_NS if seen.beat else 0):
                what, late_ms = "a heartbeat" if seen.beat else seen.status, (seen.sent_ns - told["at_ns"]) / 1e6
                broken.append(f"{late_ms:.1f} ms after {told} pid {seen.pid} sent {what} for task {seen.task}")
        return broken

    def _lease_of(self, line: dict[str, Any]) -> str | None:
        """The lease a process was told about: the one it held, or, of a dead one's result, the one it sent last."""
        sent = self._sent_by.get((line["pid"], line["task"]), [])
        return line.get("lease") or next((s.lease for s in reversed(sent) if s.sent_ns < line["at_ns"]), None)

    @cached_property
    def _sent_by(self) -> dict[tuple[int, str], list[Seen]]:
        sent: dict[tuple[int, str], list[Seen]] = defaultdict(list)
        for seen in self.seen:
            sent[seen.pid, seen.task].append(seen)
        return sent

    @cached_property
    def unheard(self) -> list[dict[str, Any]]:
        """Finished executions whose result is neither stored nor known to be discarded."""
        told = {(line["task"], self._lease_of(line)) for kind in ("verdict", "lost") for line in self.lines[kind]}
        told |= self.given_up | self.left_to_journal
        return [
            line
            for line in self.lines["ended"]
            if line["token"] not in self.stored_tokens and (line["task"], line.get("lease")) not in told
        ]

    def _lived(self, line: dict[str, Any]) -> bool:
        return line["pid"] not in self.killed_pids

    @cached_property
    def disowned(self) -> list[dict[str, Any]]:
        """Results that the server has although their worker was told, or concluded, that they were discarded.

        Events name tasks, not leases. A process that hands a task back and gets it again while the answer to that is
        lost may hear of the two in any order, and write each down under the other: one that has heard COMMITTED about
        the task does not think so.
        """
        gone = {line.get("token"): line for line in self.lines["lost"]}
        gone |= {line.get("token"): line for line in self.lines["verdict"] if line["verdict"] == "CANCELLED"}
        heard = {(line["pid"], line["task"]) for line in self.lines["verdict"] if line["verdict"] == "COMMITTED"}
        stored = [line for token, line in gone.items() if token in self.stored_tokens]
        return [line for line in stored if (line["pid"], line["task"]) not in heard]

    @property
    def rejected(self) -> int:
        """Reports that were REJECTED although no other report of their task was accepted.

        While the disk of the journals is full, a finished task cannot be removed there. It is returned a second time
        when another process adopts the journal, which is REJECTED and has no effect.
        """
        accepted = {line["task"] for line in self.lines["verdict"] if line["verdict"] == "COMMITTED"}
        refused = [line["task"] for line in self.lines["verdict"] if line["verdict"] == "REJECTED"]
        return sum(task not in accepted for task in refused)

    @property
    def timed_out_unrun(self) -> list[str]:
        """Tasks that ended by their task timeout although their function was never called."""
        began = {line["task"] for line in self.lines["began"]}
        late = [task for task in self._in("TIMED_OUT") if task["taskId"] not in began]
        return [f"{task['taskId']} {task['reasonForIncompletion']}" for task in late if "timed out after" in str(task)]

    @property
    def problems(self) -> list[str]:
        """Every broken promise."""
        return [
            *self.lost,
            *self.not_ended,
            *self.not_exactly_one,
            *self.done_twice,
            *self.spoken_after_cancelled,
            *self.unexplained,
            *(f"timed out, and never ran: {task}" for task in self.timed_out_unrun),
            *(f"stored, but its worker thinks it was discarded: {line}" for line in self.disowned),
            *(f"nobody was killed, and no verdict came: {line}" for line in self.unheard if self._lived(line)),
            *([f"{self.waiting} results still wait in the journal"] if self.waiting else []),
            *([f"{self.rejected} reports were REJECTED"] if self.rejected else []),
            *([f"{self.stubborn} times a program did not end after SIGTERM"] if self.stubborn else []),
            *(f"left behind: {process}" for process in self.left_behind),
            *([f"the coordinator ended with {self.exit_status}"] if self.exit_status else []),
        ]

    def figures(self) -> dict[str, object]:
        """Return the lines to print."""
        states = Counter(workflow["status"] for workflow in self.workflows)
        return {
            "seed": self.seed,
            "seconds": round(self.seconds, 1),
            "workflows": dict(states),
            "tasks started": len(self.tasks),
            "tasks ended": len(self.tasks) - len(self._in("SCHEDULED", "IN_PROGRESS")),
            "attacks": dict(self.attacks),
            "full disks noticed": self.full_disks_noticed,
            "full disks by": self.disks,
            "requests": self.requests.total(),
            "of them bad": {name: n for name, n in self.fates.items() if name != "none"},
            "executions begun": len(self.lines["began"]),
            "executions finished": len(self.lines["ended"]),
            "verdicts": dict(self.verdicts),
            "reports that all attempts failed": len(self.lines["given up"]),
            "side effects": len(self.lines["effect"]),
            "repeated side effects": len(self.repeated_effects),
            "of them because of": dict(Counter(str(why) for _, why in self.repeated_effects)),
            "lost": len(self.lost),
            "tasks without exactly one COMMITTED": len(self.not_exactly_one),
            "steps done twice": len(self.done_twice),
            "requests after CANCELLED": len(self.spoken_after_cancelled),
            "repeated without a reason": len(self.unexplained),
            "timed out and never ran": len(self.timed_out_unrun),
            "finished and unheard of": len(self.unheard),
            "stored but thought discarded": len(self.disowned),
            "results left in journals": self.waiting,
            "processes left behind": len(self.left_behind),
            "programs that did not end": self.stubborn,
        }

    def keep(self, directory: Path) -> None:
        """Write the data of the server and of the network to files, for a search for the cause."""
        (directory / "workflows.json").write_text(json.dumps(self.workflows))
        (directory / "seen.json").write_text(json.dumps([seen._asdict() for seen in self.seen]))

    def report(self) -> str:
        """The figures as lines."""
        return "\n".join(f"{name:>36}: {value}" for name, value in self.figures().items())
