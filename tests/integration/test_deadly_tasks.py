"""A task that kills its worker process ends, and the tasks beside it run again once at most."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from conductor.client.configuration.configuration import Configuration
from conductor.client.http.models.task_def import TaskDef
from conductor.client.http.models.workflow_def import WorkflowDef
from conductor.client.orkes_clients import OrkesClients
from conductor.coordinator import Coordinator
from tests.integration.program import Program

NEIGHBOURS = 100

#: `deadly` ends its process in one of three ways; `healthy` notes that it has begun, and takes a moment.
SCRIPT = """
import ctypes, resource
from conductor.client.configuration.settings.metrics_settings import MetricsSettings

class Deaths(Speaker):
    def on_task_process_died(self, event):
        say(f"died {event.task_type} {event.cause} deaths={event.deaths} reported_as={event.reported_as}")

def note(name):
    with open("began", "a") as ledger:
        ledger.write(f"{name}\\n")

def healthy(number: int):
    note(number)
    time.sleep(0.1)

def deadly(how: str, directory: str):
    note("deadly")
    time.sleep(0.2)  # so that others are executing beside it
    if how == "exit":
        os._exit(3)
    if how == "segfault":
        ctypes.string_at(0)
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    return {"survived": True}

if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    options = {options}
    shared = options.pop("process_name", None)
    workers = [
        Worker("healthy", healthy, thread_count=10, process_name=shared),
        Worker("deadly", deadly, thread_count=1, process_name=shared),
    ]
    settings = MetricsSettings(http_port=0)
    with TaskHandler(
        workers, event_listeners=[Deaths()], metrics_settings=settings, restart_backoff_seconds=0.1,
        restart_backoff_max_seconds=0.3, **options
    ) as handler:
        handler.start_processes()
        say(f"metrics on port {handler._hub.port}")
        handler.join_processes()
"""

CAUSES = {
    "exit": "the worker process exited with status 3",
    "segfault": "the worker process was killed by SIGSEGV",
    "kill": "the worker process was killed by SIGKILL (out of memory?)",
}


def script(**options: Any) -> str:
    return SCRIPT.replace("{options}", repr(options))


class Server:
    """A coordinator with a workflow for each of the two task types."""

    def __init__(self, url: str) -> None:
        self.url = url
        clients = OrkesClients(Configuration(url))
        metadata = clients.get_metadata_client()
        self.workflows = clients.get_workflow_client()
        for name, keys in {"healthy": ["number"], "deadly": ["how", "directory"]}.items():
            metadata.register_task_def(
                TaskDef(name=name, retry_count=2, retry_delay_seconds=0, response_timeout_seconds=3600)
            )
            task = {
                "name": name,
                "taskReferenceName": name,
                "type": "SIMPLE",
                "inputParameters": {key: f"${{workflow.input.{key}}}" for key in keys},
            }
            definition = {"name": name, "version": 1, "schemaVersion": 2, "tasks": [task]}
            metadata.register_workflow_def(WorkflowDef.from_dict(definition), overwrite=True)

    def start(self, name: str, **given: Any) -> str:
        return self.workflows.start_workflow_by_name(name, given)

    def status(self, workflow_id: str) -> str:
        return str(self.workflows.get_workflow(workflow_id).status)

    def tasks(self, workflow_id: str) -> list[Any]:
        return list(self.workflows.get_workflow(workflow_id, include_tasks=True).tasks)


@contextmanager
def coordinator(directory: Path) -> Iterator[Server]:
    with Coordinator(database=directory / "coordinator.db") as made:
        yield Server(made.url)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with coordinator(tmp_path) as made:
        yield made


def began(directory: Path) -> Counter[str]:
    ledger = directory / "began"
    return Counter(ledger.read_text().split() if ledger.exists() else [])


@pytest.mark.slow
@pytest.mark.parametrize("how", CAUSES)
@pytest.mark.parametrize("shared", [True, False], ids=["shared process", "own process"])
def test_a_task_that_kills_its_process_ends_and_its_neighbours_complete_a14(
    server: Server, tmp_path: Path, how: str, shared: bool
) -> None:
    deadly = server.start("deadly", how=how, directory=str(tmp_path))
    healthy = [server.start("healthy", number=number) for number in range(NEIGHBOURS)]
    options = {"process_name": "shared"} if shared else {}
    with Program(tmp_path, script(**options), server=server.url) as program:
        program.wait_until(lambda: server.status(deadly) == "FAILED")
        program.wait_until(lambda: all(server.status(each) == "COMPLETED" for each in healthy))
        port = program.output.partition("metrics on port ")[2].split()[0]
        metrics = httpx.get(f"http://127.0.0.1:{port}/metrics").text
        program.signal(signal.SIGTERM)
        assert program.wait() == 0
    counted = began(tmp_path)
    assert all(counted[str(number)] <= 2 for number in range(NEIGHBOURS)), counted
    attempts = server.tasks(deadly)
    # The first SIGKILL may have come from outside and costs no attempt.
    failed = ["FAILED"] if how == "kill" else ["FAILED", "FAILED"]
    assert [task.status for task in attempts] == [*failed, "FAILED_WITH_TERMINAL_ERROR"]
    assert all(CAUSES[how] in task.reason_for_incompletion for task in attempts)
    assert f"died deadly {CAUSES[how]} deaths=3 reported_as=FAILED_WITH_TERMINAL_ERROR" in program.output
    label = {"exit": "status 3", "segfault": "SIGSEGV", "kill": "SIGKILL"}[how]
    assert f'task_process_died_total{{cause="{label}",taskType="deadly"}}' in metrics


#: A program of its own, without a supervisor, and a worker whose only task ends the program.
ON_ONE_LOOP = """
import os

class Deaths(Speaker):
    def on_task_process_died(self, event):
        say(f"died {event.task_type} {event.cause} deaths={event.deaths} reported_as={event.reported_as}")

def deadly(how: str, directory: str):
    with open("began", "a") as ledger:
        ledger.write("deadly\\n")
    os._exit(3)

async def main():
    async with TaskHandlerAsyncIO([Worker("deadly", deadly)], event_listeners=[Deaths()]) as handler:
        await handler.wait()

if __name__ == "__main__":
    asyncio.run(main())
"""


@pytest.mark.slow
def test_a_program_without_worker_processes_that_is_started_again_a14(server: Server, tmp_path: Path) -> None:
    """No process has seen the exit status, so the first death costs no attempt; the next start applies the rules."""
    deadly = server.start("deadly", how="exit", directory=str(tmp_path))
    for _ in range(3):
        with Program(tmp_path, ON_ONE_LOOP, server=server.url) as program:
            assert program.wait() == 3
    with Program(tmp_path, ON_ONE_LOOP, server=server.url) as program:
        program.wait_until(lambda: server.status(deadly) == "FAILED")
    assert "died deadly the worker process died deaths=3 reported_as=FAILED_WITH_TERMINAL_ERROR" in program.output
    assert [task.status for task in server.tasks(deadly)] == ["FAILED", "FAILED_WITH_TERMINAL_ERROR"]
    assert began(tmp_path)["deadly"] == 3


@pytest.mark.slow
def test_a_kill_from_outside_costs_no_attempt_a14(server: Server, tmp_path: Path) -> None:
    """The only task of a process that an operator kills is given back, even if it has no retries."""
    waiting = """
from pathlib import Path

def deadly(how: str, directory: str):
    with open("began", "a") as ledger:
        ledger.write(f"{os.getpid()}\\n")
    while not Path("gate").exists():
        time.sleep(0.02)

if __name__ == "__main__":
    with TaskHandler([Worker("deadly", deadly)], restart_backoff_seconds=0.1) as handler:
        handler.start_processes()
        handler.join_processes()
"""
    workflow = server.start("deadly", how="exit", directory=str(tmp_path))
    with Program(tmp_path, waiting, server=server.url) as program:
        program.wait_until(lambda: len(began(tmp_path)) == 1)
        os.kill(int(*began(tmp_path)), signal.SIGKILL)
        program.wait_until(lambda: len(began(tmp_path)) == 2)
        (tmp_path / "gate").touch()
        program.wait_until(lambda: server.status(workflow) == "COMPLETED")
    assert [task.status for task in server.tasks(workflow)] == ["COMPLETED"]
