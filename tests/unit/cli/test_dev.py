"""`conductor-worker dev`: reloads workers when files are saved, in a real terminal."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import psutil
import pytest

from conductor.cli.finished_workflows import describe_end
from conductor.cli.tail import TailEvent
from tests.unit.cli.program import CLI, DEADLINE_S, Program
from tests.unit.cli.terminal import Terminal

WORKERS = """
from pathlib import Path
from conductor import worker_task
from conductor.client.workflow import workflow

@worker_task("dev_answer", register_task_def=False)
def answer() -> dict:
    return {"version": VERSION}

@worker_task("dev_debugged", register_task_def=False)
def debugged() -> dict:
    secret = 41
    breakpoint()
    return {"secret": secret}

@worker_task("dev_held", register_task_def=False)
def held() -> dict:
    with open("begun", "w") as gate:  # opening a pipe returns when the test reads it
        gate.write("x")
    with open("go_on") as gate:
        gate.read()
    with open("ended", "a") as ledger:
        ledger.write("x")
    return {"version": VERSION}

with workflow("dev_hello", cron="0 0 3 * * *") as hello:
    hello.returns(version=answer(task_ref_name="answer"))
"""


class Loop:
    """`dev` on a terminal, and the coordinator that it runs."""

    def __init__(self, place: Path, terminal: Terminal, began: str = "Ready in ") -> None:
        self.place = place
        self.terminal = terminal
        before = terminal.wait_for("Web UI: ")
        self.url = re.findall(r"Coordinator at (\S+),", before)[0]
        terminal.wait_for(began)

    def call(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = Request(self.url + path, data, {"Content-Type": "application/json"}, method=method)
        with urlopen(request, timeout=DEADLINE_S) as answer:
            text = answer.read().decode()
        return json.loads(text) if text.startswith(("{", "[")) else text

    def start(self, task: str) -> str:
        definition = {"name": task, "tasks": [{"name": task, "taskReferenceName": "it", "type": "SIMPLE"}]}
        return str(self.call("POST", "/workflow", {"name": task, "workflowDef": definition}))

    def ended(self, workflow_id: str) -> dict[str, Any]:
        def look() -> Any:
            found = self.call("GET", f"/workflow/{workflow_id}")
            return None if found["status"] == "RUNNING" else found

        found: dict[str, Any] = until(look)
        return found

    def save(self, version: object, module: str = WORKERS) -> None:
        (self.place / "shop.py").write_text(module.replace("VERSION", json.dumps(version)))

    def version(self) -> Any:
        """Return the output of the code that takes the next task."""
        return self.ended(self.start("dev_answer"))["tasks"][0]["outputData"]["version"]


def until(look: Callable[[], Any]) -> Any:
    """Poll until there is a result: the other side sends no notification."""
    ends = time.monotonic() + DEADLINE_S
    while not (found := look()):
        assert time.monotonic() < ends, "it did not come"
        threading.Event().wait(0.05)
    return found


def dev(place: Path, module: str = WORKERS, *options: str) -> Terminal:
    (place / "shop.py").write_text(module.replace("VERSION", "1"))
    return Terminal([*CLI, "dev", "shop", "--port", "0", *options], place)


def test_the_line_of_a_workflow_that_ended_has_its_duration_and_the_reason_of_a_failure_u2_10() -> None:
    url = "http://127.0.0.1:8080/api"
    completed = TailEvent(1900, "workflow completed", "orders", "0-1", correlation_id="A-1")
    assert describe_end(completed, 1000, url) == "orders A-1 completed in 0.9 s"
    failed = TailEvent(3000, "workflow failed", "orders", "0000000-12345678", reason="no\npaper")
    address = "http://127.0.0.1:8080/execution/0000000-12345678"
    assert describe_end(failed, 1000, url) == f"orders {failed.short_id} failed in 2.0 s: no paper ({address})"


#: An import that never ends, and says when it begins.
ENDLESS = "import time\nprint('import begun', flush=True)\nwhile True:\n    time.sleep(0.01)\n"


def test_an_endless_import_is_replaced_by_the_next_save_a10(place: Path) -> None:
    """A correction is loaded although the import before it goes on."""
    with dev(place, ENDLESS) as terminal:
        loop = Loop(place, terminal, "import begun")
        loop.save("two")
        terminal.wait_for("Reloaded in ")
        assert loop.version() == "two"
        terminal.interrupt()
        terminal.wait_for("Stopped.")


def test_an_endless_import_is_given_up_a10(place: Path) -> None:
    """The time limit."""
    with dev(place, ENDLESS, "--import-timeout", "1") as terminal:
        terminal.wait_for("The import did not finish within 1 s")
        terminal.wait_for("no workers are running. Correct the code and save it.")
        terminal.interrupt()
        terminal.wait_for("Stopped.")


def test_an_endless_import_does_not_hold_up_the_end_a10(place: Path) -> None:
    """SIGTERM."""
    with dev(place, ENDLESS) as terminal:
        terminal.wait_for("import begun")
        os.kill(terminal.pid, signal.SIGTERM)
        terminal.wait_for("Stopped.")


def test_an_endless_import_ends_with_the_program_a10(place: Path) -> None:
    """The program is killed. There is no terminal whose end would end the child."""
    (place / "shop.py").write_text(ENDLESS)
    with Program([*CLI, "dev", "shop", "--port", "0"], place) as program:
        program.line_with("import begun")
        children = psutil.Process(program.pid).children(recursive=True)
        os.kill(program.pid, signal.SIGKILL)
        _, alive = psutil.wait_procs(children, timeout=DEADLINE_S)
        assert alive == []


def test_a_saved_file_serves_the_next_task_and_a_broken_one_changes_nothing(place: Path) -> None:
    with dev(place, "import no_such_thing\n") as terminal:
        loop = Loop(place, terminal, "no workers are running. Correct the code and save it.")
        loop.save(1)
        terminal.wait_for("Reloaded in ")
        assert loop.version() == 1
        with urlopen(loop.url.removesuffix("api"), timeout=DEADLINE_S) as page:
            assert b"<html" in page.read()
        loop.save("two")
        terminal.wait_for("shop.py saved")
        terminal.wait_for("Reloaded in ")
        assert loop.version() == "two"
        loop.save("", "def broken(:\n")
        assert "SyntaxError" in terminal.wait_for("the previous workers keep running")
        assert loop.version() == "two"
        assert loop.ended(loop.call("POST", "/workflow/dev_hello", {}))["output"] == {"version": {"version": "two"}}
        (schedule,) = loop.call("GET", "/scheduler/schedules?workflowName=dev_hello")
        assert schedule["cronExpression"] == "0 0 3 * * *"
        terminal.wait_for(r"dev_hello …")
        children = psutil.Process(terminal.pid).children(recursive=True)
        terminal.interrupt()
        terminal.wait_for("Stopping: no running task")
        terminal.wait_for("Stopped.")
        assert terminal.wait() == 0
        assert terminal.settings == terminal.settings_before
    _, alive = psutil.wait_procs(children, timeout=DEADLINE_S)
    assert alive == []
    assert "Traceback" not in terminal.text


@pytest.mark.slow
def test_a_breakpoint_in_a_worker_is_talked_to_on_the_terminal(place: Path) -> None:
    with dev(place) as terminal:
        loop = Loop(place, terminal)
        first, second = loop.start("dev_debugged"), loop.start("dev_debugged")
        terminal.wait_for("(Pdb) ")
        terminal.type("secret = secret + 1\n")
        terminal.wait_for("(Pdb) ")
        terminal.type("c\n")
        terminal.wait_for("(Pdb) ")  # the other one, after the first
        terminal.type("c\n")
        outputs = [loop.ended(one)["tasks"][0]["outputData"]["secret"] for one in (first, second)]
        assert sorted(outputs) == [41, 42]
        loop.start("dev_debugged")
        terminal.wait_for("(Pdb) ")
        terminal.interrupt()
        terminal.wait_for("Stopping: 1 running task is finished first")
        terminal.type("c\n")
        terminal.wait_for("Stopped.")
        assert terminal.wait() == 0
        assert terminal.settings == terminal.settings_before


def test_a_taken_port_is_one_line(place: Path, cli: Any, conductor_stub: Any) -> None:
    port = conductor_stub.url.split(":")[2].split("/")[0]
    ran = cli("dev", "greetings", "--port", port)
    assert ran.status == 2
    assert "cannot listen on" in ran.err
    assert "--port 0" in ran.err
    assert "--database" not in ran.err


@pytest.mark.slow
def test_a_task_in_hand_survives_ten_saves_and_is_committed_once(place: Path) -> None:
    for name in ("begun", "go_on"):
        os.mkfifo(place / name)
    with dev(place) as terminal:
        loop = Loop(place, terminal)
        held = loop.start("dev_held")
        assert (place / "begun").read_text() == "x"
        for number in range(2, 12):
            loop.save(number)
            terminal.wait_for("Reloaded in ")
            assert loop.version() == number
        (place / "go_on").write_text("x")
        ended = loop.ended(held)
        assert ended["status"] == "COMPLETED"
        assert [task["outputData"] for task in ended["tasks"]] == [{"version": 1}], "by the workers that took it"
        assert (place / "ended").read_text() == "x", "and by nobody else"
        terminal.interrupt()
        terminal.wait_for("Stopped.")
        assert terminal.wait() == 0
