"""The workers of a module as a program."""

from __future__ import annotations

import signal
import time

import psutil
import pytest

from cli.program import CLI, CONSOLE_SCRIPT, DEADLINE_S, Program

MODES = {"processes": [], "asyncio": ["--asyncio"]}


def run(place, server, *options: str, command=CLI, **env: str) -> Program:
    return Program([*command, "run", "greetings", "--url", server.url, *options], place, env)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_does_tasks_until_told_to_stop(place, conductor_stub, mode, number):
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


def test_the_console_script_finds_modules_in_the_current_directory(place, conductor_stub):
    conductor_stub.add_task("cli_greet", {"name": "Ada"})
    with run(place, conductor_stub, command=CONSOLE_SCRIPT) as program:
        conductor_stub.wait_results(1, timeout=DEADLINE_S)
        program.send(signal.SIGTERM)
        assert program.wait() == 0


@pytest.mark.parametrize("mode", MODES)
def test_options_reach_every_worker_but_the_one_with_a_variable_of_its_own(place, conductor_stub, mode):
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


def test_metrics_are_served_where_asked(place, conductor_stub):
    from urllib.request import urlopen

    with run(place, conductor_stub, "--metrics-port", "0", "--metrics-host", "127.0.0.1") as program:
        line = program.line_with("Metrics are served on")
        url = next(word.rstrip(",") for word in line.split() if word.startswith("http://"))
        conductor_stub.wait_for(lambda: conductor_stub.polls("cli_greet"), timeout=DEADLINE_S)
        with urlopen(url, timeout=DEADLINE_S) as answer:
            assert answer.status == 200
        program.send(signal.SIGTERM)
        assert program.wait() == 0


def test_a_second_signal_ends_it_at_once_and_leaves_nobody_behind(place, conductor_stub):
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
        program.line_with("finishing what is in hand")
        time.sleep(0.1)  # signals at once would be one
        program.send(signal.SIGINT)
        assert program.wait() == 0
    _, alive = psutil.wait_procs(children, timeout=DEADLINE_S)
    assert alive == []


def test_both_packages_installed_is_told_at_the_start(place, conductor_stub):
    other = place / "conductor_python-2.0.0.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: conductor-python\nVersion: 2.0.0\n")
    with run(place, conductor_stub, PYTHONPATH=str(place)) as program:
        assert "pip uninstall conductor-python" in program.line_with("conductor-python 2.0.0 is installed too")
        program.send(signal.SIGTERM)
        program.wait()


def test_a_variable_that_is_nearly_right_is_warned_about(place, conductor_stub):
    with run(place, conductor_stub, CONDUCTOR_WORKER_CLI_GREET_THREADCOUNT="4") as program:
        program.line_with("did you mean CONDUCTOR_WORKER_CLI_GREET_THREAD_COUNT?")


def test_a_variable_that_sets_nothing_is_told_once(place, conductor_stub):
    with run(place, conductor_stub, CONDUCTOR_WORKER_THREADCOUNT="5") as program:
        conductor_stub.wait_for(lambda: conductor_stub.polls("cli_greet"), timeout=DEADLINE_S)
        program.send(signal.SIGTERM)
        assert program.wait() == 0
    assert program.output.count("CONDUCTOR_WORKER_THREADCOUNT sets nothing") == 1


def test_a_file_is_run(place, conductor_stub):
    conductor_stub.add_task("cli_greet", {"name": "Ada"})
    with Program([*CONSOLE_SCRIPT, "run", "greetings.py", "--url", conductor_stub.url], place) as program:
        conductor_stub.wait_results(1, timeout=DEADLINE_S)
        program.send(signal.SIGTERM)
        assert program.wait() == 0
