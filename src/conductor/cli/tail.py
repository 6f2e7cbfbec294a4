"""`conductor-worker tail`: what happens, as it happens."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any, NamedTuple

import typer

from conductor.cli import newest_workflows
from conductor.cli.console import quiet, say
from conductor.cli.server_kind import asking, why
from conductor.cli.support import Url, UserError, configuration_of
from conductor.client.configuration.configuration import Configuration
from conductor.client.http.async_api_client import AsyncApiClient
from conductor.client.http.async_rest import ConductorError, NotFoundException
from conductor.common.text import escape
from conductor.protocol.statuses import TERMINAL_TASK_STATUSES, TERMINAL_WORKFLOW_STATUSES
from conductor.protocol.views import WorkflowEntry

#: So many of the newest workflows are asked for in a round.
NEWEST = 100
#: So many open ones are followed,
FOLLOWED = 1000
#: and so many of them are looked at in a round, one after the other.
LOOKED_AT = 100
#: So many are remembered, so that none is told twice.
KNOWN = 10 * FOLLOWED
OPEN = ("RUNNING", "PAUSED")


class Event(NamedTuple):
    """Something that happened."""

    at_ms: int
    what: str
    workflow: str
    workflow_id: str
    task: str | None = None
    task_type: str | None = None
    task_id: str | None = None
    worker_id: str | None = None
    reason: str | None = None

    def line(self) -> str:
        """For people."""
        at = datetime.fromtimestamp(self.at_ms / 1000).astimezone().strftime("%H:%M:%S.%f")[:-3]
        of = f"  {self.task} ({self.task_type}, {self.task_id})" if self.task else ""
        by = f" by {self.worker_id}" if self.worker_id and self.what == "started" else ""
        because = f": {self.reason}" if self.reason else ""
        return escape(f"{at}  {self.workflow} {self.workflow_id}{of}  {self.what}{by}{because}")

    def to_json(self) -> str:
        """For programs."""
        return json.dumps({name: value for name, value in self._asdict().items() if value is not None})


class Tail:
    """Looks again and again, and tells what is new. Each round costs the same, however much is finished."""

    def __init__(self, api: AsyncApiClient, name: str | None) -> None:
        self._api = api
        self._name = name
        #: The workflows that were seen, the last ones of them; what started before is not new, wherever it turns up.
        self._known: dict[str, None] = {}
        self._since_ms = 0
        #: Open workflows and what was told of them; the one that was not looked at for longest is the first.
        self._open: dict[str, set[tuple[str, str]]] = {}
        #: What is to be told: a server that fails in the middle of a round takes nothing along.
        self._events: list[Event] = []
        self._first = True
        #: Whether the server is a plain one: only its search says what there is.
        self.plain = False
        #: What is not told, or late, by what it is about; a sentence each.
        self.left_out: dict[str, str] = {}

    async def round(self) -> list[Event]:
        """What has happened since the last round, in order. The first round only learns what is there."""
        self.left_out = {}
        for entry in reversed(await self._new()):
            self._known[entry.workflow_id] = None
            if not (self._first and entry.status in TERMINAL_WORKFLOW_STATUSES):
                self._open.setdefault(entry.workflow_id, set())
        for workflow_id in list(self._known)[:-KNOWN]:
            del self._known[workflow_id]
        for workflow_id in list(self._open)[:-FOLLOWED]:
            del self._open[workflow_id]
            self._unfollowed()
        if len(self._open) > LOOKED_AT:
            rounds = -(-len(self._open) // LOOKED_AT)
            self.left_out["late"] = (
                f"{len(self._open):,} workflows are open and {LOOKED_AT} are looked at in a round: "
                f"what happens may be told {rounds} rounds late"
            )
        # All of them at first: what has happened before is not told, so it must be known.
        for workflow_id in list(self._open)[: None if self._first else LOOKED_AT]:
            self._events += await self._news_of(workflow_id)
        if self._first:
            self._first, self._events = False, []
        events, self._events = sorted(self._events, key=_in_order), []
        return events

    async def _new(self) -> list[WorkflowEntry]:
        """Workflows that were not there in the last round, the newest first."""
        found = await self._newest(NEWEST)
        if self._first:
            opened = await self._newest(FOLLOWED, OPEN)
            if opened.more:
                self._unfollowed()
            self._since_ms = min((entry.start_time for entry in found.entries), default=0)
            return [*found.entries, *opened.entries]
        if found.more and not any(entry.workflow_id in self._known for entry in found.entries):
            found = await self._newest(FOLLOWED)  # many have started since
            if found.more and not any(entry.workflow_id in self._known for entry in found.entries):
                self.left_out["started"] = (
                    f"more than {FOLLOWED:,} workflows have started since the last look: the others are left out"
                )
        return [entry for entry in found.entries if self._is_new(entry)]

    def _is_new(self, entry: WorkflowEntry) -> bool:
        return entry.workflow_id not in self._known and entry.start_time >= self._since_ms

    async def _newest(self, size: int, statuses: tuple[str, ...] = ()) -> newest_workflows.Found:
        asked = newest_workflows.Asked(statuses=statuses, name=self._name, size=size)
        found = await newest_workflows.find_recent(self._api, asked)
        self.plain = found.cannot_tell is not None
        return found

    def _unfollowed(self) -> None:
        self.left_out["unfollowed"] = f"more than {FOLLOWED:,} workflows are open: the others are left out"

    async def _news_of(self, workflow_id: str) -> list[Event]:
        path = f"/workflow/{workflow_id}?includeTasks=true"
        try:
            if self.plain:
                workflow = await self._api.call_for(dict[str, Any], "GET", path)
                tasks = workflow.get("tasks") or []
            else:
                seen = await self._api.call_for(dict[str, Any], "GET", f"/view{path.split('?')[0]}?definition=false")
                workflow, tasks = seen["workflow"], seen["tasks"]
        except NotFoundException:  # forgotten meanwhile
            del self._open[workflow_id]
            return []
        told = self._open[workflow_id] = self._open.pop(workflow_id)  # the last one, from now on
        happened = [*_of_workflow(workflow, workflow_id), *(event for task in tasks for event in _of_task(task))]
        events = [
            event._replace(workflow=str(workflow.get("workflowName") or "?"), workflow_id=workflow_id)
            for event in happened
            if (event.task_id or "", event.what) not in told
        ]
        told.update((event.task_id or "", event.what) for event in events)
        if workflow["status"] in TERMINAL_WORKFLOW_STATUSES:
            del self._open[workflow_id]
        return events


def _of_workflow(workflow: dict[str, Any], workflow_id: str) -> Iterator[Event]:
    yield Event(int(workflow.get("startTime") or workflow.get("createTime") or 0), "workflow started", "", workflow_id)
    status = str(workflow["status"])
    if status in TERMINAL_WORKFLOW_STATUSES:
        ended_ms = int(workflow.get("endTime") or workflow.get("updateTime") or 0)
        reason = workflow.get("reasonForIncompletion")
        yield Event(ended_ms, f"workflow {_words(status)}", "", workflow_id, reason=reason)


def _of_task(task: dict[str, Any]) -> Iterator[Event]:
    """Scheduled, started, ended: as far as it is, with the times that the server gives. Both kinds of server."""
    status = str(task["status"])
    known = Event(
        int(task.get("scheduledMs") or task.get("scheduledTime") or 0),
        "scheduled",
        "",
        "",
        task=str(task.get("ref") or task.get("referenceTaskName")),
        task_type=str(task.get("name") or task.get("taskDefName") or task.get("taskType")),
        task_id=str(task["taskId"]),
        worker_id=task.get("workerId"),
    )
    yield known
    if started_ms := int(task.get("startedMs") or task.get("startTime") or 0):
        yield known._replace(at_ms=started_ms, what="started")
    if status in TERMINAL_TASK_STATUSES:
        ended_ms = int(task.get("endedMs") or task.get("endTime") or task.get("updateTime") or 0)
        reason = task.get("reason") or task.get("reasonForIncompletion")
        yield known._replace(at_ms=ended_ms, what=_words(status), reason=reason)


def _in_order(event: Event) -> tuple[int, int]:
    """By time; of one millisecond, as it must have been."""
    ranks = {"workflow started": 0, "scheduled": 1, "started": 2}
    return event.at_ms, ranks.get(event.what, 3 if event.task_id else 4)


def _words(status: str) -> str:
    return status.lower().replace("_", " ")


def tail(
    name: Annotated[
        str | None, typer.Argument(metavar="WORKFLOW", help="Only workflows of this name.", show_default=False)
    ] = None,
    url: Url = None,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON object a line, for programs.")] = False,
    interval: Annotated[float, typer.Option(min=0.1, max=3600, help="Seconds between two looks.")] = 1.0,
) -> None:
    """Tell what happens, as it happens: workflows that start and end, tasks that are scheduled, started and ended.

    Until Ctrl-C. Up to 1,000 open workflows are followed, 100 of them in each look; what is left out is said.
    """
    configuration = configuration_of(url)
    with quiet("conductor.client.http.access_token"):
        try:
            asyncio.run(_tell(configuration, name, as_json, interval))
        except ConductorError as error:
            raise UserError(f"{configuration.shown_host} cannot be asked: {why(error)}") from None


async def _tell(configuration: Configuration, name: str | None, as_json: bool, interval_s: float) -> None:
    async with asking(configuration) as api:
        following = Tail(api, name)
        await following.round()
        told = _tell_left_out(following, set())
        what = f"workflows {name}" if name else "all workflows"
        plain = " Its search may be late, and a task that was handed back is told once." if following.plain else ""
        # To where errors go: the output is events alone.
        typer.echo(escape(f"Following {what} on {configuration.shown_host}. Ctrl-C ends.{plain}"), err=True)
        while True:
            await asyncio.sleep(interval_s)
            try:
                events = await following.round()
            except ConductorError as error:
                typer.echo(escape(f"{configuration.shown_host} cannot be asked: {why(error)}; asking again"), err=True)
                continue
            for event in events:
                say(event.to_json() if as_json else event.line())
            told = _tell_left_out(following, told)


def _tell_left_out(following: Tail, told: set[str]) -> set[str]:
    """Each thing once, for as long as it is so. What was told."""
    for what, sentence in following.left_out.items():
        if what not in told:
            typer.echo(f"{sentence}.", err=True)
    return set(following.left_out)
