"""`conductor-worker schedule`: workflows that a server starts on a schedule."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from conductor.cli.console import print_json, print_line, print_table, silence_logger
from conductor.cli.stored_warnings import print_schedule_warnings
from conductor.cli.support import (
    AsJson,
    Url,
    UserError,
    add_command,
    call_server,
    examples,
    find_web_ui,
    make_configuration,
    make_group,
    parse_json_object,
    print_web_ui,
    show_web_ui,
    unreachable_error,
)
from conductor.cli.times import format_time
from conductor.client.http.async_api_client import DEFINITION_LOGGER, AsyncApiClient
from conductor.client.http.endpoint import quote_segment
from conductor.client.http.errors import ApiException, ConductorError, TransportError
from conductor.client.http.models.save_schedule_request import SaveScheduleRequest
from conductor.client.http.models.start_workflow_request import StartWorkflowRequest
from conductor.client.http.models.workflow_schedule import WorkflowSchedule
from conductor.client.scheduler_client import AsyncSchedulerClient, SchedulerClient
from conductor.client.workflow_client import AsyncWorkflowClient
from conductor.common.text import escape

schedule = make_group(
    "schedule",
    "Manage workflows that a server starts on a schedule.",
    {"Look": ("list", "show"), "Change": ("add", "pause", "resume", "remove"), "Start": ("run",)},
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the schedule.", show_default=False)]
#: Number of past runs that `show` prints.
RUNS_SHOWN = 5


@examples("schedule list", "schedule list --workflow order_flow --json")
def list_(
    workflow: Annotated[
        str | None, typer.Option("--workflow", help="Only schedules of this workflow.", show_default=False)
    ] = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """List the schedules with their workflows and the times of their next runs."""
    with _scheduler(url) as scheduler:
        found = scheduler.get_all_schedules(workflow)
    if as_json:
        print_json([one.to_dict() for one in found])
        return
    if found:
        _print(found)
    else:
        print_line("There are no schedules.")
    show_web_ui(url, "/schedules")


@examples("schedule show nightly")
def show(name: Name, url: Url = None, as_json: AsJson = False) -> None:
    """Show a schedule and its last runs."""
    with _scheduler(url) as scheduler:
        found = scheduler.get_schedule(name)
        runs = scheduler.search_schedule_executions(size=RUNS_SHOWN, query=f"scheduleName IN ({name})").results
    if as_json:
        print_json({**found.to_dict(), "runs": [run.to_dict() for run in runs or []]})
        return
    _print([found])
    for run in runs or []:
        outcome = run.workflow_id or run.reason or ""
        print_line(escape(f"{format_time(run.scheduled_time)}  {run.state}  {outcome}"))


@examples(
    "schedule add nightly clean_up '0 0 3 * * *' --zone Europe/Berlin",
    "schedule add nightly clean_up '0 0 3 * * *' --input @what.json --paused",
)
def add(
    name: Name,
    workflow: Annotated[str, typer.Argument(metavar="WORKFLOW", help="The workflow to start.", show_default=False)],
    cron: Annotated[
        str,
        typer.Argument(
            metavar="CRON",
            help="Six fields: second minute hour day-of-month month day-of-week, such as '0 30 9 * * MON-FRI'.",
            show_default=False,
        ),
    ],
    zone: Annotated[str, typer.Option("--zone", help="Time zone, for example Europe/Berlin.")] = "UTC",
    version: Annotated[
        int | None, typer.Option("--version", help="Version of the workflow. (default: the latest)", show_default=False)
    ] = None,
    input_text: Annotated[
        str, typer.Option("--input", help="Input of the workflow: a JSON object, @file, or @- for the standard input.")
    ] = "{}",
    catch_up: Annotated[bool, typer.Option("--catch-up", help="Start every run that the server has missed.")] = False,
    paused: Annotated[bool, typer.Option("--paused", help="Create the schedule paused.")] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Add or replace a schedule."""
    request = SaveScheduleRequest(
        name=name,
        cron_expression=cron,
        zone_id=zone,
        run_catchup_schedule_instances=catch_up,
        paused=paused,
        start_workflow_request=StartWorkflowRequest(
            name=workflow, version=version, input=parse_json_object(input_text, "--input")
        ),
    )
    with silence_logger(DEFINITION_LOGGER), _scheduler(url) as scheduler:
        scheduler.save_schedule(request)
        found = scheduler.get_schedule(name)
    _print_result(found, f"{name}: saved{_due(found)}", as_json=as_json)
    print_schedule_warnings(url, name)


@examples("schedule pause nightly --reason 'the disk is full'")
def pause(
    name: Name,
    reason: Annotated[
        str | None, typer.Option("--reason", help="Reason, stored with the schedule.", show_default=False)
    ] = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Pause a schedule."""
    with _scheduler(url) as scheduler:
        scheduler.pause_schedule(name, reason)
        found = scheduler.get_schedule(name)
    _print_result(found, f"{name}: paused", as_json=as_json)


@examples("schedule resume nightly")
def resume(name: Name, url: Url = None, as_json: AsJson = False) -> None:
    """Resume a paused schedule. Times that passed during the pause start no workflow."""
    with _scheduler(url) as scheduler:
        scheduler.resume_schedule(name)
        found = scheduler.get_schedule(name)
    _print_result(found, f"{name}: resumed{_due(found)}", as_json=as_json)


@examples("schedule run nightly")
def run(name: Name, url: Url = None, as_json: AsJson = False) -> None:
    """Start the workflow of a schedule now, once, with the schedule's input."""

    async def start(api: AsyncApiClient) -> tuple[str, str | None]:
        found = await AsyncSchedulerClient(api).get_schedule(name)
        if found.start_workflow_request is None:
            raise UserError(f"schedule {name!r} does not name a workflow")
        workflow_id = await AsyncWorkflowClient(api).start_workflow(found.start_workflow_request)
        return workflow_id, await find_web_ui(api, f"/execution/{quote_segment(workflow_id)}")

    workflow_id, address = call_server(url, start)
    if as_json:
        print_json({"workflowId": workflow_id})
    else:
        print_line(escape(workflow_id))
        print_web_ui(address)


@examples("schedule remove nightly")
def remove(name: Name, url: Url = None, as_json: AsJson = False) -> None:
    """Remove a schedule; workflows that it started stay."""
    with _scheduler(url) as scheduler:
        found = scheduler.get_schedule(name)
        scheduler.delete_schedule(name)
    _print_result(found, f"{name}: removed", as_json=as_json)


@contextmanager
def _scheduler(url: str | None) -> Iterator[SchedulerClient]:
    """Provide a client for the schedules of a server. Raise UserError if the server rejects a call."""
    configuration = make_configuration(url)
    try:
        with SchedulerClient(configuration) as scheduler:
            yield scheduler
    except ApiException as error:
        raise UserError(error.reason or error) from None
    except TransportError as error:
        raise unreachable_error(configuration, error) from None
    except ConductorError as error:
        raise UserError(error) from None


def _print_result(found: WorkflowSchedule, line: str, *, as_json: bool) -> None:
    if as_json:
        print_json(found.to_dict())
    else:
        print_line(escape(line))


def _due(found: WorkflowSchedule) -> str:
    _, zone = _crons(found)[0]
    return f", due at {format_time(found.next_run_time, zone)}" if found.next_run_time else ""


def _print(found: list[WorkflowSchedule]) -> None:
    heads = ["schedule", "workflow", "cron", "zone", "next", ""]
    print_table(heads, (row for one in found for row in _rows(one)))


def _rows(one: WorkflowSchedule) -> Iterator[list[str]]:
    workflow = one.start_workflow_request.name if one.start_workflow_request else ""
    paused = f"PAUSED {one.paused_reason or ''}".strip() if one.paused else ""
    for number, (cron, zone) in enumerate(_crons(one)):
        if number == 0:
            yield [one.name or "", workflow, cron, zone, format_time(one.next_run_time, zone), paused]
        else:
            yield ["", "", cron, zone, "", ""]


def _crons(schedule: WorkflowSchedule) -> list[tuple[str, str]]:
    """Return the cron expressions and their time zones."""
    listed = [(cron.cron_expression or "", cron.zone_id or "") for cron in schedule.cron_schedules or []]
    return listed or [(schedule.cron_expression or "", schedule.zone_id or "")]


for command in (list_, show, add, run, pause, resume, remove):
    add_command(schedule, command)
