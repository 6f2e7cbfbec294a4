"""`conductor-worker workflow pause`, `resume`, `retry`, `rerun`, `restart`, `terminate`, `send` and `delete`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated

import typer

from conductor.cli import BAD_INPUT
from conductor.cli.console import print_json, print_line
from conductor.cli.support import AsJson, Url, UserError, call_server, examples, parse_json_object, to_one_line
from conductor.cli.workflow_commands import WorkflowIds
from conductor.client.http.async_api_client import AsyncApiClient
from conductor.client.http.errors import ApiException, AuthorizationException, NotFoundException
from conductor.client.http.models.rerun_workflow_request import RerunWorkflowRequest
from conductor.client.workflow_client import AsyncWorkflowClient

#: A function that calls the server for one workflow id.
Action = Callable[[AsyncWorkflowClient, str], Awaitable[object]]


@examples("workflow pause 0b5ad2a4-5d0c-4f0e-9f3a-9c3f9a1d2b11")
def pause(workflow_ids: WorkflowIds, url: Url = None, as_json: AsJson = False) -> int:
    """Pause workflows; running tasks are finished."""
    return _apply_to_each(workflow_ids, "paused", lambda api, one: api.pause_workflow(one), url, as_json=as_json)


@examples("workflow resume 0b5ad2a4-5d0c-4f0e-9f3a-9c3f9a1d2b11")
def resume(workflow_ids: WorkflowIds, url: Url = None, as_json: AsJson = False) -> int:
    """Resume paused workflows."""
    return _apply_to_each(workflow_ids, "resumed", lambda api, one: api.resume_workflow(one), url, as_json=as_json)


@examples(
    "workflow retry $ID --resume-subworkflows",
    "workflow list --json --status FAILED --since 1h | jq -r '.[].workflowId' | xargs conductor-worker workflow retry",
)
def retry(
    workflow_ids: WorkflowIds,
    resume_subworkflows: Annotated[
        bool, typer.Option("--resume-subworkflows", help="Retry inside failed sub-workflows.")
    ] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> int:
    """Retry failed workflows from their failed tasks."""
    return _apply_to_each(
        workflow_ids, "retried", lambda api, one: api.retry_workflow(one, resume_subworkflows), url, as_json=as_json
    )


@examples("workflow rerun $ID --from-task charge", "workflow rerun $ID")
def rerun(
    workflow_ids: WorkflowIds,
    from_task: Annotated[
        str | None,
        typer.Option(help="Reference name or id of the task to start from. (default: the first task)", metavar="REF"),
    ] = None,
    url: Url = None,
    as_json: AsJson = False,
) -> int:
    """Rerun ended workflows from a task, or from the start."""

    async def run_again(api: AsyncWorkflowClient, workflow_id: str) -> None:
        task_id = None if from_task is None else await _task_id(api, workflow_id, from_task)
        request = RerunWorkflowRequest(re_run_from_workflow_id=workflow_id, re_run_from_task_id=task_id)
        await api.rerun_workflow(workflow_id, request)

    return _apply_to_each(workflow_ids, "rerun", run_again, url, as_json=as_json)


async def _task_id(api: AsyncWorkflowClient, workflow_id: str, named: str) -> str:
    """Return the task id of the latest attempt at a reference name.

    Text that is not a reference name is returned as the task id.
    """
    found = (await api.get_workflow(workflow_id)).task(named)
    return found.task_id if found is not None else named


@examples("workflow restart $ID --use-latest")
def restart(
    workflow_ids: WorkflowIds,
    use_latest: Annotated[bool, typer.Option("--use-latest", help="Use the latest definition.")] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> int:
    """Restart ended workflows with the same input."""
    return _apply_to_each(
        workflow_ids, "restarted", lambda api, one: api.restart_workflow(one, use_latest), url, as_json=as_json
    )


@examples("workflow terminate $ID --reason 'ordered twice'")
def terminate(
    workflow_ids: WorkflowIds,
    reason: Annotated[str | None, typer.Option(help="Reason, stored with the workflow.", show_default=False)] = None,
    url: Url = None,
    as_json: AsJson = False,
) -> int:
    """Terminate workflows and cancel their open tasks."""
    return _apply_to_each(
        workflow_ids, "terminated", lambda api, one: api.terminate_workflow(one, reason), url, as_json=as_json
    )


@examples("workflow delete $ID", "workflow delete $ID --force")
def delete(
    workflow_ids: WorkflowIds,
    force: Annotated[bool, typer.Option("--force", help="Also delete workflows that have not ended.")] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> int:
    """Delete ended workflows permanently, with their tasks and logs."""

    async def remove(api: AsyncWorkflowClient, workflow_id: str) -> None:
        if not force and not (found := await api.get_workflow_status(workflow_id)).is_terminal:
            raise ApiException(409, f"not deleted, because it is {found.status}; terminate it first, or add --force")
        await api.delete_workflow(workflow_id, archive_workflow=False)

    return _apply_to_each(workflow_ids, "deleted", remove, url, as_json=as_json)


@examples("""workflow send $ID --message '{"name": "approval", "approved": true}'""")
def send(
    workflow_ids: WorkflowIds,
    message: Annotated[str, typer.Option(help="The message: a JSON object.", metavar="JSON", show_default=False)],
    url: Url = None,
    as_json: AsJson = False,
) -> int:
    """Send a message to running workflows."""
    payload = parse_json_object(message, "--message")
    return _apply_to_each(
        workflow_ids,
        "message sent",
        lambda api, one: api.send_message(one, payload),
        url,
        as_json=as_json,
        answer_field="messageId",
    )


def _apply_to_each(
    workflow_ids: list[str],
    done: str,
    action: Action,
    url: str | None,
    *,
    as_json: bool,
    answer_field: str | None = None,
) -> int:
    """Call the server for each id and print the results. Return 1 if a call is rejected, 2 if an id is unknown.

    `answer_field` is the field of the JSON results that holds the answer of the server.
    """
    results: list[dict[str, object]] = []
    status = 0

    async def do_all(api: AsyncApiClient) -> None:
        nonlocal status
        workflows = AsyncWorkflowClient(api)
        for workflow_id in dict.fromkeys(workflow_ids):
            problem: str | None = None
            answer: object = None
            try:
                answer = await action(workflows, workflow_id)
            except AuthorizationException:
                raise
            except ApiException as error:
                problem = to_one_line(error.reason or error)
                is_known = not isinstance(error, NotFoundException) or await _is_known(workflows, workflow_id)
                status = max(status, 1 if is_known else BAD_INPUT)
            result: dict[str, object] = {"workflowId": workflow_id, "done": problem is None, "error": problem}
            results.append(result if answer_field is None else {**result, answer_field: answer})
            if not as_json:
                print_line(f"{to_one_line(workflow_id)}: {problem or done}")

    try:
        call_server(url, do_all)
    except UserError as error:
        if results and as_json:
            print_json(results)
        raise UserError(f"{error} (the server had answered {len(results)} of {len(workflow_ids)} calls)") from None
    if as_json:
        print_json(results)
    return status


async def _is_known(workflows: AsyncWorkflowClient, workflow_id: str) -> bool:
    """Return whether the workflow exists, after an action on it was answered with 404.

    A Conductor server also answers 404 if the workflow exists but its status does not allow the action.
    """
    try:
        await workflows.get_workflow_status(workflow_id)
    except ApiException:
        return False
    return True
