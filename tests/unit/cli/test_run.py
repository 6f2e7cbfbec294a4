"""`conductor-worker run`: the workers of a module as a program."""

from __future__ import annotations

import signal
import socket
import time
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import psutil
import pytest

from conductor.cli.worker_readiness import PollRounds
from conductor.testing import ConductorStub, Status
from tests.unit.cli.program import CLI, CONSOLE_SCRIPT, DEADLINE_S, Program

MODES = {"processes": [], "asyncio": ["--asyncio"]}


def run(place: Any, server: Any, *options: str, command: Any = CLI, **env: str) -> Program:
    return Program([*command, "run", "greetings", "--url", server.url, *options], place, env)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_command_does_tasks_until_told_to_stop(
    place: Any, conductor_stub: ConductorStub, mode: Any, number: Any
) -> None:
    conductor_stub.add_task("cli_greet", {"name": "Ada"})
    conductor_stub.add_task("cli_wave", {"name": "Grace"})
    with run(place, conductor_stub, *MODES[mode]) as program:
        results = conductor_stub.wait_results(2, timeout=DEADLINE_S)
        program.send(number)
        assert program.wait() == 0
    assert sorted(str(result["outputData"]) for result in results) == [
        "{'greeting': 'Hello Ada'}",
        "{'result': 'Grace waves'}",
    ]
    assert "Traceback" not in program.output


def test_the_console_script_finds_modules_in_the_current_directory(place: Any, conductor_stub: ConductorStub) -> None:
    conductor_stub.add_task("cli_greet", {"name": "Ada"})
    with run(place, conductor_stub, command=CONSOLE_SCRIPT) as program:
        conductor_stub.wait_results(1, timeout=DEADLINE_S)
        program.send(signal.SIGTERM)
        assert program.wait() == 0


@pytest.mark.parametrize("mode", MODES)
def test_options_reach_every_worker_but_the_one_with_a_variable_of_its_own(
    place: Any, conductor_stub: ConductorStub, mode: Any
) -> None:
    variable = {"CONDUCTOR_WORKER_CLI_WAVE_THREAD_COUNT": "2"}
    with run(place, conductor_stub, *MODES[mode], "--thread-count", "6", "--domain", "night", **variable) as program:
        polls = conductor_stub.wait_for(
            lambda: conductor_stub.polls("cli_greet") and conductor_stub.polls("cli_wave"), timeout=DEADLINE_S
        )
        program.send(signal.SIGTERM)
        assert program.wait() == 0
    greet, wave = conductor_stub.polls("cli_greet")[0], polls[0]
    assert (greet.query["count"], wave.query["count"]) == ("6", "2")
    assert greet.query["domain"] == wave.query["domain"] == "night"


def test_metrics_are_served_where_asked(place: Any, conductor_stub: ConductorStub) -> None:
    with run(place, conductor_stub, "--metrics-port", "0", "--metrics-host", "127.0.0.1") as program:
        line = program.line_with("Metrics are served on")
        url = next(word.rstrip(",") for word in line.split() if word.startswith("http://"))
        conductor_stub.wait_for(lambda: conductor_stub.polls("cli_greet"), timeout=DEADLINE_S)
        with urlopen(url, timeout=DEADLINE_S) as answer:
            assert answer.status == 200
        program.send(signal.SIGTERM)
        assert program.wait() == 0


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("signals", [1, 2])
def test_a_coroutine_that_ignores_its_cancellation_does_not_hold_up_the_end_a05(
    place: Any, conductor_stub: ConductorStub, mode: str, signals: int
) -> None:
    """The task is requeued, and the process ends although a function would go on forever."""
    (place / "stubborn.py").write_text(
        "import asyncio\n"
        "from conductor import worker_task\n"
        "@worker_task('cli_stubborn', register_task_def=False)\n"
        "async def stubborn():\n"
        "    print('begun', flush=True)\n"
        "    while True:\n"
        "        try:\n"
        "            await asyncio.sleep(3600)\n"
        "        except asyncio.CancelledError:\n"
        "            pass\n"
    )
    task_id = conductor_stub.add_task("cli_stubborn")
    grace_s = "0.2" if signals == 1 else "3600"
    arguments = ["run", "stubborn", "--url", conductor_stub.url, "--shutdown-grace-seconds", grace_s, *MODES[mode]]
    with Program([*CLI, *arguments], place) as program:
        program.line_with("begun")
        program.send(signal.SIGTERM)
        if signals == 2:
            program.line_with("Stopping worker 'cli_stubborn': running_tasks=1")
            time.sleep(0.1)  # signals at once would be one
            program.send(signal.SIGTERM)
        assert program.wait() == 0
    (result,) = conductor_stub.results_for(task_id)
    assert result["status"] == "IN_PROGRESS"
    assert "Traceback" not in program.output


def test_a_second_signal_ends_it_at_once_and_leaves_nobody_behind(place: Any, conductor_stub: ConductorStub) -> None:
    (place / "slow.py").write_text(
        "import time\n"
        "from conductor import worker_task\n"
        "@worker_task('cli_slow', register_task_def=False)\n"
        "def slow() -> None:\n"
        "    print('begun', flush=True)\n"
        "    time.sleep(600)\n"
    )
    conductor_stub.add_task("cli_slow")
    with Program([*CLI, "run", "slow", "--url", conductor_stub.url], place) as program:
        program.line_with("begun")
        children = psutil.Process(program.pid).children(recursive=True)
        program.send(signal.SIGINT)
        told = program.line_with("running tasks have up to 25 s to finish")
        assert "a second signal ends the program at once" in told
        program.line_with("Stopping worker 'cli_slow': running_tasks=1")
        time.sleep(0.1)  # signals at once would be one
        program.send(signal.SIGINT)
        assert program.wait() == 0
    _, alive = psutil.wait_procs(children, timeout=DEADLINE_S)
    assert alive == []


def test_both_packages_installed_is_told_at_the_start(place: Any, conductor_stub: ConductorStub) -> None:
    other = place / "conductor_python-2.0.0.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: conductor-python\nVersion: 2.0.0\n")
    with run(place, conductor_stub, PYTHONPATH=str(place)) as program:
        assert "pip uninstall conductor-python" in program.line_with("conductor-python 2.0.0 is also installed")
        program.send(signal.SIGTERM)
        program.wait()


def test_a_variable_that_is_nearly_right_is_warned_about(place: Any, conductor_stub: ConductorStub) -> None:
    with run(place, conductor_stub, CONDUCTOR_WORKER_CLI_GREET_THREADCOUNT="4") as program:
        program.line_with("did you mean CONDUCTOR_WORKER_CLI_GREET_THREAD_COUNT?")


def test_a_variable_that_sets_nothing_is_told_once(place: Any, conductor_stub: ConductorStub) -> None:
    with run(place, conductor_stub, CONDUCTOR_WORKER_THREADCOUNT="5") as program:
        conductor_stub.wait_for(lambda: conductor_stub.polls("cli_greet"), timeout=DEADLINE_S)
        program.send(signal.SIGTERM)
        assert program.wait() == 0
    assert program.output.count("CONDUCTOR_WORKER_THREADCOUNT sets nothing") == 1


def test_a_file_is_run(place: Any, conductor_stub: ConductorStub) -> None:
    conductor_stub.add_task("cli_greet", {"name": "Ada"})
    with Program([*CONSOLE_SCRIPT, "run", "greetings.py", "--url", conductor_stub.url], place) as program:
        conductor_stub.wait_results(1, timeout=DEADLINE_S)
        program.send(signal.SIGTERM)
        assert program.wait() == 0


@pytest.mark.parametrize("mode", MODES)
def test_the_first_line_names_the_server_and_the_last_of_the_start_says_ready(place: Any, mode: Any) -> None:
    with ConductorStub(leases=True) as server, run(place, server, *MODES[mode]) as program:
        first = program.line_with("")
        assert first.startswith(f"Server {server.url}: a coordinator, version ")
        assert first.endswith("Starting 2 workers: cli_greet, cli_wave")
        web_ui = f"Web UI: {server.url.removesuffix('/api')}/  `conductor-worker doctor` finds problems."
        assert program.line_with("Web UI") == web_ui
        program.line_with(
            "Ready: every worker has polled. Ctrl-C finishes the running tasks; a second one stops at once"
        )
        assert server.polls("cli_greet")
        assert server.polls("cli_wave")
        program.send(signal.SIGTERM)
        assert program.wait() == 0
    assert program.output.count("Ready:") == 1


def test_a_server_that_is_away_is_said_in_the_first_line_and_ready_waits_for_it(place: Any) -> None:
    with ConductorStub() as server:
        pass
    with run(place, server) as program:
        first = program.line_with("")
        assert first.startswith(f"Server {server.url}: cannot be used yet (no connection")
        assert "the workers keep trying" in first
        assert program.line_with("Start a server").endswith("or name one with CONDUCTOR_SERVER_URL or --url.")
        assert program.line_with("Polls fail").endswith("; the workers keep trying")
        with server:
            program.line_with("Ready: every worker has polled")
            assert "Ready" not in program.output.removesuffix("\n").rpartition("\n")[0]
            program.send(signal.SIGTERM)
            assert program.wait() == 0


def test_a_wrong_path_in_the_url_is_said_in_the_second_line(place: Any) -> None:
    with ConductorStub() as server:
        server.script("poll", Status(404, {"message": "No static resource wrong/api/tasks."}), repeat=True)
        with run(place, server) as program:
            assert "404: No static resource wrong/api/tasks" in program.line_with("")
            program.line_with("Check the path of the URL, which is /api on most servers")


def test_failing_polls_are_one_line_per_round_u4_16() -> None:
    reported: list[str | None] = []
    rounds = PollRounds({"a", "b"}, lambda: reported.append("ready"), reported.append)
    rounds.on_answer("a")
    for task_type in ("b", "a", "a", "b", "b"):  # the second round begins with the second failure of `a`
        rounds.on_failure(task_type, "refused")
    assert reported == ["refused"] * 3
    rounds.on_answer("a")
    assert reported[3:] == []
    rounds.on_answer("b")
    assert reported[3:] == ["ready"]
    rounds.on_failure("a", "reset")
    rounds.on_failure("b", "reset")
    rounds.on_answer("a")
    rounds.on_answer("b")
    assert reported[4:] == ["reset", None]


def test_a_password_in_the_url_is_not_in_the_first_line(place: Any, conductor_stub: Any) -> None:
    url = conductor_stub.url.replace("http://", "http://ada:hush-hush@")
    with Program([*CLI, "run", "greetings", "--url", url], place) as program:
        program.line_with("Ready")
        program.send(signal.SIGTERM)
        program.wait()
    assert "ada:***@" in program.output
    assert "hush-hush" not in program.output


def test_a_program_whose_workers_are_all_paused_is_ready_at_once(place: Any, conductor_stub: Any) -> None:
    with run(place, conductor_stub, "--paused") as program:
        program.line_with("Ready")
        program.send(signal.SIGTERM)
        assert program.wait() == 0
    assert conductor_stub.polls("cli_greet") == []


@pytest.mark.parametrize("mode", MODES)
def test_a_metrics_port_in_use_fails_the_start_in_one_line_unless_told_to_go_on(
    place: Any, conductor_stub: Any, mode: Any
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        metrics = ["--metrics-port", str(port), "--metrics-host", "127.0.0.1"]
        with run(place, conductor_stub, *MODES[mode], *metrics) as program:
            assert program.wait() == 2
        assert (
            f"conductor-worker: metrics and health cannot be served: cannot listen on 127.0.0.1:{port}"
            in program.output
        )
        assert "Traceback" not in program.output
        with run(place, conductor_stub, *MODES[mode], *metrics, "--metrics-optional") as program:
            program.line_with("the workers run without")
            program.line_with("Ready")
            program.send(signal.SIGTERM)
            assert program.wait() == 0


UNPREPARED = """
from conductor import worker_lifespan, worker_task

@worker_lifespan
def database():
    raise OSError('no database at db.example.com')
    yield

@worker_task('cli_unprepared')
def unprepared() -> dict:
    return {}
"""


@pytest.mark.parametrize("mode", MODES)
def test_a_lifespan_that_fails_ends_the_start_with_its_reason(place: Any, conductor_stub: Any, mode: Any) -> None:
    (place / "unprepared.py").write_text(UNPREPARED)
    command = [*CLI, "run", "unprepared", "--url", conductor_stub.url, *MODES[mode]]
    with Program(command, place, {}) as program:
        assert program.wait() == 2
    reason = "database of module unprepared could not be set up: OSError: no database at db.example.com"
    assert f"conductor-worker: {reason}" in program.output
    assert not [poll for poll in conductor_stub.polls() if "cli_unprepared" in poll.path]


SECRETIVE = """
from conductor import worker_task

@worker_task('cli_secretive')
def secretive(card: str) -> dict:
    if card.startswith('bad'):
        raise ValueError(f'no such card: {card}')
    return {'receipt': 'receipt-hush-hush'}
"""


def test_nothing_secret_is_in_metrics_and_health(place: Any) -> None:
    (place / "secretive.py").write_text(SECRETIVE)
    key = {"CONDUCTOR_AUTH_KEY": "ada", "CONDUCTOR_AUTH_SECRET": "secret-hush-hush"}
    with ConductorStub(auth=("ada", "secret-hush-hush")) as server:
        server.add_task("cli_secretive", {"card": "good-card-hush-hush"})
        server.add_task("cli_secretive", {"card": "bad-card-hush-hush"})
        url = server.url.replace("http://", "http://ada:password-hush-hush@")
        metrics = ["--metrics-port", "0", "--metrics-host", "127.0.0.1"]
        with Program([*CLI, "run", "secretive", "--url", url, *metrics], place, key) as program:
            line = program.line_with("Metrics are served on")
            page = next(word.rstrip(",") for word in line.split() if word.startswith("http://")).removesuffix(
                "/metrics"
            )
            server.wait_results(2, timeout=DEADLINE_S)
            exposed = body_of(f"{page}/metrics") + body_of(f"{page}/health") + body_of(f"{page}/ready")
            server.stop()
            exposed += unhealthy(f"{page}/health")
            program.send(signal.SIGTERM)
            program.wait()
        assert "cli_secretive" in exposed, "it does show what it is for"
        assert "ValueError" in exposed
        assert "hush-hush" not in exposed
        assert not any(token in exposed for token in server.tokens)


def body_of(url: str) -> str:
    try:
        with urlopen(url, timeout=DEADLINE_S) as answer:
            return str(answer.read().decode())
    except HTTPError as error:
        with error:
            return error.read().decode()


def unhealthy(url: str) -> str:
    """Wait until /health reports that the server does not answer. Return its report."""
    deadline = time.monotonic() + DEADLINE_S
    while "unreachable" not in (body := body_of(url)):
        assert time.monotonic() < deadline, body
        time.sleep(0.05)
    return body
