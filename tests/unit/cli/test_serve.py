"""The coordinator as a program."""

from __future__ import annotations

import json
import signal
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from cli.program import CLI, CONSOLE_SCRIPT, Program, url_in

READY = "Coordinator at http://"


def ask(url: str, method: str = "GET", body: object = None, **headers: str) -> tuple[int, str]:
    data = None if body is None else json.dumps(body).encode()
    request = Request(url, data, {"Content-Type": "application/json", **headers}, method=method)
    try:
        with urlopen(request, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        with error:
            return error.code, error.read().decode()


def serve(place, *options: str, command=CLI, **env: str) -> Program:
    return Program([*command, "serve", "--port", "0", *options], place, env)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_says_where_it_is_and_ends_with_0(place, number):
    with serve(place, "--database", "shop.db") as server:
        line = server.line_with(READY)
        assert "without authentication, database shop.db" in line
        assert ask(url_in(line) + "/health")[0] == 200
        server.send(number)
        assert server.wait() == 0
    assert (place / "shop.db").exists()


def test_the_database_is_in_the_state_directory_unless_named(place):
    with serve(place, command=CONSOLE_SCRIPT, XDG_STATE_HOME=str(place / "state")) as server:
        line = server.line_with(READY)
        assert f"database {place}/state/conductor-worker/coordinator.db" in line
        server.send(signal.SIGTERM)
        assert server.wait() == 0


def test_what_was_registered_is_there_after_a_restart(place):
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


def test_a_key_and_a_secret_turn_authentication_on(place):
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


def test_a_second_coordinator_on_the_same_file_is_refused(place):
    with serve(place, "--database", "shop.db") as first:
        first.line_with(READY)
        with serve(place, "--database", "shop.db") as second:
            assert second.wait() == 2
            assert second.output.count("\n") == 1
            assert "in use by another coordinator" in second.output


def test_a_port_that_is_taken_is_refused(place):
    with serve(place, "--database", "shop.db") as first:
        port = url_in(first.line_with(READY)).split(":")[2].removesuffix("/api")
        with Program([*CLI, "serve", "--port", port, "--database", "other.db"], place) as second:
            assert second.wait() == 2
            assert second.output == f"conductor-worker: cannot listen on 127.0.0.1:{port}: Address already in use\n"
