"""The tasks of a dead worker process are given back at once, and its finished tasks do not run again."""

from __future__ import annotations

import os
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from conductor.client.configuration.configuration import Configuration
from conductor.client.http.models.task_def import TaskDef
from conductor.client.http.models.workflow_def import WorkflowDef
from conductor.client.orkes_clients import OrkesClients
from conductor.coordinator import Coordinator
from conductor.testing import ConductorStub
from tests.integration.program import PATIENCE_S, Program

#: Both handlers. A task says that it has begun and waits for its gate, which is always open for negative numbers.
WORK = """
from pathlib import Path

def work(number: int):
    with open("began", "a") as ledger:
        ledger.write(f"{number} {os.getpid()}\\n")
    while number >= 0 and not Path("gate").exists():
        time.sleep(0.02)
    return {"number": number}
"""
PROCESSES = (
    WORK
    + """
if __name__ == "__main__":
    workers = [Worker("job", work, thread_count=20)]
    with TaskHandler(workers, shutdown_grace_seconds=600, event_listeners=[Speaker()], **{options}) as handler:
        handler.start_processes()
        handler.join_processes()
"""
)
ON_ONE_LOOP = (
    WORK
    + """
async def main():
    workers = [Worker("job", work, thread_count=20)]
    async with TaskHandlerAsyncIO(workers, shutdown_grace_seconds=600, event_listeners=[Speaker()]) as handler:
        await handler.wait()

if __name__ == "__main__":
    asyncio.run(main())
"""
)
#: Three that end at once, ten that are in hand at the kill.
FINISHED, HELD = [-1, -2, -3], list(range(10))


class Server(ABC):
    """A server with one task type, whose tasks may be silent for an hour."""

    url: str

    @abstractmethod
    def add(self, number: int) -> None:
        """Add one more task."""

    @abstractmethod
    def completed(self) -> int:
        """How many tasks have ended well."""


class OnCoordinator(Server):
    def __init__(self, url: str) -> None:
        self.url = url
        clients = OrkesClients(Configuration(url))
        metadata = clients.get_metadata_client()
        metadata.register_task_def(TaskDef(name="job", retry_count=0, response_timeout_seconds=3600))
        task = {
            "name": "job",
            "taskReferenceName": "job",
            "type": "SIMPLE",
            "inputParameters": {"number": "${workflow.input.number}"},
        }
        definition = {"name": "flow", "version": 1, "schemaVersion": 2, "tasks": [task]}
        metadata.register_workflow_def(WorkflowDef.from_dict(definition), overwrite=True)
        self._workflows = clients.get_workflow_client()
        self._ids: list[str] = []

    def add(self, number: int) -> None:
        self._ids.append(self._workflows.start_workflow_by_name("flow", {"number": number}))

    def completed(self) -> int:
        return sum(self._workflows.get_workflow(each).status == "COMPLETED" for each in self._ids)


class OnStub(Server):
    def __init__(self, stub: ConductorStub) -> None:
        self.url = stub.url
        self._stub = stub
        self._ids: list[str] = []

    def add(self, number: int) -> None:
        self._ids.append(self._stub.add_task("job", {"number": number}, response_timeout_seconds=3600))

    def completed(self) -> int:
        return sum(self._stub.task(each).status == "COMPLETED" for each in self._ids)


@contextmanager
def coordinator(tmp_path: Path) -> Iterator[Server]:
    with Coordinator(database=tmp_path / "coordinator.db") as made:
        yield OnCoordinator(made.url)


@contextmanager
def conductor_server(_: Path) -> Iterator[Server]:
    with ConductorStub() as stub:
        yield OnStub(stub)


@pytest.fixture(params=[coordinator, conductor_server])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    with request.param(tmp_path) as made:
        yield made


class Work:
    """The tasks of a test, and what is known of them from outside."""

    def __init__(self, server: Server, directory: Path) -> None:
        self._server = server
        self._directory = directory
        for number in [*FINISHED, *HELD]:
            server.add(number)

    def began(self) -> list[tuple[int, int]]:
        """Every beginning so far: the number of the task, and the process."""
        ledger = self._directory / "began"
        lines = ledger.read_text().splitlines() if ledger.exists() else []
        return [(int(number), int(pid)) for number, pid in map(str.split, lines)]

    def wait_in_hand(self, program: Program) -> None:
        program.wait_until(lambda: len(self.began()) == len(FINISHED) + len(HELD))
        program.wait_until(lambda: self._server.completed() == len(FINISHED))

    def wait_again(self, program: Program) -> None:
        program.wait_until(lambda: len(self.began()) >= len(FINISHED) + 2 * len(HELD))

    def finish(self, program: Program) -> None:
        (self._directory / "gate").touch()
        program.wait_until(lambda: self._server.completed() == len(FINISHED) + len(HELD))
        assert sorted(number for number, _ in self.began()) == sorted([*FINISHED, *HELD, *HELD])


@pytest.fixture
def work(server: Server, tmp_path: Path) -> Work:
    return Work(server, tmp_path)


Record = Callable[[str, object], None]


def processes(**options: Any) -> str:
    return PROCESSES.replace("{options}", repr(options))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["forkserver", "fork"])
def test_a_killed_worker_process(
    server: Server, work: Work, tmp_path: Path, method: str, record_property: Record
) -> None:
    with Program(tmp_path, processes(start_method=method), server=server.url) as program:
        work.wait_in_hand(program)
        os.kill(work.began()[0][1], signal.SIGKILL)
        killed_at = time.monotonic()
        work.wait_again(program)
        record_property("figures", f"all run again {time.monotonic() - killed_at:.1f} s after the kill")
        work.finish(program)
        program.signal(signal.SIGTERM)
        assert program.wait() == 0
        program.wait_gone()


def test_a_killed_process_that_is_not_started_again(server: Server, work: Work, tmp_path: Path) -> None:
    """Then it is another program that runs its tasks, long before their response timeout."""
    with Program(tmp_path, processes(restart_on_failure=False), server=server.url) as program:
        work.wait_in_hand(program)
        os.kill(work.began()[0][1], signal.SIGKILL)
        program.wait()
        program.wait_gone()
    assert program.output.count("is requeued: COMMITTED") == len(HELD)
    with Program(tmp_path, processes(), server=server.url) as program:
        work.wait_again(program)
        work.finish(program)


@pytest.mark.slow
@pytest.mark.parametrize("script", [processes(), ON_ONE_LOOP], ids=["processes", "one loop"])
def test_a_program_that_was_killed_as_a_whole_and_is_started_again(
    server: Server, work: Work, tmp_path: Path, script: str, record_property: Record
) -> None:
    with Program(tmp_path, script, server=server.url) as program:
        work.wait_in_hand(program)
        for process in program.group():
            process.kill()
        program.wait()
        psutil.wait_procs(program.group(), timeout=PATIENCE_S)
    started_at = time.monotonic()
    with Program(tmp_path, script, server=server.url) as program:
        work.wait_again(program)
        record_property("figures", f"all run again {time.monotonic() - started_at:.1f} s after the start")
        work.finish(program)


@pytest.mark.parametrize("script", [processes(), ON_ONE_LOOP], ids=["processes", "one loop"])
def test_a_second_ctrl_c_leaves_tasks_that_are_given_back(
    server: Server, work: Work, tmp_path: Path, script: str, record_property: Record
) -> None:
    with Program(tmp_path, script, server=server.url) as program:
        work.wait_in_hand(program)
        program.interrupt()
        program.wait_for("stopping job")
        time.sleep(0.1)  # signals at once would be one
        program.interrupt()
        pressed_at = time.monotonic()
        program.wait()
        program.wait_gone()
        took_s = time.monotonic() - pressed_at
        record_property("figures", f"ended {took_s:.1f} s after the second Ctrl-C")
    with Program(tmp_path, script, server=server.url) as program:
        work.wait_again(program)
        work.finish(program)


@pytest.mark.slow
def test_a_process_that_cannot_hear_the_second_signal(server: Server, work: Work, tmp_path: Path) -> None:
    """The process is killed, and the program gives back its tasks before it ends."""
    deaf = processes().replace("def work(number: int):", "async def work(number: int):")
    with Program(tmp_path, deaf, server=server.url) as program:
        program.wait_until(lambda: any(number >= 0 for number, _ in work.began()))
        program.signal(signal.SIGTERM)
        program.wait_for("running tasks have up to")
        time.sleep(0.1)
        program.signal(signal.SIGTERM)
        program.wait()
        program.wait_gone()
    assert "is requeued: COMMITTED" in program.output


def test_the_tasks_of_a_living_process_are_not_given_back(server: Server, work: Work, tmp_path: Path) -> None:
    """A second program on the same files, while the first one works."""
    with Program(tmp_path, processes(), server=server.url) as program:
        work.wait_in_hand(program)
        with Program(tmp_path, processes(), server=server.url) as other:
            other.wait_for("started job")
            server.add(-4)
            other.wait_until(lambda: server.completed() == len(FINISHED) + 1)
        assert "requeued" not in other.output
        (tmp_path / "gate").touch()
        program.wait_until(lambda: server.completed() == len(FINISHED) + 1 + len(HELD))
    assert sorted(number for number, _ in work.began()) == sorted([*FINISHED, *HELD, -4])
