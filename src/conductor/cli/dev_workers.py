"""The process in which `conductor-worker dev` runs workers, on the user's terminal. Each saved version of the code runs
in a process of its own. The process loads this package, waits for the next save, imports the user's modules and reports
the result. The process starts the workers on the order GO. After the order RELIEVED, it exits as soon as no task is
running.
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

from conductor.cli import BAD_INPUT
from conductor.cli.breakpoints import serialize_breakpoints
from conductor.cli.console import print_line, silence_logger
from conductor.cli.discovery import find_workers, is_inside, resolve_module
from conductor.cli.run import leave_out_start_lines, polled_task_types
from conductor.cli.support import DEFAULT_SERVER, UserError, to_one_line
from conductor.cli.worker_readiness import announce_when_ready
from conductor.client.automator.task_handler_asyncio import TaskHandlerAsyncIO
from conductor.client.configuration.configuration import Configuration
from conductor.client.configuration.option import ConfigurationError
from conductor.client.http.async_rest import ConductorError, load_library
from conductor.client.http.models.workflow_def import WorkflowDef
from conductor.client.metadata_client import AsyncMetadataClient
from conductor.client.scheduler_client import AsyncSchedulerClient
from conductor.client.worker.worker import Worker
from conductor.client.workflow.authoring_errors import WorkflowError
from conductor.client.workflow.conductor_workflow import ConductorWorkflow
from conductor.common.machine import run_event_loop
from conductor.common.signals import defer_signal
from conductor.common.text import escape

#: Messages between `reloading` and this process. Orders: LOAD, GO, RELIEVED. Replies: LOADED, READY, QUIET.
LOAD, LOADED, GO, READY, RELIEVED, QUIET = "load", "loaded", "go", "ready", "relieved", "quiet"
AnyWorkflow = ConductorWorkflow | WorkflowDef
#: Interval between two checks of whether a task is still running.
CHECK_INTERVAL_S = 0.05


def main(arguments: Sequence[str]) -> int:
    """Run `python -m conductor.cli.dev_workers CHANNEL LOCK URL TRACEBACK MODULE...`, and return the exit status."""
    channel, lock, url, show_traceback, *modules = arguments
    # Ignore Ctrl-C: the parent handles it and sends orders. The parent started this process with the signal blocked.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    with socket.socket(fileno=int(channel)) as channel_socket, defer_signal(signal.SIGTERM):
        try:
            load_library()
            if not _wait_for_load(channel_socket):
                return 0  # the parent exited before a file was saved
            configuration = Configuration(url)
            leave_out_start_lines(configuration)
            configuration.apply_logging_config()
            serialize_breakpoints(lock)
            # A bytecode file records only the size and the second of its source. Python would use an outdated one after
            # two saves within a second.
            sys.dont_write_bytecode = True
            threading.Thread(target=_end_with_parent, args=(channel_socket.dup(),), daemon=True).start()
            workers = find_workers(modules, show_traceback=show_traceback == "1")
            workflows = find_workflows([resolve_module(module) for module in modules])
            run_event_loop(_work(channel_socket, workers, workflows, configuration))
        except (UserError, ConfigurationError) as error:
            sys.stderr.write(f"{to_one_line(error)}\n")
            return BAD_INPUT
    return 0


def _wait_for_load(channel_socket: socket.socket) -> bool:
    order = f"{LOAD}\n".encode()
    return channel_socket.recv(len(order), socket.MSG_WAITALL) == order


def _end_with_parent(channel_socket: socket.socket) -> None:
    """Exit if the parent dies before it sends GO, even during an import that never returns."""
    watch = select.poll()
    watch.register(channel_socket, select.POLLIN)
    watch.poll()
    with channel_socket, suppress(BlockingIOError):  # the main thread has already read the order
        if not channel_socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT):
            os._exit(1)


async def _work(
    channel_socket: socket.socket, workers: list[Worker], workflows: list[AnyWorkflow], configuration: Configuration
) -> None:
    reader, writer = await asyncio.open_unix_connection(sock=channel_socket)

    def tell(*words: str) -> None:
        writer.write((" ".join(words) + "\n").encode())

    loop = asyncio.get_running_loop()

    def announce() -> None:
        loop.call_soon_threadsafe(tell, READY)

    with announce_when_ready(polled_task_types(workers), announce) as first_polls:
        handler = TaskHandlerAsyncIO(workers, configuration, event_listeners=[first_polls])
        tell(LOADED, *(worker.get_task_definition_name() for worker in workers))
        if await reader.readline() != f"{GO}\n".encode():
            return  # the parent has exited, or has dismissed this process because the code was saved again
        await _register(workflows, configuration)
        async with handler:
            listening = asyncio.create_task(_relieved(reader, tell, handler))
            await handler.wait()
            listening.cancel()


def find_workflows(modules: Sequence[str]) -> list[AnyWorkflow]:
    """Return the module-level workflows of these modules and of their submodules, each once."""
    found: dict[tuple[str, int], AnyWorkflow] = {}
    for module in [one for name, one in sys.modules.items() if is_inside(name, modules)]:
        for value in vars(module).values():
            if isinstance(value, ConductorWorkflow | WorkflowDef):
                found[value.name, value.version or 1] = value
    return list(found.values())


async def _register(workflows: Sequence[AnyWorkflow], configuration: Configuration) -> None:
    """Register the workflows and the schedules that they declare. A workflow that the server rejects does not stop the
    workers."""
    if not workflows:
        return
    registered: list[WorkflowDef] = []
    async with AsyncMetadataClient(configuration) as metadata, AsyncSchedulerClient(configuration) as scheduler:
        for workflow in workflows:
            try:
                definition = workflow if isinstance(workflow, WorkflowDef) else workflow.to_workflow_def()
                # The coordinator logs its warnings about the definition on the same terminal.
                with silence_logger("conductor.client.http.async_api_client"):
                    await metadata.update_workflow_def(definition, overwrite=True)
                    registered.append(definition)
                    schedule = None if isinstance(workflow, WorkflowDef) else workflow.to_schedule()
                    if schedule is not None:
                        await scheduler.save_schedule(schedule)
            except (ConductorError, WorkflowError) as error:
                sys.stderr.write(f"workflow {escape(workflow.name)} is not registered: {to_one_line(error)}\n")
    if registered:
        server = "" if configuration.host == DEFAULT_SERVER else f" --url {configuration.shown_host}"
        print_line(f"Workflows that can be started: {escape(', '.join(one.name for one in registered))}")
        print_line(f"Start one: {escape(_start_command(registered[0]))}{server}")


def _start_command(definition: WorkflowDef) -> str:
    """Return the command that starts the workflow, with the names of its inputs."""
    names = definition.input_parameters or []
    values = ", ".join(f"{json.dumps(name)}: ..." for name in names)
    input_option = f" --input '{{{values}}}'" if names else ""
    return f"conductor-worker workflow start {definition.name}{input_option} --wait"


async def _relieved(reader: asyncio.StreamReader, tell: Callable[[str], None], handler: TaskHandlerAsyncIO) -> None:
    """After the order RELIEVED, stop polling, finish the running tasks without a time limit, and stop."""
    if await reader.readline() == f"{RELIEVED}\n".encode():
        handler.pause()
        while any(engine.is_polling for engine in handler.task_runners):  # noqa: ASYNC110 - no event to wait for
            await asyncio.sleep(CHECK_INTERVAL_S)
        tell(QUIET)
        while any(engine.running_count for engine in handler.task_runners):  # noqa: ASYNC110
            await asyncio.sleep(CHECK_INTERVAL_S)
        await handler.stop()
    else:  # the parent has exited
        signal.raise_signal(signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
