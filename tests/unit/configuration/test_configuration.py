"""Configuration: the precedence of values, the errors of wrong ones, and no side effects."""

import logging
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conductor.client.configuration.configuration import Configuration
from conductor.client.configuration.connection_options import CONNECTION_OPTIONS
from conductor.client.configuration.settings.authentication_settings import AuthenticationSettings
from conductor.client.configuration.settings.metrics_settings import MetricsSettings


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("CONDUCTOR_"):
            monkeypatch.delenv(name)


@pytest.mark.parametrize(
    "url",
    [
        "http://host:8080",
        "http://host:8080/",
        "http://host:8080/api",
        "http://host:8080/api/",
        " http://host:8080/api// ",
    ],
)
def test_the_url_stands_with_and_without_api(url: str) -> None:
    configuration = Configuration(url)
    assert configuration.host == "http://host:8080/api"
    assert configuration.ui_host == "http://host:8080"


def test_a_path_before_api_is_kept() -> None:
    assert Configuration("https://host/conductor").host == "https://host/conductor/api"
    assert Configuration("https://host/conductor/api").ui_host == "https://host/conductor"


def test_all_spellings_of_the_server_url_are_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Configuration().host == "http://localhost:8080/api"
    assert Configuration(base_url="http://a").host == "http://a/api"
    assert Configuration(server_api_url="http://b/api").host == "http://b/api"
    assert Configuration(base_url="http://a", server_api_url="http://b/api").host == "http://b/api"
    monkeypatch.setenv("CONDUCTOR_SERVER_URL", "http://env")
    assert Configuration().host == "http://env/api"
    assert Configuration("http://code").host == "http://code/api"
    monkeypatch.setenv("CONDUCTOR_SERVER_URL", "")
    assert Configuration().host == "http://localhost:8080/api"


def test_the_user_interface_may_live_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONDUCTOR_UI_SERVER_URL", "http://ui:5000/")
    assert Configuration("http://host").ui_host == "http://ui:5000"
    assert Configuration("http://host", ui_host="http://other").ui_host == "http://other"


def test_keys_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Configuration().authentication_settings is None
    monkeypatch.setenv("CONDUCTOR_AUTH_KEY", "key")
    with pytest.raises(ValueError, match="CONDUCTOR_AUTH_SECRET is not set"):
        Configuration()
    monkeypatch.setenv("CONDUCTOR_AUTH_SECRET", "secret")
    assert Configuration().authentication_settings == AuthenticationSettings("key", "secret")
    mine = AuthenticationSettings(key_id="mine", key_secret="too")
    assert Configuration(authentication_settings=mine).authentication_settings == mine


def test_no_secret_is_ever_printed() -> None:
    configuration = Configuration(authentication_settings=AuthenticationSettings("key", "s3cret"))
    configuration.update_token("t0ken")
    for text in (repr(configuration), str(configuration), repr(configuration.authentication_settings)):
        assert "key" in text
        assert "s3cret" not in text
        assert "t0ken" not in text


#: attribute, variable, text, value
VALUES = [
    ("timeout_s", "CONDUCTOR_HTTP_TIMEOUT", "2.5", 2.5),
    ("connect_timeout_s", "CONDUCTOR_HTTP_CONNECT_TIMEOUT", "1", 1.0),
    ("pool_size", "CONDUCTOR_HTTP_POOL_SIZE", "7", 7),
    ("keepalive_connections", "CONDUCTOR_HTTP_KEEPALIVE_CONNECTIONS", "3", 3),
    ("http2", "CONDUCTOR_HTTP2", "No", False),
    ("verify_ssl", "CONDUCTOR_TLS_VERIFY", "false", False),
    ("proxy", "CONDUCTOR_PROXY", "http://u:p@proxy:3128", "http://u:p@proxy:3128"),
    ("auth_token_ttl_min", "CONDUCTOR_AUTH_TOKEN_TTL_MIN", "5", 5),
    ("log_level", "CONDUCTOR_LOG_LEVEL", "warning", logging.WARNING),
    ("register_schema", "CONDUCTOR_REGISTER_SCHEMAS", "off", False),
]


@pytest.mark.parametrize(("attribute", "variable", "text", "value"), VALUES)
def test_the_environment_counts_and_code_counts_more(
    monkeypatch: pytest.MonkeyPatch, attribute: Any, variable: Any, text: Any, value: Any
) -> None:
    default = getattr(Configuration(), attribute)
    assert default != value
    monkeypatch.setenv(variable, text)
    assert getattr(Configuration(), attribute) == value
    if default is not None:
        assert getattr(Configuration(**{attribute: default}), attribute) == default
    monkeypatch.setenv(variable, "")
    assert getattr(Configuration(), attribute) == default


def test_the_connection_pool_has_the_documented_options() -> None:
    configuration = Configuration()
    assert (configuration.pool_size, configuration.keepalive_connections) == (100, 50)
    assert configuration.http2 is configuration.verify_ssl is True


WRONG = [
    ("CONDUCTOR_SERVER_URL", "localhost:8080"),
    ("CONDUCTOR_SERVER_URL", "ftp://host"),
    ("CONDUCTOR_SERVER_URL", "http://host:port"),
    ("CONDUCTOR_SERVER_URL", "http://host/api?x=1"),
    ("CONDUCTOR_HTTP_TIMEOUT", "soon"),
    ("CONDUCTOR_HTTP_TIMEOUT", "0"),
    ("CONDUCTOR_HTTP_TIMEOUT", "nan"),
    ("CONDUCTOR_HTTP_CONNECT_TIMEOUT", "-1"),
    ("CONDUCTOR_HTTP_POOL_SIZE", "0"),
    ("CONDUCTOR_HTTP_POOL_SIZE", "2.5"),
    ("CONDUCTOR_TLS_VERIFY", "ture"),
    ("CONDUCTOR_TLS_CA_FILE", "/no/such/file.pem"),
    ("CONDUCTOR_TLS_CERT_FILE", "/no/such/file.pem"),
    ("CONDUCTOR_TLS_KEY_FILE", "/no/such/file.pem"),
    ("CONDUCTOR_PROXY", "proxy:3128"),
    ("CONDUCTOR_LOG_LEVEL", "LOUD"),
    ("CONDUCTOR_AUTH_TOKEN_TTL_MIN", "1.5"),
]


@pytest.mark.parametrize(("variable", "value"), WRONG)
def test_a_wrong_variable_stops_with_one_line_that_helps(
    monkeypatch: pytest.MonkeyPatch, variable: Any, value: Any
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(ValueError) as raised:
        Configuration()
    message = str(raised.value)
    assert "\n" not in message
    assert variable in message
    assert value in message
    assert "allowed" in message


@pytest.mark.parametrize(
    "wrong", ["ftp://ada:hush@proxy:3128", "ada:hush@proxy:3128", "http://ada:hush@proxy:port", "http://ada:hu@sh@:1"]
)
@pytest.mark.parametrize("variable", ["CONDUCTOR_PROXY", "CONDUCTOR_SERVER_URL"])
def test_a_wrong_url_is_shown_without_its_password(monkeypatch: Any, variable: Any, wrong: Any) -> None:
    monkeypatch.setenv(variable, wrong)
    with pytest.raises(ValueError, match=r"ada:\*\*\*@") as raised:
        Configuration()
    assert "hu" not in str(raised.value)


def test_a_wrong_value_in_code_is_named_too(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"Configuration\(timeout_s=…\): '-1' is not allowed .allowed: a number from 0.001 to 3600"
    ):
        Configuration(timeout_s=-1)
    empty = tmp_path / "empty.pem"
    empty.touch()
    with pytest.raises(ValueError, match="PEM file with a certificate"):
        Configuration(ssl_ca_cert=str(empty))
    key = tmp_path / "key.pem"
    key.write_text("-----BEGIN PRIVATE KEY-----")
    with pytest.raises(ValueError, match="there is no cert_file"):
        Configuration(key_file=str(key))


def test_every_option_tells_a_user_what_it_is() -> None:
    for option in CONNECTION_OPTIONS.values():
        assert option.help
        assert option.allowed
        assert option.variable.startswith("CONDUCTOR_")


def test_a_configuration_pickles_with_its_token() -> None:
    configuration = Configuration("http://host", authentication_settings=AuthenticationSettings("k", "s"))
    configuration.update_token("t")
    again = pickle.loads(pickle.dumps(configuration))
    assert vars(again) == vars(configuration)
    assert (again.AUTH_TOKEN, again.authentication_settings.key_secret) == ("t", "s")


def test_a_token_carries_the_time_of_its_fetch() -> None:
    configuration = Configuration()
    assert (configuration.AUTH_TOKEN, configuration.token_update_time) == (None, 0)
    configuration.update_token("t")
    assert vars(configuration)["AUTH_TOKEN"] == "t"
    assert configuration.token_update_time > 1_600_000_000_000
    configuration.update_token(None)
    assert (configuration.AUTH_TOKEN, configuration.token_update_time) == (None, 0)


def run_python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=200)
    return done.stdout + done.stderr


def test_p28_importing_it_loads_no_http_library_and_touches_no_logging() -> None:
    code = """
import sys, logging
state = lambda: (logging.root.level, list(logging.root.handlers), logging.getLoggerClass(), logging.raiseExceptions)
before = state()
from conductor.client.configuration.configuration import Configuration
Configuration(debug=True)
assert before == state()
heavy = {"pyreqwest", "httpx", "requests", "asyncio", "multiprocessing", "msgspec", "http.client"}
print(sorted(heavy & set(sys.modules)))
"""
    assert run_python(code).strip() == "[]"


def test_a_process_without_logging_gets_level_and_format() -> None:
    code = """
import logging
from conductor.client.configuration.configuration import Configuration
configuration = Configuration(debug=True, logger_format="%(levelname)s|%(name)s|%(message)s")
configuration.apply_logging_config()
logging.getLogger("some.module").debug("hello")
"""
    assert run_python(code).strip() == "DEBUG|some.module|hello"


def test_a_process_with_logging_keeps_its_own() -> None:
    code = """
import logging
logging.basicConfig(level=logging.WARNING, format="mine %(message)s")
from conductor.client.configuration.configuration import Configuration
Configuration(debug=True).apply_logging_config()
logging.getLogger("x").debug("hidden")
logging.getLogger("x").warning("seen")
"""
    assert run_python(code).strip() == "mine seen"


def test_log_levels_are_set_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Configuration().log_level == logging.INFO
    assert Configuration(debug=True).log_level == logging.DEBUG
    assert Configuration(debug=True, log_level="ERROR").log_level == logging.ERROR
    assert Configuration(log_level=logging.ERROR).log_level == logging.ERROR


@pytest.mark.parametrize(("given", "quiet"), [(None, logging.INFO), ("ERROR", logging.ERROR)])
def test_debug_may_be_turned_on_and_off_later(given: str | None, quiet: int) -> None:
    configuration = Configuration(log_level=given)
    configuration.debug = True
    assert (configuration.debug, configuration.log_level) == (True, logging.DEBUG)
    configuration.debug = False
    assert (configuration.debug, configuration.log_level) == (False, quiet)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://ada:secret@host:8080", "http://ada:***@host:8080/api"),
        ("http://ada:a@b@host", "http://ada:***@host/api"),
        ("http://ada@host", "http://ada@host/api"),
        ("http://host", "http://host/api"),
    ],
)
def test_a_password_in_the_url_is_used_and_not_printed(url: str, shown: str) -> None:
    configuration = Configuration(url)
    assert configuration.host == url + "/api"
    assert configuration.shown_host == shown
    assert shown in repr(configuration)
    assert "secret" not in repr(configuration) + configuration.ui_host


def test_metrics_settings_of_conductor_python_are_taken(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    settings = MetricsSettings("/tmp/m", "metrics.log", 0.5, None, True, True)
    assert (settings.clean_directory, settings.clean_dead_pids, settings.host) == (True, True, "0.0.0.0")
    assert len(caplog.messages) == 1
    assert "have no effect" in caplog.messages[0]


def test_metrics_settings_touch_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings = MetricsSettings(http_port=8000)
    assert (settings.directory, settings.file_name, settings.http_port) == (None, "metrics.log", 8000)
    file = MetricsSettings(directory=str(tmp_path / "new"), file_name="m", update_interval=5)
    assert (file.update_interval, file.http_port) == (5, None)
    assert list(tmp_path.iterdir()) == []
    assert pickle.loads(pickle.dumps(settings)) == settings


@pytest.mark.parametrize("wrong", [{"update_interval": 0}, {"http_port": 70000}, {"http_port": -1}])
def test_metrics_settings_refuse_nonsense(wrong: Any) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        MetricsSettings(**wrong)
