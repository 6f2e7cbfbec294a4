"""`conductor-worker workflow start NAME --input-file`: start one workflow per line of a file."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import typer

from conductor.cli.console import print_json, print_line
from conductor.cli.support import UserError, call_server, to_one_line
from conductor.client.http.async_api_client import AsyncApiClient
from conductor.client.http.errors import BulkStartError, ConductorError
from conductor.client.http.models.start_workflow_request import StartWorkflowRequest
from conductor.client.workflow_client import AsyncWorkflowClient
from conductor.common.text import escape
from conductor.protocol.wire import MAX_BULK_STARTS

#: An error names at most this many lines, and says how many other lines are wrong.
MAX_LINES_NAMED = 10


def read_requests(
    path: str, name: str, version: int | None, correlation_id: str | None, key_field: str | None
) -> dict[int, StartWorkflowRequest]:
    """Read a file with one JSON object per line and return the start request of each line number.

    Args:
        path: The file; `-` is the standard input.
        name: The workflow to start.
        version: The version of the workflow; None is the latest.
        correlation_id: The correlation id of all workflows.
        key_field: The field of each input whose value is the idempotency key; None for no keys.

    Raises:
        UserError: The file cannot be read, or some lines are wrong. The message names the lines. Nothing is started.
    """
    requests: dict[int, StartWorkflowRequest] = {}
    wrong: list[str] = []
    for number, line in enumerate(_lines(path), 1):
        if not line.strip():
            continue
        try:
            workflow_input = _read_object(line)
            key = None if key_field is None else _key_of(workflow_input, key_field)
        except ValueError as error:
            wrong.append(f"line {number}: {error}")
            continue
        requests[number] = StartWorkflowRequest(
            name=name, version=version, correlation_id=correlation_id, input=workflow_input, idempotency_key=key
        )
    if wrong:
        more = f"; and {len(wrong) - MAX_LINES_NAMED:,} more lines" if len(wrong) > MAX_LINES_NAMED else ""
        raise UserError(f"{path}: nothing was started: {'; '.join(wrong[:MAX_LINES_NAMED])}{more}")
    if not requests:
        raise UserError(f"{path} has no lines: there is nothing to start")
    return requests


def start_many(requests: dict[int, StartWorkflowRequest], url: str | None, *, as_json: bool) -> int:
    """Start a workflow for each line, and print the ids in order. Return the exit status: 1 if a workflow was not
    started.

    Progress goes to the standard error, after each bulk request of `MAX_BULK_STARTS` lines.
    """
    lines = list(requests)
    results: list[str | ConductorError] = []

    async def start_all(api: AsyncApiClient) -> None:
        workflows = AsyncWorkflowClient(api)
        while len(results) < len(lines):
            some = lines[len(results) : len(results) + MAX_BULK_STARTS]
            try:
                results.extend(await workflows.start_workflows([requests[number] for number in some]))
            except BulkStartError as error:
                results.extend(error.results)
            started = sum(isinstance(result, str) for result in results)
            typer.echo(f"Started {started:,} of {len(lines):,}", err=True)
            if not as_json:
                for result in results[-len(some) :]:
                    if isinstance(result, str):
                        print_line(escape(result))

    try:
        call_server(url, start_all)
    except UserError as error:
        raise UserError(f"{error} ({len(results):,} of {len(lines):,} lines were sent before)") from None
    outcomes = [_result_of(number, result) for number, result in zip(lines, results, strict=True)]
    if as_json:
        print_json(outcomes)
    failed = [one for one in outcomes if "error" in one]
    for one in failed[:MAX_LINES_NAMED]:
        typer.echo(f"line {one['line']}: not started: {one['error']}", err=True)
    if len(failed) > MAX_LINES_NAMED:
        typer.echo(f"{len(failed) - MAX_LINES_NAMED:,} more lines were not started; --json lists all of them", err=True)
    return 1 if failed else 0


def _lines(path: str) -> Iterable[str]:
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"--input-file {path}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise UserError(f"--input-file {path} is not UTF-8: {error}") from None
    return text.split("\n")


def _read_object(line: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"not JSON: {error}") from None
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004 - one kind of error per line
    return value


def _key_of(workflow_input: dict[str, Any], field: str) -> str:
    key = workflow_input.get(field)
    if not isinstance(key, str | int) or isinstance(key, bool) or key == "":
        raise ValueError(f"field {field!r} of the idempotency key is neither a text nor a whole number")
    return str(key)


def _result_of(number: int, result: str | ConductorError) -> dict[str, Any]:
    if isinstance(result, str):
        return {"line": number, "workflowId": result}
    return {"line": number, "error": to_one_line(getattr(result, "reason", None) or result)}
