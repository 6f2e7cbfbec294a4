"""`conductor-worker workflow list`, `show`, `start` and `wait`."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import time
from collections.abc import Collection, Sequence
from typing import Annotated, Any

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from conductor.cli.console import (
    align_columns,
    make_console,
    print_json,
    print_line,
    print_table,
    print_value,
    to_sentence,
    truncate,
)
from conductor.cli.graph import Line, draw, print_lines, sign
from conductor.cli.newest_workflows import FoundWorkflows, WorkflowFilter, find_newest
from conductor.cli.start_many import read_requests, start_many
from conductor.cli.support import (
    AsJson,
    Url,
    UserError,
    call_server,
    examples,
    find_web_ui,
    parse_json_object,
    print_web_ui,
    show_web_ui,
    suggest,
)
from conductor.cli.times import TIME_FORMATS, format_age, format_time, now_ms, parse_time
from conductor.cli.workflow_details import WorkflowReport, read_workflow, to_json_value
from conductor.client.http.async_api_client import AsyncApiClient
from conductor.client.http.endpoint import quote_segment
from conductor.client.http.errors import ConductorError, NotFoundException
from conductor.client.http.models.start_workflow_request import StartWorkflowRequest
from conductor.client.http.models.workflow import Workflow
from conductor.client.metadata_client import AsyncMetadataClient
from conductor.client.workflow_client import AsyncWorkflowClient
from conductor.common.text import escape
from conductor.protocol.statuses import TERMINAL_TASK_STATUSES, TERMINAL_WORKFLOW_STATUSES, WorkflowStatus
from conductor.protocol.views import TaskAttempt, WorkflowEntry
from conductor.protocol.why_waiting import format_duration

STATUSES = (WorkflowStatus.RUNNING, WorkflowStatus.PAUSED, *sorted(TERMINAL_WORKFLOW_STATUSES))
#: First interval between two reads of a workflow in `wait`, short because most workflows end soon.
FIRST_LOOK_S = 0.1
#: After this time, `wait` prints why a workflow waits, each time the reason changes.
EXPLAIN_AFTER_S = 2.0
_NUMBERS = re.compile(r"\d+")
#: Interval between two reads of a workflow in `show --follow`.
FOLLOW_S = 0.5
#: Types of tasks that a person or a program completes.
COMPLETED_BY_HAND = ("WAIT", "HUMAN")
#: Longest interval between two reads of a workflow in `wait`.
LONGEST_LOOK_S = 2.0

FAILED = (WorkflowStatus.FAILED, WorkflowStatus.TIMED_OUT)
#: A terminal with at least this many columns shows correlation ids.
WIDE = 110
HEADS = ["status", "workflow", "id", "started", "took", "correlation id", "why"]
NAME, CORRELATION_ID, WHY = 1, 5, 6
#: Names and correlation ids are never cut to fewer columns than this.
MIN_COLUMN = 8

#: `workflow list` prints at most this many remedies, each with at most this many steps.
MAX_REMEDIES = 3
MAX_NAMES = 3

WorkflowId = Annotated[str, typer.Argument(metavar="ID", help="Id of the workflow.", show_default=False)]
WorkflowIds = Annotated[list[str], typer.Argument(metavar="ID", help="Ids of the workflows.", show_default=False)]
Timeout = Annotated[
    float | None,
    typer.Option(
        "--timeout", min=0, help="Wait at most this many seconds, then exit with status 1.", show_default=False
    ),
]


@examples(
    "workflow list --status FAILED --since 2h",
    "workflow list --name order_flow --status RUNNING,PAUSED --size 100",
    "workflow list --json --status FAILED | jq -r '.[].workflowId' | xargs conductor-worker workflow retry",
)
def list_(
    status: Annotated[
        list[str] | None,
        typer.Option(
            help=f"Only workflows with this status: {', '.join(STATUSES)}; separate several with commas.",
            show_default=False,
            metavar="STATUS",
        ),
    ] = None,
    name: Annotated[str | None, typer.Option(help="Only workflows of this name.", show_default=False)] = None,
    correlation_id: Annotated[
        str | None, typer.Option(help="Only workflows with this correlation id.", show_default=False)
    ] = None,
    text: Annotated[
        str | None,
        typer.Option(help="An id, or a part of a name or correlation id; on a Conductor server a search in its index."),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="TIME", help=f"Only workflows that started since: {TIME_FORMATS}.", show_default=False),
    ] = None,
    size: Annotated[int, typer.Option(min=1, max=100_000, help="Maximum number of workflows, newest first.")] = 20,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """List the newest workflows, and why each one waits."""
    wanted = WorkflowFilter(
        statuses=read_statuses(status or []),
        name=name,
        correlation_id=correlation_id,
        text=text,
        since_ms=None if since is None else parse_time(since, "--since"),
        size=size,
    )
    found = call_server(url, lambda api: find_newest(api, wanted))
    if as_json:
        print_json(to_json_value(found.entries))
        return
    if found.entries:
        _print_list(found)
    else:
        print_line("There are no such workflows." if wanted != WorkflowFilter(size=size) else "There are no workflows.")
    if any(entry.status in FAILED for entry in found.entries):
        typer.echo(
            "`conductor-worker workflow show ID` shows the failed task; `workflow retry ID` retries it.", err=True
        )
    remedies = [Line("", "  ", Text(line)) for line in list_remedies(found.entries)]
    print_lines(Console(stderr=True, highlight=False), remedies)
    show_web_ui(url, f"/?status={','.join(wanted.statuses)}" if wanted.statuses else "/")


def list_remedies(entries: Sequence[WorkflowEntry]) -> list[str]:
    """Return what helps the open workflows, each remedy with the steps that wait for it."""
    steps: dict[str, dict[str, None]] = {}
    for entry in entries:
        waiting = entry.waiting
        if waiting is not None and waiting.remedy and entry.status not in TERMINAL_WORKFLOW_STATUSES:
            steps.setdefault(waiting.remedy, {})[waiting.ref or entry.name] = None
    listed = [
        f"{', '.join([*names][:MAX_NAMES])}{', ...' if len(names) > MAX_NAMES else ''}: {remedy}"
        for remedy, names in steps.items()
    ]
    more = ["`conductor-worker workflow show ID` prints the remedies of the others."]
    return [*map(escape, listed[:MAX_REMEDIES]), *(more if len(listed) > MAX_REMEDIES else [])]


def read_statuses(values: Sequence[str], allowed: Collection[str] = STATUSES) -> tuple[str, ...]:
    """Return the statuses in the values of an option, which may be separated by commas and in lower case."""
    names = tuple(name.strip().upper() for one in values for name in one.split(",") if name.strip())
    for name in names:
        if name not in allowed:
            raise UserError(f"--status: {name!r} is not one of {', '.join(sorted(allowed))}")
    return names


def _print_list(found: FoundWorkflows) -> None:
    console, now = make_console(), now_ms()
    rows = [_row(entry, now) for entry in found.entries]
    if console.is_terminal:
        _print_rows(console, rows)
    else:
        print_table(HEADS, rows)
    if found.more:
        of = f" of {found.total:,}" if found.total else ""
        console.print(Text(f"The newest {len(found.entries):,}{of}: --size shows more.", style="dim"), soft_wrap=True)
    if found.limitation:
        console.print(Text(to_sentence(found.limitation), style="dim"), soft_wrap=True)


def _row(entry: WorkflowEntry, now: int) -> list[str]:
    took = format_duration(entry.end_time - entry.start_time) if entry.end_time and entry.start_time else ""
    status = f"{sign(entry.status)[0]} {entry.status}"
    name, started = f"{entry.name} v{entry.version}", format_age(entry.start_time, now)
    return [
        escape(cell) for cell in (status, name, entry.workflow_id, started, took, entry.correlation_id or "", entry.why)
    ]


def _print_rows(console: Console, rows: list[list[str]]) -> None:
    """Print a table, with the reason below each row.

    Names are cut to fit the terminal; ids are not, because users copy them.
    """
    end = CORRELATION_ID + 1 if console.width >= WIDE else CORRELATION_ID
    table = [HEADS[:end], *(row[:end] for row in rows)]
    for at in (CORRELATION_ID, NAME):
        over = max(map(cell_len, align_columns(table))) - console.width
        if over > 0 and at < end:
            widest = max(cell_len(row[at]) for row in table)
            table = [[*row[:at], truncate(row[at], max(MIN_COLUMN, widest - over)), *row[at + 1 :]] for row in table]
    head, *lines = align_columns(table)
    console.print(Text(head, style="dim"), soft_wrap=True)
    for line, row in zip(lines, rows, strict=True):
        print_line(line)
        if row[WHY]:
            print_lines(console, [Line("    ", "    ", Text(row[WHY], style="dim"))])


@examples(
    "workflow show 0b5ad2a4-5d0c-4f0e-9f3a-9c3f9a1d2b11",
    "workflow show 0b5ad2a4-5d0c-4f0e-9f3a-9c3f9a1d2b11 --json | jq .waiting",
)
def show(
    workflow_id: WorkflowId,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Draw the workflow again after each change, until it has ended.")
    ] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Draw a workflow with its tasks, and explain why it waits.

    The command also prints the input, the output, and how to complete a waiting task.
    """
    if follow and as_json:
        raise UserError("--follow cannot be combined with --json; use `tail --json`")

    async def look(api: AsyncApiClient) -> str | None:
        found = await read_workflow(api, workflow_id)
        drawn = ""
        while True:
            drawn, before = _states_of(found), drawn
            if as_json:
                print_json(to_json_value(found))
                return None
            if drawn != before:
                _draw_report(found, workflow_id, clear=follow)
            if not follow or found.workflow.get("status") in TERMINAL_WORKFLOW_STATUSES:
                return await find_web_ui(api, f"/execution/{quote_segment(workflow_id)}")
            await asyncio.sleep(FOLLOW_S)
            found = await read_workflow(api, workflow_id)

    print_web_ui(call_server(url, look))


def _states_of(found: WorkflowReport) -> str:
    """Return the statuses of a workflow and its tasks as one text. Equal texts mean that no status has changed."""
    tasks = [f"{task.task_id} {task.status}" for task in found.tasks]
    return " ".join([str(found.workflow.get("status")), *tasks])


def _draw_report(found: WorkflowReport, workflow_id: str, *, clear: bool) -> None:
    console = make_console()
    if clear and console.is_terminal:
        console.clear()
    print_lines(console, _heading(found))
    print_line("")
    print_lines(console, draw(found))
    for task in found.tasks:
        if task.steps:
            print_line("")
            print_lines(console, _list_steps(task))
    print_line("")
    print_value("input", found.workflow.get("input"))
    if found.workflow.get("status") in TERMINAL_WORKFLOW_STATUSES:
        print_value("output", found.workflow.get("output"))
    for task in found.tasks:
        if task.status in TERMINAL_TASK_STATUSES:
            continue
        if task.type in COMPLETED_BY_HAND:
            print_line(escape(f"conductor-worker task complete {workflow_id}:{task.ref} --output '{{}}'"))
        for step in task.steps:
            if step.kind == "MESSAGE" and step.waits is not None:
                message = shlex.quote(json.dumps({"name": step.name}, ensure_ascii=False))
                print_line(escape(f"conductor-worker workflow send {workflow_id} --message {message}"))
    if found.more_tasks:
        print_line(f"The workflow has more tasks; only {len(found.tasks):,} of them are drawn and counted.")
    for line in found.cannot_tell:
        print_lines(console, [Line("", "", Text(to_sentence(line), style="dim"))])


def _heading(found: WorkflowReport) -> list[Line]:
    workflow = found.workflow
    status = str(workflow.get("status"))
    mark, style = sign(status)
    began, ended = workflow.get("createTime") or workflow.get("startTime"), workflow.get("endTime")
    title = Text.assemble(
        (f"{mark} {status}", style),
        ("  " + escape(str(workflow.get("workflowName") or workflow.get("workflowType") or "?")), "bold"),
        f"  version {workflow.get('workflowVersion') or workflow.get('version') or '?'}",
    )
    if began:
        title.append(f"  {'took' if ended else 'for'} {format_duration((ended or found.now_ms) - began)}")
    facts = [f"id {workflow.get('workflowId')}", f"started {format_time(began)}"]
    for label, name in (("correlation id", "correlationId"), ("parent", "parentWorkflowId")):
        if workflow.get(name):
            facts.append(f"{label} {workflow[name]}")
    reason = Text(to_sentence(found.waiting.sentence), style="bold red" if found.waiting.urgent else "")
    if found.waiting.remedy:
        reason.append(f" {escape(found.waiting.remedy)}", "not bold")
    return [Line("", "", title), Line("  ", "  ", Text(escape(", ".join(facts)))), Line("  ", "  ", reason)]


#: The results of steps are cut to this length in the list.
MAX_RESULT_CHARS = 80


def _list_steps(task: TaskAttempt) -> list[Line]:
    """Return a heading, and one line per durable step: its name, its duration, and its result or what it waits for."""
    plural = "" if task.step_count == 1 else "s"
    newest = f", the newest {len(task.steps):,}" if task.step_count > len(task.steps) else ""
    heading = f"{escape(task.ref)}: {task.step_count:,} durable step{plural}{newest}"
    lines = [Line("", "  ", Text(heading, style="bold"))]
    for step in task.steps:
        mark, style = sign({"DONE": "COMPLETED", "FAILED": "FAILED"}.get(step.state, "IN_PROGRESS"))
        name = step.name if step.number == 1 else f"{step.name}#{step.number}"
        text = Text.assemble((f"{mark} ", style), (escape(name), "bold"))
        if step.kind != "STEP":
            text.append(f"  {step.kind}", "dim")
        if step.ended_ms is not None:
            text.append(f"  {format_duration(step.ended_ms - step.started_ms)}")
        if step.waits is not None:
            text.append(f"  {escape(step.waits)}")
        elif step.result is not None:
            is_cut = len(step.result) > MAX_RESULT_CHARS
            text.append(f"  {escape(step.result[:MAX_RESULT_CHARS])}{'…' if is_cut else ''}", "dim")
        lines.append(Line("  ", "    ", text))
    return lines


@examples(
    """workflow start order_flow --input '{"orderId": 7}' --correlation-id order-7""",
    "workflow start order_flow --version 3 --input @order.json --wait",
    "workflow start order_flow --input-file orders.jsonl --idempotency-field orderId",
)
def start(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The workflow to start.", show_default=False)],
    input_text: Annotated[
        str,
        typer.Option(
            "--input", metavar="JSON", help="Input of the workflow: a JSON object, @file, or @- for the standard input."
        ),
    ] = "{}",
    input_file: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Start one workflow per line of this file. Each line is the input, a JSON object. - is the "
            "standard input.",
            show_default=False,
        ),
    ] = None,
    idempotency_field: Annotated[
        str | None,
        typer.Option(
            metavar="FIELD",
            help="With --input-file, the field of the input that is the idempotency key. The command "
            "can then be repeated.",
            show_default=False,
        ),
    ] = None,
    version: Annotated[
        int | None, typer.Option("--version", help="Version of the workflow. (default: the latest)", show_default=False)
    ] = None,
    correlation_id: Annotated[
        str | None, typer.Option(help="Correlation id, for searching.", show_default=False)
    ] = None,
    wait_: Annotated[
        bool, typer.Option("--wait", help="Wait for the end; exit with status 1 unless COMPLETED.")
    ] = False,
    timeout: Timeout = None,
    url: Url = None,
    as_json: AsJson = False,
) -> int:
    """Start a workflow and print its id.

    With --input-file, start one workflow per line and print the ids in the same order.
    """
    if input_file is not None:
        if input_text != "{}" or wait_ or timeout is not None:
            raise UserError("--input-file cannot be combined with --input, --wait or --timeout")
        requests = read_requests(input_file, name, version, correlation_id, idempotency_field)
        return start_many(requests, url, as_json=as_json)
    if idempotency_field is not None:
        raise UserError("--idempotency-field needs --input-file")
    request = StartWorkflowRequest(
        name=name, version=version, correlation_id=correlation_id, input=parse_json_object(input_text, "--input")
    )
    if timeout is not None and not wait_:
        raise UserError("--timeout needs --wait")
    workflow_id, address = call_server(url, lambda api: _start(api, request))
    if as_json and not wait_:
        print_json({"workflowId": workflow_id})
    if not as_json:
        print_line(escape(workflow_id))
        print_web_ui(address)
    return wait([workflow_id], timeout, url, as_json) if wait_ else 0


async def _start(api: AsyncApiClient, request: StartWorkflowRequest) -> tuple[str, str | None]:
    """Start a workflow. Return its id, and its address in the web UI."""
    try:
        workflow_id = await AsyncWorkflowClient(api).start_workflow(request)
    except NotFoundException as error:
        raise UserError(await _describe_unknown(api, request, error)) from None
    return workflow_id, await find_web_ui(api, f"/execution/{quote_segment(workflow_id)}")


async def _describe_unknown(api: AsyncApiClient, request: StartWorkflowRequest, error: NotFoundException) -> str:
    """Return the error message for an unknown workflow or version.

    The message suggests a similar name or lists the known versions.
    """
    try:
        known = {(one.name, one.version or 1) for one in await AsyncMetadataClient(api).get_all_workflow_defs()}
    except ConductorError:
        return str(error.reason or error)
    versions = sorted(version for name, version in known if name == request.name)
    if versions and request.version in (None, *versions):  # the 404 is about something else
        return str(error.reason or error)
    if versions:
        listed = ", ".join(map(str, versions))
        return f"workflow {request.name!r} has no version {request.version}; it has {listed}"
    return f"there is no workflow {request.name!r}{suggest(request.name or '', {name for name, _ in known})}"


@examples(
    "workflow wait 0b5ad2a4-5d0c-4f0e-9f3a-9c3f9a1d2b11 --timeout 60",
    "workflow wait $A $B && echo both completed",
)
def wait(workflow_ids: WorkflowIds, timeout: Timeout = None, url: Url = None, as_json: AsJson = False) -> int:
    """Wait for the end of workflows.

    The exit status is 1 unless all of them complete in time.
    """

    async def wait_for_all(api: AsyncApiClient) -> list[Workflow]:
        workflows = AsyncWorkflowClient(api)
        try:
            async with asyncio.timeout(timeout):
                async with asyncio.TaskGroup() as group:
                    for workflow_id in dict.fromkeys(workflow_ids):
                        group.create_task(_until_its_end(workflows, workflow_id, as_json=as_json))
        except TimeoutError:
            pass
        except ExceptionGroup as several:
            raise several.exceptions[0] from None
        return [await workflows.get_workflow(one, include_tasks=False) for one in dict.fromkeys(workflow_ids)]

    ended = call_server(url, wait_for_all)
    if as_json:
        print_json([_outcome(workflow) for workflow in ended])
    else:
        for workflow in ended:
            if not workflow.is_terminal:
                print_line(f"{escape(workflow.workflow_id)}: {workflow.status} after {timeout:g} s")
        if len(ended) == 1 and ended[0].is_terminal:
            print_value("output", ended[0].output)
    return 0 if all(workflow.is_successful() for workflow in ended) else 1


async def _until_its_end(workflows: AsyncWorkflowClient, workflow_id: str, *, as_json: bool) -> None:
    look_s, began, explained = FIRST_LOOK_S, time.monotonic(), None
    while not (await workflows.get_workflow_status(workflow_id)).is_terminal:
        if not as_json and time.monotonic() - began > EXPLAIN_AFTER_S:
            explained = await _explain_wait(workflows.api_client, workflow_id, explained)
        await asyncio.sleep(look_s)
        look_s = min(look_s * 1.5, LONGEST_LOOK_S)
    if not as_json:
        found = await workflows.get_workflow(workflow_id, include_tasks=False)
        reason = f": {' '.join(found.reason_for_incompletion.split())}" if found.reason_for_incompletion else ""
        if found.status in (WorkflowStatus.FAILED, WorkflowStatus.TIMED_OUT):
            report = await read_workflow(workflows.api_client, workflow_id)
            reason = f": {report.waiting.sentence}"
        print_line(escape(f"{workflow_id}: {found.status}{reason}"))


async def _explain_wait(api: AsyncApiClient, workflow_id: str, known: str | None) -> str | None:
    """Print to standard error why a workflow waits, unless it is the reason `known`.

    Return the reason, with "#" for each number, so that a changed number does not print the reason again.
    """
    waiting = (await read_workflow(api, workflow_id)).waiting
    text = f"{to_sentence(waiting.sentence)} {waiting.remedy or ''}".rstrip()
    kind = _NUMBERS.sub("#", text)
    if kind != known:
        typer.echo(escape(text), err=True)
    return kind


def _outcome(workflow: Workflow) -> dict[str, Any]:
    return {
        "workflowId": workflow.workflow_id,
        "status": workflow.status,
        "reasonForIncompletion": workflow.reason_for_incompletion,
        "output": workflow.output,
    }
