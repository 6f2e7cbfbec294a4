"""`conductor-worker task`: show a task and its log, and complete or fail it."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Any

import typer
from rich.text import Text

from conductor.cli.console import make_console, print_json, print_line, to_sentence
from conductor.cli.graph import Line, print_lines, sign
from conductor.cli.support import (
    AsJson,
    Url,
    UserError,
    add_command,
    call_server,
    examples,
    make_group,
    parse_json_object,
)
from conductor.cli.times import format_time
from conductor.cli.workflow_details import operator_of, read_view, read_workflow, to_json_value
from conductor.client.http.api.async_task_resource_api import AsyncTaskResourceApi
from conductor.client.http.async_api_client import AsyncApiClient
from conductor.client.http.endpoint import quote_segment
from conductor.client.http.errors import ApiException
from conductor.client.http.models.task import Task
from conductor.client.http.models.task_exec_log import TaskExecLog
from conductor.client.http.models.task_result_status import TaskResultStatus
from conductor.client.workflow_client import AsyncWorkflowClient
from conductor.common.text import escape
from conductor.protocol.statuses import TERMINAL_TASK_STATUSES
from conductor.protocol.why_waiting import Waiting, format_duration

#: Interval between two reads of a log with --follow.
LOOK_S = 1.0

task = make_group(
    "task",
    "Show a task and its log; complete or fail it.",
    {"Look": ("show", "logs"), "Change": ("complete", "fail")},
)

TaskName = Annotated[
    str,
    typer.Argument(
        metavar="TASK", help="Task id, or WORKFLOW_ID:REFERENCE_NAME for the latest attempt.", show_default=False
    ),
]


Output = Annotated[
    str,
    typer.Option(
        "--output", metavar="JSON", help="Output of the task: a JSON object, @file, or @- for the standard input."
    ),
]


@examples("task show 0b5ad2a4-5d0c-4f0e-9f3a-9c3f9a1d2b11", "task show $WORKFLOW_ID:charge --json | jq .inputData")
def show(name: TaskName, url: Url = None, as_json: AsJson = False) -> None:
    """Show a task, why it waits, its input and its output."""

    async def look(api: AsyncApiClient) -> tuple[Task, Waiting | None]:
        found = await _find(api, name)
        return found, await _why(api, found)

    found, waiting = call_server(url, look)
    if as_json:
        print_json({**found.to_dict(), "waiting": None if waiting is None else to_json_value(waiting)})
        return
    console = make_console()
    print_lines(console, [*_heading(found, waiting)])
    for title, value in (("input", found.input_data), ("output", found.output_data)):
        print_line(f"{title}: {'none' if not value else ''}".rstrip())
        for line in json.dumps(value, indent=2, ensure_ascii=False).splitlines() if value else ():
            print_line(f"  {escape(line)}")


def _heading(found: Task, waiting: Waiting | None) -> list[Line]:
    mark, style = sign(found.status)
    kind = operator_of(found)
    title = Text.assemble(
        (f"{mark} {found.status}", style),
        (f"  {escape(found.reference_task_name)}", "bold"),
        f"  {escape(found.task_def_name if kind == 'SIMPLE' else kind)}",
        f"  attempt {found.retry_count + 1}",
    )
    if found.start_time and found.end_time:
        title.append(f"  took {format_duration(found.end_time - found.start_time)}")
    facts = [f"id {found.task_id}", f"workflow {found.workflow_instance_id}"]
    for label, value in (
        ("scheduled", format_time(found.scheduled_time)),
        ("started", format_time(found.start_time)),
        ("ended", format_time(found.end_time)),
        ("worker", found.worker_id),
        ("domain", found.domain),
        ("sub-workflow", found.sub_workflow_id),
    ):
        if value:
            facts.append(f"{label} {value}")
    lines = [Line("", "", title), Line("  ", "  ", Text(escape(", ".join(facts))))]
    if waiting is not None:
        remedy = f" {waiting.remedy}" if waiting.remedy else ""
        lines.append(Line("  ", "  ", Text(to_sentence(waiting.sentence) + escape(remedy))))
    elif found.reason_for_incompletion:
        lines.append(Line("  ", "  ", Text(to_sentence(found.reason_for_incompletion))))
    return lines


async def _find(api: AsyncApiClient, name: str) -> Task:
    """Return a task. `name` is the id of the task, or the id of its workflow, a colon, and the reference name."""
    workflow_id, colon, ref = name.partition(":")
    if not colon:
        return await AsyncTaskResourceApi(api).get_task(name)
    workflow = await AsyncWorkflowClient(api).get_workflow(workflow_id)
    found = workflow.task(ref) or next(
        (one for one in reversed(workflow.tasks) if one.reference_task_name.startswith(f"{ref}__")), None
    )
    if found is None:
        there = ", ".join(dict.fromkeys(one.reference_task_name for one in workflow.tasks[:20])) or "none yet"
        raise UserError(f"workflow {workflow_id} has no task {ref!r}; it has {there}")
    return found


async def _why(api: AsyncApiClient, found: Task) -> Waiting | None:
    """Return why a task waits; None if unknown. A coordinator also explains how a task has ended."""
    waiting: Waiting | None = await read_view(api, f"/view/task/{quote_segment(found.task_id)}/waiting", Waiting)
    if waiting is not None or found.status in TERMINAL_TASK_STATUSES:
        return waiting
    execution = await read_workflow(api, found.workflow_instance_id)
    return next((one.waiting for one in execution.tasks if one.task_id == found.task_id), None)


@examples("task logs 0b5ad2a4-5d0c-4f0e-9f3a-9c3f9a1d2b11", "task logs $WORKFLOW_ID:charge --follow")
def logs(
    name: TaskName,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Follow the log until the task has ended.")] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Print the log of a task.

    With --follow and --json, each line is one JSON object.
    """

    async def read(api: AsyncApiClient) -> None:
        found = await _find(api, name)
        tasks = AsyncTaskResourceApi(api)
        printed = 0
        while True:
            # Read the status before the lines, so that the last read includes all lines of an ended task.
            is_over = not follow or (await tasks.get_task(found.task_id)).status in TERMINAL_TASK_STATUSES
            lines = await _lines(tasks, found.task_id)
            if as_json and not follow:
                print_json([line.to_dict() for line in lines])
                return
            for line in lines[printed:]:
                _say_line(line, as_json=as_json)
            printed = max(printed, len(lines))
            if is_over:
                break
            await asyncio.sleep(LOOK_S)
        if not printed and not as_json:
            typer.echo("The task has no log.", err=True)

    call_server(url, read)


async def _lines(tasks: AsyncTaskResourceApi, task_id: str) -> list[TaskExecLog]:
    """Return the log lines of a task, oldest first.

    A Conductor server returns them unordered, or 404 if there are none.
    """
    try:
        found = await tasks.get_task_logs(task_id)
    except ApiException as error:
        if error.status == 404:
            return []
        raise
    return sorted(found, key=lambda line: line.created_time)


def _say_line(line: TaskExecLog, *, as_json: bool) -> None:
    if as_json:
        print_json(line.to_dict())
        return
    for number, text in enumerate(line.log.splitlines() or [""]):
        print_line(f"{format_time(line.created_time) if number == 0 else '':20}  {escape(text)}")


@examples(
    """task complete $WORKFLOW_ID:approve --output '{"approved": true}'""",
    "task complete 0b5ad2a4-5d0c-4f0e-9f3a-9c3f9a1d2b11 --output @answer.json",
)
def complete(
    name: TaskName,
    output: Output = "{}",
    url: Url = None,
    as_json: AsJson = False,
) -> int:
    """Complete an open task, for example a WAIT or HUMAN task.

    The exit status is 1 if the task has already ended.
    """
    return _end(name, TaskResultStatus.COMPLETED, parse_json_object(output, "--output"), None, url, as_json=as_json)


@examples("task fail $WORKFLOW_ID:approve --reason 'not this one' --terminal")
def fail(
    name: TaskName,
    reason: Annotated[str, typer.Option(help="Reason, stored with the task.", show_default=False)],
    terminal: Annotated[bool, typer.Option("--terminal", help="Fail without retries.")] = False,
    output: Output = "{}",
    url: Url = None,
    as_json: AsJson = False,
) -> int:
    """Fail an open task; the server retries it as its definition says.

    The exit status is 1 if the task has already ended.
    """
    status = TaskResultStatus.FAILED_WITH_TERMINAL_ERROR if terminal else TaskResultStatus.FAILED
    return _end(name, status, parse_json_object(output, "--output"), reason, url, as_json=as_json)


def _end(
    name: str,
    status: TaskResultStatus,
    output: dict[str, Any],
    reason: str | None,
    url: str | None,
    *,
    as_json: bool,
) -> int:
    async def report(api: AsyncApiClient) -> tuple[Task, str | None]:
        found = await _find(api, name)
        if found.status in TERMINAL_TASK_STATUSES:  # a Conductor server would answer 200 and ignore the report
            return found, f"has already ended: {found.status}"
        result = found.to_task_result(status)
        result.output_data, result.reason_for_incompletion = output, reason
        try:
            await AsyncTaskResourceApi(api).update_task(result)
        except ApiException as error:
            if error.status != 409:
                raise
            return found, f"was not changed: {error.reason or error}"
        return found, None

    found, problem = call_server(url, report)
    if as_json:
        result = {"taskId": found.task_id, "workflowId": found.workflow_instance_id, "ref": found.reference_task_name}
        print_json(
            {**result, "status": found.status if problem else status.value, "done": not problem, "error": problem}
        )
    else:
        print_line(escape(f"{found.reference_task_name} ({found.task_id}): {problem or status.value}"))
    return 1 if problem else 0


for command in (show, logs, complete, fail):
    add_command(task, command)
