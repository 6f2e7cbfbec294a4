"""`conductor-worker tail`: print events of workflows and tasks as they happen."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any, NamedTuple

import typer

from conductor.cli import newest_workflows
from conductor.cli.console import print_line, silence_logger, truncate
from conductor.cli.server_kind import describe_error, open_client
from conductor.cli.support import Url, UserError, make_configuration
from conductor.client.configuration.configuration import Configuration
from conductor.client.http.async_api_client import AsyncApiClient
from conductor.client.http.async_rest import ConductorError, NotFoundException
from conductor.common.text import escape
from conductor.protocol.statuses import TERMINAL_TASK_STATUSES, TERMINAL_WORKFLOW_STATUSES, WorkflowStatus
from conductor.protocol.views import WorkflowEntry

#: Each round lists this many of the newest workflows.
MAX_LISTED = 100
#: At most this many open workflows are followed.
MAX_FOLLOWED = 1000
#: Each round reads at most this many of the open workflows.
MAX_READ = 100
#: Number of workflow ids that are remembered, so that the start of each workflow is printed once.
MAX_KNOWN = 10 * MAX_FOLLOWED
#: Number of characters of an id that a line shows; --json has all of them.
SHORT_ID = 8
WORKFLOW_STARTED = "workflow started"
OPEN = (WorkflowStatus.RUNNING, WorkflowStatus.PAUSED)


class TailEvent(NamedTuple):
    """The start or end of a workflow, or a change of a task."""

    at_ms: int
    what: str
    workflow: str
    workflow_id: str
    task: str | None = None
    task_type: str | None = None
    task_id: str | None = None
    worker_id: str | None = None
    reason: str | None = None
    correlation_id: str | None = None
    parent_id: str | None = None

    @property
    def short_id(self) -> str:
        """The end of the workflow's id. The beginning is the same for all workflows of a server."""
        return f"…{self.workflow_id[-SHORT_ID:]}"

    def line(self) -> str:
        at = datetime.fromtimestamp(self.at_ms / 1000).astimezone().strftime("%H:%M:%S")
        of = f"  {self.task}" if self.task else ""
        by = f" by {self.worker_id}" if self.worker_id and self.what == "started" else ""
        because = f": {' '.join(self.reason.split())}" if self.reason else ""
        return escape(f"{at}  {self.workflow} {self.short_id}{of}  {self.what}{by}{because}")

    def to_json(self) -> str:
        return json.dumps({name: value for name, value in self._asdict().items() if value is not None})


class WorkflowFollower:
    """Polls a server and returns new events. The cost of a round does not depend on the number of ended workflows."""

    def __init__(self, api: AsyncApiClient, name: str | None) -> None:
        self._api = api
        self._name = name
        #: The ids of workflows that earlier rounds have listed, as an ordered set. Other workflows are new, unless they
        #: started before `_since_ms`.
        self._known: dict[str, None] = {}
        self._since_ms = 0
        #: Open workflows and their printed events; the workflow that was read least recently comes first.
        self._open: dict[str, set[tuple[str, str]]] = {}
        #: Events that were read but not returned yet. They are kept if a server error interrupts the round.
        self._events: list[TailEvent] = []
        self._first = True
        #: Whether this is a Conductor server, whose search lists the workflows.
        self.uses_search = False
        #: Warnings about missing or late events, by topic.
        self.warnings: dict[str, str] = {}

    async def read_events(self) -> list[TailEvent]:
        """Return the events since the last round, in order. The first round returns none."""
        self.warnings = {}
        for entry in reversed(await self._find_new()):
            self._known[entry.workflow_id] = None
            if not (self._first and entry.status in TERMINAL_WORKFLOW_STATUSES):
                self._open.setdefault(entry.workflow_id, set())
        for workflow_id in list(self._known)[:-MAX_KNOWN]:
            del self._known[workflow_id]
        for workflow_id in list(self._open)[:-MAX_FOLLOWED]:
            del self._open[workflow_id]
            self._warn_of_too_many_open()
        if len(self._open) > MAX_READ:
            rounds = -(-len(self._open) // MAX_READ)
            self.warnings["late"] = (
                f"{len(self._open):,} workflows are open and each round reads {MAX_READ}: "
                f"events may be {rounds} rounds late"
            )
        # The first round reads every open workflow, to know which events are old.
        for workflow_id in list(self._open)[: None if self._first else MAX_READ]:
            self._events += await self._read_workflow(workflow_id)
        if self._first:
            self._first, self._events = False, []
        events, self._events = sorted(self._events, key=_sort_key), []
        return events

    async def _find_new(self) -> list[WorkflowEntry]:
        """Return the workflows that started since the last round, newest first."""
        found = await self._find_newest(MAX_LISTED)
        if self._first:
            opened = await self._find_newest(MAX_FOLLOWED, OPEN)
            if opened.more:
                self._warn_of_too_many_open()
            self._since_ms = min((entry.start_time for entry in found.entries), default=0)
            return [*found.entries, *opened.entries]
        if found.more and not any(entry.workflow_id in self._known for entry in found.entries):
            # None of the newest MAX_LISTED workflows is known, so more than that have started. Search further back.
            found = await self._find_newest(MAX_FOLLOWED)
            if found.more and not any(entry.workflow_id in self._known for entry in found.entries):
                self.warnings["started"] = (
                    f"more than {MAX_FOLLOWED:,} workflows have started since the last round: the others are left out"
                )
        return [entry for entry in found.entries if self._is_new(entry)]

    def _is_new(self, entry: WorkflowEntry) -> bool:
        return entry.workflow_id not in self._known and entry.start_time >= self._since_ms

    async def _find_newest(self, size: int, statuses: tuple[str, ...] = ()) -> newest_workflows.FoundWorkflows:
        wanted = newest_workflows.WorkflowFilter(statuses=statuses, name=self._name, size=size)
        found = await newest_workflows.find_newest(self._api, wanted)
        self.uses_search = found.limitation is not None
        return found

    def _warn_of_too_many_open(self) -> None:
        self.warnings["unfollowed"] = f"more than {MAX_FOLLOWED:,} workflows are open: the others are left out"

    async def _read_workflow(self, workflow_id: str) -> list[TailEvent]:
        path = f"/workflow/{workflow_id}?includeTasks=true"
        try:
            if self.uses_search:
                workflow = await self._api.call_for(dict[str, Any], "GET", path)
                tasks = workflow.get("tasks") or []
            else:
                view = await self._api.call_for(dict[str, Any], "GET", f"/view{path.split('?')[0]}?definition=false")
                workflow, tasks = view["workflow"], view["tasks"]
        except NotFoundException:  # the workflow was removed after it was listed
            del self._open[workflow_id]
            return []
        printed = self._open[workflow_id] = self._open.pop(workflow_id)  # move to the end of `_open`
        found = [
            *_workflow_events(workflow, workflow_id),
            *(event for task in tasks for event in _task_events(task)),
        ]
        events = [
            event._replace(
                workflow=str(workflow.get("workflowName") or "?"),
                workflow_id=workflow_id,
                correlation_id=workflow.get("correlationId"),
                parent_id=workflow.get("parentWorkflowId") or None,
            )
            for event in found
            if (event.task_id or "", event.what) not in printed
        ]
        printed.update((event.task_id or "", event.what) for event in events)
        if workflow["status"] in TERMINAL_WORKFLOW_STATUSES:
            del self._open[workflow_id]
        return events


def _workflow_events(workflow: dict[str, Any], workflow_id: str) -> Iterator[TailEvent]:
    started_ms = int(workflow.get("startTime") or workflow.get("createTime") or 0)
    yield TailEvent(started_ms, WORKFLOW_STARTED, "", workflow_id)
    status = str(workflow["status"])
    if status in TERMINAL_WORKFLOW_STATUSES:
        ended_ms = int(workflow.get("endTime") or workflow.get("updateTime") or 0)
        reason = workflow.get("reasonForIncompletion")
        yield TailEvent(ended_ms, f"workflow {_to_words(status)}", "", workflow_id, reason=reason)


def _task_events(task: dict[str, Any]) -> Iterator[TailEvent]:
    """Return the events of a task, with the server's times. Accepts a task of the coordinator's view or a `Task`."""
    status = str(task["status"])
    scheduled = TailEvent(
        int(task.get("scheduledMs") or task.get("scheduledTime") or 0),
        "scheduled",
        "",
        "",
        task=str(task.get("ref") or task.get("referenceTaskName")),
        task_type=str(task.get("name") or task.get("taskDefName") or task.get("taskType")),
        task_id=str(task["taskId"]),
        worker_id=task.get("workerId"),
    )
    yield scheduled
    if started_ms := int(task.get("startedMs") or task.get("startTime") or 0):
        yield scheduled._replace(at_ms=started_ms, what="started")
    if status in TERMINAL_TASK_STATUSES:
        ended_ms = int(task.get("endedMs") or task.get("endTime") or task.get("updateTime") or 0)
        reason = task.get("reason") or task.get("reasonForIncompletion")
        yield scheduled._replace(at_ms=ended_ms, what=_to_words(status), reason=reason)


def _sort_key(event: TailEvent) -> tuple[int, int]:
    """Return a sort key: the time, and within a millisecond the order in which the events must have happened."""
    ranks = {WORKFLOW_STARTED: 0, "scheduled": 1, "started": 2}
    return event.at_ms, ranks.get(event.what, 3 if event.task_id else 4)


def _to_words(status: str) -> str:
    return status.lower().replace("_", " ")


def tail(
    name: Annotated[
        str | None, typer.Argument(metavar="WORKFLOW", help="Only workflows of this name.", show_default=False)
    ] = None,
    url: Url = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
    interval: Annotated[float, typer.Option(min=0.1, max=3600, help="Seconds between two reads of the server.")] = 1.0,
) -> None:
    """Print events of workflows and tasks as they happen.

    Each event is one line, cut to the width of the terminal. Stop with Ctrl-C.

    The command follows up to 1,000 open workflows and reads 100
    of them in each round. If the command leaves events out, it prints a warning.
    """
    configuration = make_configuration(url)
    with silence_logger("conductor.client.http.access_token"):
        try:
            asyncio.run(_follow(configuration, name, as_json, interval))
        except ConductorError as error:
            raise UserError(f"cannot read from {configuration.shown_host}: {describe_error(error)}") from None


async def _follow(configuration: Configuration, name: str | None, as_json: bool, interval_s: float) -> None:
    async with open_client(configuration) as api:
        follower = WorkflowFollower(api, name)
        await follower.read_events()
        printed = _print_warnings(follower.warnings, set())
        what = f"workflows {name}" if name else "all workflows"
        note = ""
        if follower.uses_search:
            note = " The search of this server may lag, and a postponed task is printed only once."
        # Print on standard error, because standard output is reserved for events.
        typer.echo(escape(f"Following {what} on {configuration.shown_host}. Press Ctrl-C to stop.{note}"), err=True)
        while True:
            await asyncio.sleep(interval_s)
            try:
                events = await follower.read_events()
            except ConductorError as error:
                what = f"cannot read from {configuration.shown_host}: {describe_error(error)}"
                typer.echo(escape(f"{what}; trying again"), err=True)
                continue
            for event in events:
                print_line(event.to_json() if as_json else _fit(event.line()))
            printed = _print_warnings(follower.warnings, printed)


def _fit(line: str) -> str:
    return truncate(line, os.get_terminal_size().columns) if sys.stdout.isatty() else line


def _print_warnings(warnings: dict[str, str], printed: set[str]) -> set[str]:
    """Print the warnings that were not printed after the last round, and return the topics of all warnings."""
    for topic, sentence in warnings.items():
        if topic not in printed:
            typer.echo(f"{sentence}.", err=True)
    return set(warnings)
