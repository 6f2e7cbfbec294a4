"""Fixtures of the tests of printed code: a server, a web page to fetch, blocks, and programs made of them."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from conductor.testing import ConductorStub
from tests.compat.catalogue import path_of, text_of
from tests.compat.printed_ports import alone_on
from tests.compat.user_program import Program


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ConductorStub]:
    """The server that `Configuration()` finds."""
    with ConductorStub() as stub:
        monkeypatch.setenv("CONDUCTOR_SERVER_URL", stub.url)
        yield stub


@pytest.fixture
def server_8080() -> Iterator[ConductorStub]:
    """The server where `Configuration("http://localhost:8080/api")` looks for it."""
    with alone_on(8080):
        stub = ConductorStub(port=8080)
        try:
            stub.start()
        except OSError as error:
            pytest.skip(f"port 8080, which the block prints, is taken by another program: {error}")
        try:
            yield stub
        finally:
            stub.stop()


class _Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self._answer({"hello": "world"})

    def do_POST(self) -> None:
        self._answer({"posted": json.loads(self.rfile.read(int(self.headers["Content-Length"])))})

    def _answer(self, value: Any) -> None:
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="session")
def web() -> Iterator[str]:
    """The address of a page that answers GET with `{"hello": "world"}`."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Page) as http:
        thread = threading.Thread(target=http.serve_forever, args=(0.05,))
        thread.start()
        yield f"http://127.0.0.1:{http.server_port}/page"
        http.shutdown()
        thread.join()


#: Runs a block inside the test, with the preamble's names and the stand-ins given; returns it as a module.
RunBlock = Callable[..., ModuleType]


@pytest.fixture
def run_block(server: ConductorStub) -> Iterator[RunBlock]:
    from tests.compat import preamble

    preamble.CALLS.clear()
    made: list[str] = []

    def run(name: str, **stand_ins: Any) -> ModuleType:
        module = sys.modules[name] = ModuleType(name)
        made.append(name)
        vars(module).update(preamble.names(server.url, **stand_ins))
        exec(compile(text_of(name), path_of(name), "exec", dont_inherit=True), vars(module))
        return module

    yield run
    for name in made:
        del sys.modules[name]


#: Starts a program: a block as it is, or with the preamble before and a line or two after it.
Start = Callable[..., Program]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    running: list[Program] = []

    def run(name: str, *, bare: bool = False, before: str = "", after: str = "", **env: str) -> Program:
        script = path_of(name)
        if not bare:
            text = text_of(name)
            libraries = "import httpx\n" if "httpx." in text else ""
            script = tmp_path / f"{name}_program.py"
            script.write_text(f"from preamble import *\n{libraries}{before}\n{text}\n{after}\n")
        program = Program([script], tmp_path, env)
        running.append(program)
        return program

    yield run
    for program in running:
        program.__exit__(None, None, None)


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The packages that blocks import: my_app.workers, my_app.tasks, my_app.test_workers, shared.workers."""
    for module, task_type in {
        "my_app/workers/order_tasks": "order_task",
        "my_app/workers/payment/charge": "charge_task",
        "my_app/tasks/mail": "mail_task",
        "my_app/test_workers/fake": "fake_task",
        "shared/workers/audit": "audit_task",
    }.items():
        file = tmp_path / f"{module}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(_WORKER.format(task_type=task_type))
        for folder in file.parents:
            if folder == tmp_path:
                break
            (folder / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in [name for name in sys.modules if name.split(".")[0] in ("my_app", "shared")]:
        del sys.modules[name]


_WORKER = """
from conductor.client.worker.worker_task import worker_task

@worker_task(task_definition_name='{task_type}')
def {task_type}(n: int = 0) -> dict:
    return {{'{task_type}': n}}
"""
