"""`conductor-worker doctor`: the server and settings that a worker would meet here."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from conductor.testing import ConductorStub, Status


def test_doctor_recognises_a_conductor_server(cli: Any, conductor_stub: ConductorStub) -> None:
    ran = cli("doctor", "--url", conductor_stub.url)
    assert ran.status == 0
    assert f"ok  {conductor_stub.url} answers polls and requires no key: a Conductor server" in ran.out


def test_doctor_recognises_a_coordinator(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with ConductorStub(leases=True) as server:
        monkeypatch.setenv("CONDUCTOR_SERVER_URL", server.url)
        ran = cli("doctor")
    assert ran.status == 0
    assert "requires no key: a coordinator" in ran.out


def test_a_server_that_is_not_there(cli: Any) -> None:
    with ConductorStub() as server:
        url = server.url
    ran = cli("doctor", "--url", url)
    assert ran.status == 1
    assert f"BROKEN  {url} cannot be used: no connection" in ran.out
    assert "conductor-worker serve" in ran.out


def test_a_server_in_trouble(cli: Any, conductor_stub: ConductorStub) -> None:
    conductor_stub.script("poll", Status(500), repeat=True)
    ran = cli("doctor", "--url", conductor_stub.url)
    assert ran.status == 1
    assert "BROKEN" in ran.out
    assert "500" in ran.out


def test_a_password_in_the_url_is_not_printed(cli: Any, conductor_stub: ConductorStub) -> None:
    ran = cli("doctor", "--url", conductor_stub.url.replace("http://", "http://ada:hush-hush@"))
    assert "http://ada:***@" in ran.out
    assert "hush-hush" not in ran.out + ran.err
    gone = cli("doctor", "--url", "http://ada:hush-hush@127.0.0.1:1")
    assert gone.status == 1
    assert "hush-hush" not in gone.out + gone.err


@pytest.mark.parametrize(
    ("key", "status", "said"),
    [("right", 0, "accepts the key 'right'"), ("wrong", 1, "rejects the key 'wrong'"), (None, 1, "requires a key")],
)
def test_doctor_checks_credentials(cli: Any, monkeypatch: pytest.MonkeyPatch, key: Any, status: Any, said: Any) -> None:
    if key:
        monkeypatch.setenv("CONDUCTOR_AUTH_KEY", key)
        monkeypatch.setenv("CONDUCTOR_AUTH_SECRET", "hush-hush")
    with ConductorStub(auth=("right", "hush-hush")) as server:
        ran = cli("doctor", "--url", server.url)
    assert ran.status == status
    assert said in ran.out
    assert "hush-hush" not in ran.out
    assert ran.err == "", "what is wrong is said once"


def test_variables_of_the_named_workers_are_not_misspelt_ones(
    cli: Any, conductor_stub: ConductorStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONDUCTOR_WORKER_CLI_GREET_THREAD_COUNT", "5")
    monkeypatch.setenv("CONDUCTOR_WORKER_CLI_GREET_THRAED_COUNT", "5")
    monkeypatch.setenv("CONDUCTOR_SERVER_URRL", "http://x")
    lines = cli("doctor", "greetings", "--url", conductor_stub.url).out.splitlines()
    said = [line for line in lines if "sets nothing" in line]
    assert len(said) == 2
    assert any("CLI_GREET_THRAED_COUNT sets nothing: did you mean" in line for line in said)
    assert any("CONDUCTOR_SERVER_URRL sets nothing: did you mean" in line for line in said)


def test_conductor_python_beside_us_is_named_in_one_line(
    cli: Any, conductor_stub: ConductorStub, place: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = place / "conductor_python-2.0.0.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: conductor-python\nVersion: 2.0.0\n")
    monkeypatch.setattr(sys, "path", [str(place), *sys.path])
    lines = cli("doctor", "--url", conductor_stub.url).out.splitlines()
    at = next(number for number, line in enumerate(lines) if "conductor-python 2.0.0 is also installed" in line)
    assert "pip uninstall" in lines[at + 1]


def test_variables_that_set_nothing_and_a_journal_that_is_off_are_told(
    cli: Any, conductor_stub: ConductorStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONDUCTOR_WORKER_THREADCOUNT", "5")
    monkeypatch.setenv("CONDUCTOR_SERVER_ULR", "http://elsewhere")
    monkeypatch.setenv("CONDUCTOR_WORKER_JOURNAL", "false")
    ran = cli("doctor", "--url", conductor_stub.url)
    assert ran.status == 0
    assert "warning  environment variable CONDUCTOR_WORKER_THREADCOUNT sets nothing" in ran.out
    assert "CONDUCTOR_SERVER_ULR sets nothing: did you mean CONDUCTOR_SERVER_URL?\n" in ran.out, "without a doubt"
    assert "warning  the result journal is off" in ran.out


def journal_line(cli: Any, server: ConductorStub) -> str:
    return str(next(line for line in cli("doctor", "--url", server.url).out.splitlines() if "result journal" in line))


def test_the_journal_is_written_to_as_a_worker_would(
    cli: Any, conductor_stub: Any, place: Any, monkeypatch: Any
) -> None:
    monkeypatch.setenv("CONDUCTOR_WORKER_JOURNAL_DIR", str(place / "new" / "journal"))
    assert f"ok  the result journal can be written to {place}/new/journal" in journal_line(cli, conductor_stub)
    assert not (place / "new").exists(), "the worker may be another user: nothing of ours is in its way"


@pytest.mark.parametrize("path", ["greetings.py", "greetings.py/journal"])
def test_a_journal_where_there_is_a_file_is_found_also_by_root(
    cli: Any, conductor_stub: Any, place: Any, monkeypatch: Any, path: Any
) -> None:
    monkeypatch.setenv("CONDUCTOR_WORKER_JOURNAL_DIR", str(place / path))
    line = journal_line(cli, conductor_stub)
    assert f"warning  the result journal cannot be written to {place}/{path}: " in line


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a directory in which nobody can make a file: /proc")
def test_a_journal_where_no_file_can_be_made_is_found(cli: Any, conductor_stub: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("CONDUCTOR_WORKER_JOURNAL_DIR", "/proc/self")
    assert "warning  the result journal cannot be written to /proc/self: " in journal_line(cli, conductor_stub)


class _WebPage(BaseHTTPRequestHandler):
    server_version = "SomeShop/7"
    sys_version = ""

    def do_GET(self) -> None:
        self.send_response(self.server.status)  # type: ignore[attr-defined]
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!DOCTYPE html><html><head><title>Our\n shop</title></head>" + b"<p>Buy!</p>" * 500)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(params=[200, 404, 500])
def web_page(request: pytest.FixtureRequest) -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), _WebPage) as server:
        server.status = request.param  # type: ignore[attr-defined]
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/api"
        server.shutdown()
        thread.join()


def test_a_web_server_that_is_no_conductor_is_named_without_its_page(cli: Any, web_page: Any) -> None:
    ran = cli("doctor", "--url", web_page)
    assert ran.status == 1
    line = next(line for line in ran.out.splitlines() if "BROKEN" in line)
    assert "a web page ('Our shop') from SomeShop/7, which no Conductor server sends" in line
    assert "<" not in ran.out


@pytest.mark.parametrize("command", [["workflow", "list"], ["queues"]])
def test_every_command_warns_of_conductor_python_u4_79(
    command: list[str], cli: Any, conductor_stub: ConductorStub, place: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = place / "conductor_python-2.0.0.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: conductor-python\nVersion: 2.0.0\n")
    monkeypatch.setattr(sys, "path", [str(place), *sys.path])
    first, *_ = cli(*command, "--url", conductor_stub.url).err.splitlines()
    assert first.startswith("conductor-worker: warning: conductor-python 2.0.0 is also installed")
    assert "pip uninstall conductor-python" in first
