"""Every environment variable that the documents print, in every spelling, and which of them wins."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from conductor.client.automator.task_handler_asyncio import TaskHandlerAsyncIO
from conductor.client.configuration.configuration import Configuration
from conductor.client.worker.worker_config import ConfigurationError, resolve_worker_config
from conductor.client.worker.worker_task import worker_task
from conductor.testing import ConductorStub
from tests.compat.user_program import Program

#: property: (default, a text for the environment and what it means, another text and its meaning)
PROPERTIES: dict[str, tuple[Any, tuple[str, Any], tuple[str, Any]]] = {
    "poll_interval_millis": (100, ("250", 250), ("1000", 1000)),
    "thread_count": (1, ("20", 20), ("50", 50)),
    "domain": (None, ("dev", "dev"), ("production", "production")),
    "worker_id": (None, ("a", "a"), ("b", "b")),
    "poll_timeout": (100, ("200", 200), ("300", 300)),
    "lease_extend_enabled": (False, ("true", True), ("false", False)),
    "register_task_def": (False, ("yes", True), ("no", False)),
    "overwrite_task_def": (True, ("0", False), ("1", True)),
    "strict_schema": (False, ("TRUE", True), ("FALSE", False)),
    "paused": (False, ("Yes", True), ("No", False)),
}

#: The spellings, the strongest first.
SPELLINGS = [
    "conductor.worker.process_order.{lower}",
    "CONDUCTOR_WORKER_PROCESS_ORDER_{UPPER}",
    "CONDUCTOR_WORKER_process_order_{UPPER}",
    "conductor_worker_process_order_{lower}",
    "conductor.worker.all.{lower}",
    "CONDUCTOR_WORKER_ALL_{UPPER}",
    "CONDUCTOR_WORKER_{UPPER}",
    "conductor_worker_{lower}",
]


def variable(spelling: str, name: str) -> str:
    return spelling.format(lower=name, UPPER=name.upper())


@pytest.mark.parametrize("name", PROPERTIES)
def test_an_option_without_a_variable_has_its_default(name: str) -> None:
    value = resolve_worker_config("process_order")[name]
    if name == "worker_id":
        assert value  # made up, one for each process
    else:
        assert value == PROPERTIES[name][0]


@pytest.mark.parametrize("rank", range(len(SPELLINGS)), ids=SPELLINGS)
@pytest.mark.parametrize("name", PROPERTIES)
def test_a_spelling_wins_over_all_weaker_ones_and_over_code(
    name: str, rank: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, (weak_text, weak), (text, meant) = PROPERTIES[name]
    monkeypatch.setenv(variable(SPELLINGS[rank], name), text)
    for weaker in SPELLINGS[rank + 1 :]:
        monkeypatch.setenv(variable(weaker, name), weak_text)
    config = resolve_worker_config("process_order", {} if name == "paused" else {name: weak})
    assert config[name] == meant
    assert config.source(name) == f"env {variable(SPELLINGS[rank], name)}"


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("name", [name for name in PROPERTIES if name not in ("domain", "worker_id")])
def test_an_empty_variable_counts_as_unset(name: str, spelling: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable(spelling, name), "")
    assert resolve_worker_config("process_order").source(name) == "default"


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_domain_set_to_nothing_clears_the_one_in_code(spelling: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable(spelling, "domain"), "")
    assert resolve_worker_config("process_order", {"domain": "dev"}).domain is None


@pytest.mark.parametrize("name", [name for name in PROPERTIES if name != "paused"])
def test_code_wins_over_the_default(name: str) -> None:
    _, (_, value), _ = PROPERTIES[name]
    config = resolve_worker_config("process_order", {name: value})
    assert (config[name], config.source(name)) == (value, "code")


def test_paused_is_no_argument_of_the_decorator() -> None:
    with pytest.raises(TypeError, match="paused"):
        worker_task(task_definition_name="t", paused=True)(lambda: None)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("text", "meant"),
    [(spelling, meant) for meant, texts in {True: "true 1 yes on", False: "false 0 no off"}.items() for spelling in
     [case(text) for text in texts.split() for case in (str.lower, str.upper, str.title)]],
)  # fmt: skip
def test_booleans_in_any_case(text: str, meant: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONDUCTOR_WORKER_ALL_STRICT_SCHEMA", text)
    assert resolve_worker_config("t").strict_schema is meant


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_wrong_boolean_stops_the_start(spelling: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable(spelling, "paused"), "ture")
    with pytest.raises(ConfigurationError, match="Invalid boolean value: ture") as refused:
        resolve_worker_config("process_order")
    assert variable(spelling, "paused") in str(refused.value)


_PAUSED = {"conductor.worker.my_task.paused": "false", "conductor.worker.all.paused": "true"}

#: The examples of the documents: variables, worker, options in code, and the result.
EXAMPLES: list[tuple[dict[str, str], str, dict[str, Any], dict[str, Any]]] = [
    (
        {"conductor.worker.all.domain": "production", "conductor.worker.all.thread_count": "20",
         "conductor.worker.process_order.thread_count": "50"},
        "process_order",
        {"poll_interval_millis": 1000, "thread_count": 5, "domain": "dev"},
        {"domain": "production", "thread_count": 50, "poll_interval_millis": 1000},
    ),
    (
        {"CONDUCTOR_WORKER_ALL_STRICT_SCHEMA": "true", "conductor.worker.all.thread_count": "20",
         "CONDUCTOR_WORKER_PROCESS_ORDER_THREAD_COUNT": "50", "conductor.worker.validate_order.strict_schema": "true"},
        "process_order",
        {},
        {"strict_schema": True, "thread_count": 50},
    ),
    (
        {"conductor.worker.all.thread_count": "20", "CONDUCTOR_WORKER_PROCESS_ORDER_THREAD_COUNT": "50",
         "conductor.worker.validate_order.strict_schema": "true"},
        "validate_order",
        {},
        {"strict_schema": True, "thread_count": 20},
    ),
    ({"CONDUCTOR_WORKER_ALL_REGISTER_TASK_DEF": "true"}, "any", {}, {"register_task_def": True}),
    ({"CONDUCTOR_WORKER_PROCESS_ORDER_REGISTER_TASK_DEF": "true"}, "process_order", {}, {"register_task_def": True}),
    ({"CONDUCTOR_WORKER_PROCESS_ORDER_REGISTER_TASK_DEF": "true"}, "other", {}, {"register_task_def": False}),
    ({"CONDUCTOR_WORKER_ALL_OVERWRITE_TASK_DEF": "false"}, "any", {}, {"overwrite_task_def": False}),
    ({"CONDUCTOR_WORKER_PROCESS_ORDER_STRICT_SCHEMA": "true"}, "process_order", {}, {"strict_schema": True}),
    ({"conductor.worker.all.register_task_def": "true"}, "any", {}, {"register_task_def": True}),
    ({"conductor.worker.process_order.strict_schema": "true"}, "process_order", {}, {"strict_schema": True}),
    (
        {"conductor.worker.all.domain": "dev", "conductor.worker.all.poll_interval_millis": "1000"},
        "any",
        {},
        {"domain": "dev", "poll_interval_millis": 1000},
    ),
    (
        {"conductor.worker.all.poll_interval_millis": "100", "conductor.worker.my_async_task.thread_count": "100"},
        "my_async_task",
        {"poll_interval_millis": 250},
        {"poll_interval_millis": 100, "thread_count": 100},
    ),
    (_PAUSED, "my_task", {}, {"paused": False}),
    (_PAUSED, "other", {}, {"paused": True}),
    ({"CONDUCTOR_WORKER_DOMAIN": "d"}, "any", {}, {"domain": "d"}),
    ({"CONDUCTOR_WORKER_DOMAIN": "d", "CONDUCTOR_WORKER_MY_TASK_DOMAIN": "e"}, "my_task", {}, {"domain": "e"}),
    ({"CONDUCTOR_WORKER_POLLING_INTERVAL": "500"}, "any", {}, {"poll_interval_millis": 500}),
    (
        {"CONDUCTOR_WORKER_POLLING_INTERVAL": "500", "CONDUCTOR_WORKER_MY_TASK_POLLING_INTERVAL": "50"},
        "my_task",
        {},
        {"poll_interval_millis": 50},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("env", "worker", "code", "expected"), EXAMPLES)
def test_an_example_as_printed(
    env: dict[str, str], worker: str, code: dict[str, Any], expected: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in env.items():
        monkeypatch.setenv(name, text)
    config = resolve_worker_config(worker, code)
    assert {name: config[name] for name in expected} == expected


def test_the_first_example_in_a_worker_process(start: Any, server: ConductorStub) -> None:
    """Block s001_421, whose code says 5 and dev, with the variables printed below it."""
    env, _, _, _ = EXAMPLES[0]
    task_id = server.add_task("process_order", {"order_id": "o"}, domain="production")
    program = start(
        "s001_421", after="handler = TaskHandler(); handler.start_processes(); handler.join_processes()", **env
    )
    server.wait_for(lambda: server.results_for(task_id), 60)
    poll = server.polls("process_order")[0]
    assert (poll.query["domain"], poll.query["count"]) == ("production", "50")
    assert program.terminate() == 0
    assert "status=active, poll_interval=1000ms, domain=production, thread_count=50, " in program.output


class TestServer:
    """Where the server is, and the key to it."""

    def test_the_server_url_has_a_default(self) -> None:
        assert Configuration().host == "http://localhost:8080/api"

    def test_url_from_the_environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("CONDUCTOR_SERVER_URL", "http://conductor:8080/api")
        assert Configuration().host == "http://conductor:8080/api"

    def test_url_in_code_wins(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("CONDUCTOR_SERVER_URL", "http://conductor:8080/api")
        assert Configuration("http://other:8080/api").host == "http://other:8080/api"

    def test_no_key_by_default(self) -> None:
        assert Configuration().authentication_settings is None

    async def test_key_and_secret_come_from_the_environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        @worker_task(task_definition_name="guarded")
        async def guarded() -> dict[str, str]:
            return {}

        with ConductorStub(auth=("key", "secret")) as server:
            monkeypatch.setenv("CONDUCTOR_SERVER_URL", server.url)
            monkeypatch.setenv("CONDUCTOR_AUTH_KEY", "key")
            monkeypatch.setenv("CONDUCTOR_AUTH_SECRET", "secret")
            server.add_task("guarded")
            async with TaskHandlerAsyncIO():
                await server.until_results(1)
            assert [result["status"] for result in server.results] == ["COMPLETED"]


async def test_a_paused_worker_sends_no_request(
    server: ConductorStub, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    @worker_task(task_definition_name="my_task")
    async def my_task() -> None: ...

    @worker_task(task_definition_name="other_task")
    async def other_task() -> None: ...

    caplog.set_level(logging.INFO)
    monkeypatch.setenv("conductor.worker.my_task.paused", "true")
    server.add_task("my_task")
    server.add_task("other_task")
    async with TaskHandlerAsyncIO():
        await server.until_results(1)
    assert server.polls("other_task")
    assert not server.polls("my_task")
    assert "status=paused" in caplog.text


def test_variables_set_by_a_running_program_reach_its_next_workers(tmp_path: Path, server: ConductorStub) -> None:
    """`os.environ['CONDUCTOR_WORKER_…'] = …` counts for what is started after it, also when others ran before."""
    script = tmp_path / "again.py"
    script.write_text(
        "import os\n"
        "from conductor import TaskHandler, worker_task\n"
        "@worker_task(task_definition_name='simple_task')\n"
        "def simple_task(): ...\n"
        "if __name__ == '__main__':\n"
        "    handler = TaskHandler()\n"
        "    handler.start_processes(); handler.stop_processes()\n"
        "    os.environ['CONDUCTOR_WORKER_THREAD_COUNT'] = '7'\n"
        "    handler = TaskHandler()\n"
        "    handler.start_processes(); handler.join_processes()\n"
    )
    with Program([script], tmp_path, {}) as program:
        server.wait_for(lambda: "7" in [poll.query["count"] for poll in server.polls()], 60)
        assert program.terminate() == 0
