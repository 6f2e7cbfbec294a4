"""`conductor-worker serve`: the coordinator as a program."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from tests.unit.cli.program import CLI, CONSOLE_SCRIPT, Program, url_in

READY = "Coordinator at http://"
HTTP_TASK = {
    "name": "t",
    "taskReferenceName": "t",
    "type": "HTTP",
    "inputParameters": {"http_request": {"uri": "http://127.0.0.1:1/", "method": "GET"}},
}


def ask(url: str, method: str = "GET", body: object = None, **headers: str) -> tuple[int, str]:
    data = None if body is None else json.dumps(body).encode()
    request = Request(url, data, {"Content-Type": "application/json", **headers}, method=method)
    try:
        with urlopen(request, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        with error:
            return error.code, error.read().decode()


def serve(place: Any, *options: str, command: Any = CLI, **env: str | None) -> Program:
    return Program([*command, "serve", "--port", "0", *options], place, env)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_serve_prints_its_address_and_ends_with_status_0(place: Any, number: Any) -> None:
    with serve(place, "--database", "shop.db") as server:
        line = server.line_with(READY)
        assert "without authentication, database shop.db" in line
        assert ask(url_in(line) + "/health")[0] == 200
        server.send(number)
        assert server.wait() == 0
    assert (place / "shop.db").exists()


def test_the_database_is_in_the_state_directory_unless_named(place: Any) -> None:
    with serve(place, command=CONSOLE_SCRIPT, XDG_STATE_HOME=str(place / "state")) as server:
        line = server.line_with(READY)
        assert f"database {place}/state/conductor-worker/coordinator.db" in line
        server.send(signal.SIGTERM)
        assert server.wait() == 0


def test_definitions_are_there_after_a_restart(place: Any) -> None:
    definition = [{"name": "greet", "retryCount": 7, "ownerEmail": "ada@example.com"}]
    with serve(place, "--database", "shop.db") as server:
        url = url_in(server.line_with(READY))
        assert ask(f"{url}/metadata/taskdefs", "POST", definition)[0] == 200
        server.send(signal.SIGKILL)
        server.wait()
    with serve(place, "--database", "shop.db") as server:
        url = url_in(server.line_with(READY))
        status, body = ask(f"{url}/metadata/taskdefs/greet")
        assert (status, json.loads(body)["retryCount"]) == (200, 7)


def test_a_key_and_a_secret_turn_authentication_on(place: Any) -> None:
    with serve(place, "--database", "shop.db", CONDUCTOR_AUTH_KEY="ada", CONDUCTOR_AUTH_SECRET="hush") as server:
        line = server.line_with(READY)
        url = url_in(line)
        assert "with authentication" in line
        assert "hush" not in line
        assert ask(f"{url}/health")[0] == 200
        assert ask(f"{url}/metadata/taskdefs")[0] == 401
        status, body = ask(f"{url}/token", "POST", {"keyId": "ada", "keySecret": "hush"})
        assert status == 200
        token = {"X-Authorization": json.loads(body)["token"]}
        assert ask(f"{url}/metadata/taskdefs", **token)[0] == 200


def test_a_key_in_the_database_turns_authentication_on(place: Any) -> None:
    create = [*CLI, "key", "create", "ada", "--role", "admin", "--database", "shop.db"]
    with Program(create, place) as creation:
        assert creation.wait() == 0
    with serve(place, "--database", "shop.db") as server:
        line = server.line_with(READY)
        assert " with authentication" in line
        assert ask(f"{url_in(line)}/metadata/taskdefs")[0] == 401


def test_a_second_coordinator_on_the_same_file_is_refused(place: Any) -> None:
    with serve(place, "--database", "shop.db") as first:
        first.line_with(READY)
        with serve(place, "--database", "shop.db") as second:
            assert second.wait() == 2
            assert second.output.count("\n") == 1
            assert "in use by another coordinator" in second.output


def test_a_port_that_is_taken_is_refused(place: Any) -> None:
    with serve(place, "--database", "shop.db") as first:
        port = url_in(first.line_with(READY)).split(":")[2].removesuffix("/api")
        with Program([*CLI, "serve", "--port", port, "--database", "other.db"], place) as second:
            assert second.wait() == 2
            refusal = f"cannot listen on 127.0.0.1:{port}: Address already in use (--port chooses another port)"
            assert second.output == f"conductor-worker: {refusal}\n"


#: A user id without a name on this machine, as in a container that is told to run as a number.
NAMELESS = 12345
#: Become that user, but keep reading every file: the checkout and Python itself may be readable for root only.
AS_NAMELESS = (
    "setpriv",
    f"--reuid={NAMELESS}",
    f"--regid={NAMELESS}",
    "--clear-groups",
    "--inh-caps=+dac_override",
    "--ambient-caps=+dac_override",
)


def can_become_nameless() -> bool:
    """Whether this is root with `setpriv` of util-linux."""
    return (
        os.geteuid() == 0
        and shutil.which("setpriv") is not None
        and subprocess.run([*AS_NAMELESS, "true"], check=False, capture_output=True).returncode == 0
    )


@pytest.mark.skipif(not can_become_nameless(), reason="needs root and setpriv, to become a user that does not exist")
def test_a_user_without_a_name_and_a_home_has_a_database_in_the_temporary_directory_c12() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        Path(temporary).chmod(0o777)
        without_home = {"TMPDIR": temporary, "HOME": None, "XDG_STATE_HOME": None}
        with serve(Path(temporary), command=[*AS_NAMELESS, *CLI], **without_home) as server:
            line = server.line_with(READY)
            database = Path(temporary) / f"state-{NAMELESS}" / "conductor-worker" / "coordinator.db"
            assert f"database {database}" in line
            assert ask(url_in(line) + "/health")[0] == 200
            assert database.stat().st_uid == NAMELESS
            server.send(signal.SIGTERM)
            assert server.wait() == 0


def test_hosts_and_origins_are_given_as_options_or_variables(place: Any) -> None:
    options = ("--database", "shop.db", "--allow-host", "shop.internal", "--allow-origin", "https://desk.example")
    lists = {"CONDUCTOR_ALLOWED_HOSTS": "a.internal, b.internal", "CONDUCTOR_ALLOWED_ORIGINS": "http://c.example"}
    with serve(place, *options, **lists) as server:
        url = url_in(server.line_with(READY))
        for host, status in [("shop.internal", 200), ("b.internal", 200), ("localhost", 200), ("c.internal", 403)]:
            assert ask(f"{url}/version", Host=host)[0] == status
        for origin, status in [("https://desk.example", 200), ("http://c.example", 200), ("http://d.example", 403)]:
            assert ask(f"{url}/metadata/taskdefs", "POST", [{"name": "greet"}], Origin=origin)[0] == status


def test_hosts_of_http_tasks_are_given_as_options_or_variables(place: Any) -> None:
    options = ("--database", "shop.db", "--http-task-host", "api.example")
    flow = {"name": "call", "tasks": [HTTP_TASK]}
    with serve(place, *options, CONDUCTOR_HTTP_TASK_HOSTS="10.0.0.0/8") as server:
        url = url_in(server.line_with(READY))
        assert ask(f"{url}/metadata/workflow", "POST", flow)[0] == 200
        found = ask(f"{url}/workflow/execute/call/1?waitForSeconds=60", "POST", {})[1]
        assert "127.0.0.1:1 is not one of the hosts that HTTP tasks may call" in found


def test_a_host_of_http_tasks_that_cannot_be_meant_is_one_line(place: Any) -> None:
    with serve(place, "--database", "shop.db", "--http-task-host", "shop.internal:http") as server:
        assert server.wait() == 2
        assert server.output.count("\n") == 1
        assert "'shop.internal:http' is not a host with a port" in server.output


def test_a_host_that_cannot_be_meant_is_one_line(place: Any) -> None:
    with serve(place, "--database", "shop.db", "--allow-host", "http://shop.internal") as server:
        assert server.wait() == 2
        assert server.output.count("\n") == 1
        assert "without scheme and port" in server.output


def test_an_empty_url_of_a_replica_is_not_the_same_as_none(place: Any) -> None:
    """As in `--replicate "$URL"` without the variable: the coordinator would run without a replica."""
    with serve(place, "--database", "shop.db", "--replicate", "") as server:
        assert server.wait() == 2
        assert "the URL of the replica is empty" in server.output


def test_a_key_for_secrets_that_cannot_be_used_is_one_line(place: Any) -> None:
    with serve(place, "--database", "shop.db", CONDUCTOR_SECRETS_KEY="short") as server:
        assert server.wait() == 2
        assert "CONDUCTOR_SECRETS_KEY has fewer than 16 characters" in server.output


def test_systemd_hears_when_the_coordinator_is_ready_o07(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory() as short, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(f"{short}/notify")
        systemd.settimeout(60)
        command = [*CLI, "serve", "--port", "0", "--database", "a.db"]
        with Program(command, tmp_path, env={"NOTIFY_SOCKET": f"{short}/notify"}) as program:
            assert systemd.recv(100) == b"READY=1"
            url = url_in(program.line_with(READY))
            assert ask(url + "/ready") == (200, '{"ready":true,"reason":null}')
            program.send(signal.SIGTERM)
            assert systemd.recv(100) == b"STOPPING=1"
            assert program.wait() == 0
