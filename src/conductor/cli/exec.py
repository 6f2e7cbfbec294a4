"""`conductor-worker exec`: execute one task as a worker would, without a server."""

from __future__ import annotations

import json
import logging
import uuid
from pathlib import Path
from typing import Annotated, Any

import typer

from conductor.cli.console import print_line
from conductor.cli.discovery import Modules, Traceback, find_workers
from conductor.cli.support import JSON_EXAMPLE, UserError
from conductor.client.automator.executor import Executor
from conductor.client.automator.polled_tasks import Grant
from conductor.client.automator.running_task import RunningTask
from conductor.client.automator.session import Session
from conductor.client.automator.worker_group import resolve_config
from conductor.client.configuration.configuration import Configuration
from conductor.client.configuration.option import ConfigurationError
from conductor.client.context.task_context import TaskContext
from conductor.client.event.sync_event_dispatcher import SyncEventDispatcher
from conductor.client.http.models.task import Task
from conductor.client.worker import signature
from conductor.client.worker.outcome import TaskOutcome
from conductor.client.worker.worker import Worker
from conductor.common.clock import SYSTEM_CLOCK
from conductor.common.machine import run_event_loop
from conductor.common.text import escape
from conductor.protocol.statuses import TaskStatus

#: The largest output that is printed without --json.
MAX_SHOWN_BYTES = 100_000
#: The largest output without a warning. Conductor's default limit of a task's output is 3,072 KB.
LARGE_OUTPUT_BYTES = 3072 * 1024
#: Task statuses with which the command exits with status 0.
SUCCESSFUL = (TaskStatus.COMPLETED, TaskStatus.IN_PROGRESS)


def exec_task(
    task: Annotated[str, typer.Argument(metavar="TASK", help="The task type.", show_default=False)],
    modules: Modules,
    task_input: Annotated[
        str, typer.Option("--input", "-i", help="The input as JSON, or @FILE to read it from a file.")
    ] = "{}",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    show_traceback: Traceback = False,
) -> int:
    """Execute one task without a server and print its result and logs.

    The exit status is 1 if the task fails.
    """
    logging.basicConfig(level=logging.CRITICAL, format="%(levelname)s: %(message)s")
    logging.getLogger(signature.__name__).setLevel(logging.WARNING)  # warns of names that are missing in --input
    worker = _worker_for(task, find_workers(modules, show_traceback=show_traceback))
    outcome = run_event_loop(_execute(worker, task, _read(task_input)))
    report = {**outcome.result.to_dict(), "outputData": json.loads(outcome.output)}
    if as_json:
        print_line(json.dumps(report))
    else:
        _show(outcome, report)
    return 0 if str(outcome.result.status) in SUCCESSFUL else 1


def _worker_for(task: str, workers: list[Worker]) -> Worker:
    found = [worker for worker in workers if task in worker.task_definition_names]
    if not found:
        known = ", ".join(worker.get_task_definition_name() for worker in workers)
        raise UserError(f"no worker serves {task!r}; available workers: {known}")
    return found[0]


def _read(text: str) -> dict[str, Any]:
    try:
        value = json.loads(Path(text[1:]).read_text() if text.startswith("@") else text)
    except OSError as error:
        raise UserError(f"--input: {text[1:]} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise UserError(f"--input is not JSON: {error}; write for example {JSON_EXAMPLE}") from None
    if not isinstance(value, dict):
        raise UserError("--input must be a JSON object: the names of parameters and their values")
    return value


async def _execute(worker: Worker, name: str, task_input: dict[str, Any]) -> TaskOutcome:
    """Execute the task as a worker does, without a server and without a journal. Return the outcome."""
    try:
        config = resolve_config(worker, {"journal_enabled": False})
    except ConfigurationError as error:
        raise UserError(error) from None
    task = Task(
        task_id=str(uuid.uuid4()),
        workflow_instance_id=str(uuid.uuid4()),
        task_def_name=name,
        task_type=name,
        input_data=task_input,
    )
    session = Session(Configuration("http://127.0.0.1:1/api"), config, SyncEventDispatcher([]), SYSTEM_CLOCK)
    context = TaskContext(task, config.worker_id, config.task_log_level)
    now = SYSTEM_CLOCK.monotonic()
    executor = Executor(worker, config, session)
    try:
        outcome = await executor.run(RunningTask(Grant(task, now), context, config, now))
    finally:
        executor.close()
    if outcome is None:
        raise UserError("the task was stopped before it had a result")
    return outcome


def _show(outcome: TaskOutcome, report: dict[str, Any]) -> None:
    print_line(
        f"{outcome.result.status}" + (f": {escape(reason)}" if (reason := report.get("reasonForIncompletion")) else "")
    )
    size = len(outcome.output)
    if size > MAX_SHOWN_BYTES:
        print_line(f"output: {size:,} bytes, not printed; --json prints them")
    else:
        print_line(f"output: {json.dumps(report['outputData'], indent=2)}")
    if size > LARGE_OUTPUT_BYTES:
        print_line(
            f"warning: an output of {size:,} bytes is large. A server may reject it, and every later task reads it; "
            "store the data elsewhere and return its address"
        )
    for log in outcome.result.logs or []:
        for line in log.log.splitlines():
            print_line(f"log: {escape(line)}")
