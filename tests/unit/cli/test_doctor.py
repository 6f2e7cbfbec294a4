"""What a worker here would meet."""

from __future__ import annotations

import sys

import pytest

from conductor.testing import ConductorStub, Status


def test_a_plain_server(cli, conductor_stub):
    ran = cli("doctor", "--url", conductor_stub.url)
    assert ran.status == 0
    assert f"ok  {conductor_stub.url} answers polls and asks for no key: a plain Conductor server" in ran.out


def test_a_coordinator(cli, monkeypatch):
    with ConductorStub(leases=True) as server:
        monkeypatch.setenv("CONDUCTOR_SERVER_URL", server.url)
        ran = cli("doctor")
    assert ran.status == 0
    assert "asks for no key: a coordinator" in ran.out


def test_a_server_that_is_not_there(cli):
    with ConductorStub() as server:
        url = server.url
    ran = cli("doctor", "--url", url)
    assert ran.status == 1
    assert f"BROKEN  {url} cannot be used: no connection" in ran.out
    assert "conductor-worker serve" in ran.out


def test_a_server_in_trouble(cli, conductor_stub):
    conductor_stub.script("poll", Status(500), repeat=True)
    ran = cli("doctor", "--url", conductor_stub.url)
    assert ran.status == 1
    assert "BROKEN" in ran.out
    assert "500" in ran.out


def test_a_password_in_the_url_is_not_printed(cli, conductor_stub):
    ran = cli("doctor", "--url", conductor_stub.url.replace("http://", "http://ada:hush-hush@"))
    assert "http://ada:***@" in ran.out
    assert "hush-hush" not in ran.out + ran.err
    gone = cli("doctor", "--url", "http://ada:hush-hush@127.0.0.1:1")
    assert gone.status == 1
    assert "hush-hush" not in gone.out + gone.err


@pytest.mark.parametrize(
    ("key", "status", "said"),
    [("right", 0, "accepts the key 'right'"), ("wrong", 1, "refuses the key 'wrong'"), (None, 1, "asks for a key")],
)
def test_credentials(cli, monkeypatch, key, status, said):
    if key:
        monkeypatch.setenv("CONDUCTOR_AUTH_KEY", key)
        monkeypatch.setenv("CONDUCTOR_AUTH_SECRET", "hush-hush")
    with ConductorStub(auth=("right", "hush-hush")) as server:
        ran = cli("doctor", "--url", server.url)
    assert ran.status == status
    assert said in ran.out
    assert "hush-hush" not in ran.out
    assert ran.err == "", "what is wrong is said once"


def test_conductor_python_beside_us_is_named_in_one_line(cli, conductor_stub, place, monkeypatch):
    other = place / "conductor_python-2.0.0.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: conductor-python\nVersion: 2.0.0\n")
    monkeypatch.setattr(sys, "path", [str(place), *sys.path])
    lines = cli("doctor", "--url", conductor_stub.url).out.splitlines()
    assert [line for line in lines if "conductor-python 2.0.0 is installed too" in line and "pip uninstall" in line]


def test_variables_that_set_nothing_and_a_journal_that_is_off_are_told(cli, conductor_stub, monkeypatch):
    monkeypatch.setenv("CONDUCTOR_WORKER_THREADCOUNT", "5")
    monkeypatch.setenv("CONDUCTOR_WORKER_JOURNAL", "false")
    ran = cli("doctor", "--url", conductor_stub.url)
    assert ran.status == 0
    assert "warning  environment variable CONDUCTOR_WORKER_THREADCOUNT sets nothing" in ran.out
    assert "warning  the result journal is off" in ran.out
