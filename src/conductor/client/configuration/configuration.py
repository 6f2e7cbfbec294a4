"""The address of the server and the settings of the connection to it.

The configuration is picklable. This module does not import the HTTP library.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping
from typing import Any

from conductor.client.configuration.connection_options import CONNECTION_OPTIONS
from conductor.client.configuration.option import mask_password
from conductor.client.configuration.settings.authentication_settings import AuthenticationSettings
from conductor.telemetry.log_format import TEXT_FORMAT, set_up_logging

API_PATH = "/api"
LOGGER_FORMAT = TEXT_FORMAT


class Configuration:
    """The server and the connection to it.

    An argument that is not given comes from its environment variable, or else from its default.

    Example:
        configuration = Configuration("https://conductor.example.com/api", timeout_s=10)

    Args:
        server_api_url: The URL of the server, with or without `/api` (`CONDUCTOR_SERVER_URL`,
            `http://localhost:8080/api`).
        debug: Let worker processes log at DEBUG.
        authentication_settings: The access key (`CONDUCTOR_AUTH_KEY`, `CONDUCTOR_AUTH_SECRET`).
        base_url: Another name for `server_api_url`. If both are given, `server_api_url` is used.
        auth_token_ttl_min: The lifetime of an access token in minutes (`CONDUCTOR_AUTH_TOKEN_TTL_MIN`, 45). The token
            is renewed before it expires.
        proxy: The URL of a proxy for every request (`CONDUCTOR_PROXY`).
        proxy_headers: Headers for the proxy, which the server does not get.
        ssl_ca_cert: A PEM file with additional certificate authorities (`CONDUCTOR_TLS_CA_FILE`).
        cert_file: A PEM file with the client certificate (`CONDUCTOR_TLS_CERT_FILE`).
        key_file: A PEM file with the key of the client certificate, if not in `cert_file` (`CONDUCTOR_TLS_KEY_FILE`).
        verify_ssl: Whether to verify the server's certificate (`CONDUCTOR_TLS_VERIFY`, on).
        timeout_s: The time limit of a request in seconds (`CONDUCTOR_HTTP_TIMEOUT`, 30).
        connect_timeout_s: The time limit of a new connection in seconds (`CONDUCTOR_HTTP_CONNECT_TIMEOUT`, 10).
        max_answer_bytes: The largest answer in bytes, after decompression (`CONDUCTOR_HTTP_MAX_ANSWER_BYTES`, 64 MiB).
        pool_size: The largest number of connections (`CONDUCTOR_HTTP_POOL_SIZE`, 100).
        keepalive_connections: The largest number of idle connections (`CONDUCTOR_HTTP_KEEPALIVE_CONNECTIONS`, 50).
        http2: Whether to use HTTP/2 if a TLS server offers it (`CONDUCTOR_HTTP2`, on).
        ui_host: The URL of the server's web UI, for links in the log (`CONDUCTOR_UI_SERVER_URL`).
        register_schema: Whether workers register schemas with their task definitions, unless a worker has an option
            of its own (`CONDUCTOR_REGISTER_SCHEMAS`, on).
        log_level: The log level of worker processes (`CONDUCTOR_LOG_LEVEL`).
        log_format: `text`, or `json` for one object per line with the ids of the task (`CONDUCTOR_LOG_FORMAT`).
        tracing: `auto` for the tracing that the program or the OTEL_ variables set up, `off`, or a `module:function`
            that sets up OpenTelemetry in each worker process (`CONDUCTOR_TRACING`).
        logger_format: The format of text lines in worker processes, as for Python's `logging`.

    Raises:
        ValueError: A value is not allowed. The message names the value, its source and the allowed values.
    """

    #: The current access token, or None. `update_token` sets it.
    AUTH_TOKEN: str | None

    def __init__(
        self,
        server_api_url: str | None = None,
        debug: bool = False,
        authentication_settings: AuthenticationSettings | None = None,
        *,
        base_url: str | None = None,
        auth_token_ttl_min: int | None = None,
        proxy: str | None = None,
        proxy_headers: Mapping[str, str] | None = None,
        ssl_ca_cert: str | None = None,
        cert_file: str | None = None,
        key_file: str | None = None,
        verify_ssl: bool | None = None,
        timeout_s: float | None = None,
        connect_timeout_s: float | None = None,
        max_answer_bytes: int | None = None,
        pool_size: int | None = None,
        keepalive_connections: int | None = None,
        http2: bool | None = None,
        ui_host: str | None = None,
        register_schema: bool | None = None,
        log_level: str | int | None = None,
        log_format: str | None = None,
        tracing: str | None = None,
        logger_format: str | None = None,
    ) -> None:
        self._debug = debug
        self.host: str = _api_url(_resolve("server_api_url", server_api_url or base_url or None))
        self.ui_host: str = _resolve("ui_host", ui_host) or mask_password(self.host).removesuffix(API_PATH)
        self.authentication_settings = authentication_settings or _read_key_pair()
        self.auth_token_ttl_min: int = _resolve("auth_token_ttl_min", auth_token_ttl_min)
        self.proxy: str | None = _resolve("proxy", proxy)
        self.proxy_headers: dict[str, str] = dict(proxy_headers or {})
        self.ssl_ca_cert: str | None = _resolve("ssl_ca_cert", ssl_ca_cert)
        self.cert_file: str | None = _resolve("cert_file", cert_file)
        self.key_file: str | None = _resolve("key_file", key_file)
        self.verify_ssl: bool = _resolve("verify_ssl", verify_ssl)
        self.timeout_s: float = _resolve("timeout_s", timeout_s)
        self.connect_timeout_s: float = _resolve("connect_timeout_s", connect_timeout_s)
        self.max_answer_bytes: int = _resolve("max_answer_bytes", max_answer_bytes)
        self.pool_size: int = _resolve("pool_size", pool_size)
        self.keepalive_connections: int = _resolve("keepalive_connections", keepalive_connections)
        self.http2: bool = _resolve("http2", http2)
        self.register_schema: bool = _resolve("register_schema", register_schema)
        self._level_without_debug = _log_level(log_level, False)
        self.log_level: int = _log_level(log_level, debug)
        self.tracing: str = _resolve("tracing", tracing)
        self.log_format: str = _resolve("log_format", log_format)
        self.logger_format: str = logger_format or LOGGER_FORMAT
        #: Whether each worker logs a line with its options at its start.
        self.logs_worker_options = True
        #: Whether each failed poll is a warning in the log. The command `run` prints one line for all workers instead.
        self.logs_failed_polls = True
        self.AUTH_TOKEN = None
        #: The newest epoch of a coordinator that the server has announced; sent with every request.
        self.seen_epoch: str | None = None
        #: When `AUTH_TOKEN` was set, in epoch milliseconds; 0 means never.
        self.token_update_time: int = 0
        if self.key_file and not self.cert_file:
            raise ValueError(f"key_file is {self.key_file!r}, but there is no cert_file (CONDUCTOR_TLS_CERT_FILE)")

    @property
    def shown_host(self) -> str:
        """The `host` without the password that a URL can contain."""
        return mask_password(self.host)

    @property
    def debug(self) -> bool:
        """Whether worker processes log at DEBUG. Setting it changes `log_level`."""
        return self._debug

    @debug.setter
    def debug(self, on: bool) -> None:
        self._debug = on
        self.log_level = logging.DEBUG if on else self._level_without_debug

    @staticmethod
    def get_logging_formatted_name(name: str) -> str:
        """Return `[process id] name`, the form of logger names in programs written for conductor-python."""
        return f"[{os.getpid()}] {name}"

    def update_token(self, token: str | None) -> None:
        """Set the access token; None removes it."""
        self.AUTH_TOKEN = token
        self.token_update_time = time.time_ns() // 1_000_000 if token else 0

    def apply_logging_config(self, log_format: str | None = None, level: int | None = None) -> None:
        """Set up the logging of this process with the level and format of this Configuration.

        Worker processes call this at their start. A root logger that already has a handler stays unchanged.

        Args:
            log_format: A format for text lines, in place of `logger_format`.
            level: A log level, in place of `log_level`.
        """
        text_format = log_format or self.logger_format
        set_up_logging(
            self.log_level if level is None else level,
            self.log_format,
            None if text_format == LOGGER_FORMAT else text_format,
        )

    def __repr__(self) -> str:
        return f"Configuration({self.shown_host!r}, authentication_settings={self.authentication_settings!r})"


def _resolve(name: str, code_value: object) -> Any:
    """Return `code_value` if it is set, else the value of the environment variable, else the default."""
    row = CONNECTION_OPTIONS[name]
    if code_value is not None:
        return row.parse(str(code_value), f"Configuration({name}=…)")
    text = os.environ.get(row.variable)
    return row.parse(text, f"environment variable {row.variable}") if text else row.default


def _api_url(url: str) -> str:
    return url if url.endswith(API_PATH) else url + API_PATH


def _read_key_pair() -> AuthenticationSettings | None:
    key_id, secret = _resolve("auth_key", None), _resolve("auth_secret", None)
    if key_id is None and secret is None:
        return None
    if key_id is None or secret is None:
        missing = "CONDUCTOR_AUTH_KEY" if key_id is None else "CONDUCTOR_AUTH_SECRET"
        raise ValueError(
            f"environment variable {missing} is not set, but the other half of the key pair is; set both or none"
        )
    return AuthenticationSettings(key_id, secret)


def _log_level(level: str | int | None, debug: bool) -> int:
    if isinstance(level, int):
        return level
    name: str | None = _resolve("log_level", level)
    return logging.getLevelNamesMapping()[name or ("DEBUG" if debug else "INFO")]
