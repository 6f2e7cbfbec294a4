"""A coordinator without HTTP for tests: a real SQLite file, and a clock that the test turns."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import msgspec

from conductor.coordinator.core import Core
from conductor.coordinator.definitions import task_defs, workflow_defs
from conductor.coordinator.definitions.workflow_defs import check_workflow_def
from conductor.coordinator.store.lookup import find_workflow
from conductor.coordinator.store.transaction import Notes
from conductor.coordinator.store.writer import Store
from conductor.coordinator.task_authority import Poll
from conductor.coordinator.tasks.task_report import Outcome, Report
from conductor.coordinator.views import task_views, workflow_views
from conductor.coordinator.workflows.effects import Start
from conductor.testing import FakeClock

Task = dict[str, Any]


def simple(name: str, ref: str | None = None, **more: Any) -> dict[str, Any]:
    return {"name": name, "taskReferenceName": ref or name, "type": "SIMPLE", **more}


class Harness:
    """A coordinator without a network. Every call is its own transaction."""

    def __init__(self, database: Path | str = ":memory:", clock: FakeClock | None = None) -> None:
        self.database = database
        self.clock = clock or FakeClock()
        self.notes: list[Notes] = []
        self.open()

    def open(self) -> None:
        self.store = Store(self.database, clock=self.clock)
        self.store.on_commit = self.notes.append
        self.core = Core(self.store, self.clock)

    def close(self) -> None:
        self.store.close()

    def restart(self) -> None:
        """The process ends and another one opens the same file."""
        self.close()
        self.open()

    def __enter__(self) -> Harness:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- definitions

    def task_def(self, name: str, **fields: Any) -> None:
        parsed = task_defs.parse_task_def({"name": name, **fields})
        self.store.call(lambda tx: task_defs.register_task_defs(tx, [parsed]))

    def workflow_def(self, name: str, *tasks: dict[str, Any], **fields: Any) -> None:
        checked = check_workflow_def({"name": name, "tasks": list(tasks), **fields})
        self.store.call(lambda tx: workflow_defs.put_workflow_def(tx, checked, overwrite=True))

    # -- workflows

    def start(self, name: str = "flow", **fields: Any) -> str:
        asked = Start(name=name, **fields)
        return self.store.call(lambda tx: tx.ids.workflow(self.core.workflows.executions.start(tx, asked)))

    def start_one(self, task: str = "work", *, task_def: dict[str, Any] | None = None, **fields: Any) -> str:
        """A workflow of one task."""
        if task_def is not None:
            self.task_def(task, **task_def)
        self.workflow_def(f"one_{task}", simple(task))
        return self.start(f"one_{task}", **fields)

    def workflow(self, workflow_id: str) -> dict[str, Any]:
        found = self.store.call(
            lambda tx: workflow_views.read_workflow(tx, self.core.reader.snapshots, workflow_id, with_tasks=True)
        )
        return msgspec.json.decode(msgspec.json.encode(found), type=dict[str, Any])

    def act(self, workflow_id: str, action: Any, **asked: Any) -> None:
        self.store.call(
            lambda tx: self.core.workflows.executions.act(tx, find_workflow(tx, workflow_id).pk, action, **asked)
        )

    def task(self, task_id: str) -> Task:
        found = self.store.call(lambda tx: task_views.read_task(tx, self.core.reader.snapshots, task_id))
        return msgspec.json.decode(msgspec.json.encode(found), type=Task)

    # -- what workers do

    def poll(self, task_type: str = "work", worker: str | None = "w1", count: int = 1, domain: str = "") -> list[Task]:
        poll = Poll(task_type, domain, worker, count, 0)
        found = self.store.call(lambda tx: self.core.tasks.poll_now(tx, poll))
        return msgspec.json.decode(msgspec.json.encode(found), type=list[Task])

    def poll_one(self, task_type: str = "work", worker: str | None = "w1", domain: str = "") -> Task:
        (task,) = self.poll(task_type, worker, 1, domain)
        return task

    def report(self, task: Task, status: str | None = "COMPLETED", **fields: Any) -> Outcome:
        said = {
            "taskId": task["taskId"],
            "workflowInstanceId": task["workflowInstanceId"],
            "workerId": task.get("workerId"),
            "leaseId": task.get("leaseId"),
            "status": status,
            **fields,
        }
        return self.send({key: value for key, value in said.items() if value is not None})

    def send(self, said: dict[str, Any]) -> Outcome:
        """Judge a report as the routes do: what is refused is an outcome too."""
        report = msgspec.convert(said, Report)
        return self.store.call(lambda tx: self.core.tasks.judge(tx, [report]))[0]

    def heartbeat(self, task: Task, **fields: Any) -> Outcome:
        return self.report(task, None, extendLease=True, **fields)

    # -- time

    def tick(self) -> int | None:
        return self.store.call(self.core.tick)

    def settle(self) -> int:
        """Let everything happen that need not wait for a later time; in how many transactions."""
        for count in itertools.count(1):
            again = self.tick()
            if again is None or again > self.clock.wall_ms():
                return count
        raise AssertionError

    def advance(self, seconds: float) -> None:
        """Let time pass and let the timer notice."""
        self.clock.advance(seconds)
        self.tick()
