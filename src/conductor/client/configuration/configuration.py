"""Which server, and how to reach it. Pure data: picklable, and importing it loads no HTTP library."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping
from typing import Any

from conductor.client.configuration.connection_options import CONNECTION_OPTIONS
from conductor.client.configuration.option import without_password
from conductor.client.configuration.settings.authentication_settings import AuthenticationSettings
from conductor.telemetry.log_format import TEXT_FORMAT, set_up_logging

API_PATH = "/api"
LOGGER_FORMAT = TEXT_FORMAT


class Configuration:
    """The server and how to reach it. What code leaves out comes from the environment, then from the defaults.

    Args:
        server_api_url: The server, with or without `/api` (`CONDUCTOR_SERVER_URL`, `http://localhost:8080/api`).
        debug: Worker processes log at DEBUG.
        authentication_settings: Access key (`CONDUCTOR_AUTH_KEY`, `CONDUCTOR_AUTH_SECRET`).
        base_url: Another name for `server_api_url`, which wins when both are given.
        auth_token_ttl_min: Minutes an access token lives; it is renewed before.
        proxy: URL of a proxy for every request (`CONDUCTOR_PROXY`).
        proxy_headers: Headers for that proxy alone.
        ssl_ca_cert: PEM file of certificate authorities to trust as well (`CONDUCTOR_TLS_CA_FILE`).
        cert_file: PEM file of the client certificate (`CONDUCTOR_TLS_CERT_FILE`).
        key_file: PEM file of its key when it is not in `cert_file` (`CONDUCTOR_TLS_KEY_FILE`).
        verify_ssl: `False` accepts any server certificate (`CONDUCTOR_TLS_VERIFY`).
        timeout_s: Seconds a request may take (`CONDUCTOR_HTTP_TIMEOUT`, 30).
        connect_timeout_s: Seconds to make a connection (`CONDUCTOR_HTTP_CONNECT_TIMEOUT`, 10).
        max_answer_bytes: Bytes of an answer at most, after decompression (`CONDUCTOR_HTTP_MAX_ANSWER_BYTES`, 64 MiB).
        pool_size: Connections at most (`CONDUCTOR_HTTP_POOL_SIZE`, 100).
        keepalive_connections: Idle connections kept (`CONDUCTOR_HTTP_KEEPALIVE_CONNECTIONS`, 50).
        http2: HTTP/2 where a TLS server offers it (`CONDUCTOR_HTTP2`, on).
        ui_host: The server's user interface, for links in the log (`CONDUCTOR_UI_SERVER_URL`).
        register_schema: Whether workers that register their task definition register schemas too, where they do not
            say so themselves (`CONDUCTOR_REGISTER_SCHEMAS`, on).
        log_level: Log level of worker processes (`CONDUCTOR_LOG_LEVEL`).
        log_format: `text`, or `json`: one object a line, with the task's ids as fields (`CONDUCTOR_LOG_FORMAT`).
        tracing: `auto` (what the program or the OTEL_ variables have set up), `off`, or the `module:function` that sets
            OpenTelemetry up in each worker process (`CONDUCTOR_TRACING`).
        logger_format: Log format of worker processes, as Python's `logging` writes formats; for `text` alone.

    Raises:
        ValueError: A value is not allowed; the message names it, where it came from and what is allowed.
    """

    #: The access token in use, if any. Set it with `update_token`.
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
        self.ui_host: str = _resolve("ui_host", ui_host) or without_password(self.host).removesuffix(API_PATH)
        self.authentication_settings = authentication_settings or _key_pair_of_environment()
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
        self.AUTH_TOKEN = None
        #: When `AUTH_TOKEN` was set, epoch milliseconds; 0 = never.
        self.token_update_time: int = 0
        if self.key_file and not self.cert_file:
            raise ValueError(
                f"key_file is {self.key_file!r} without a cert_file (CONDUCTOR_TLS_CERT_FILE) it belongs to"
            )

    @property
    def shown_host(self) -> str:
        """`host` as it may be printed: without the password that a URL can have."""
        return without_password(self.host)

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
        """The name with the process id before it, as programs for conductor-python name their loggers."""
        return f"[{os.getpid()}] {name}"

    def update_token(self, token: str | None) -> None:
        """Use this access token from now on; `None` forgets it."""
        self.AUTH_TOKEN = token
        self.token_update_time = time.time_ns() // 1_000_000 if token else 0

    def apply_logging_config(self, log_format: str | None = None, level: int | None = None) -> None:
        """Give a process without any logging the level and format of this Configuration.

        Worker processes call it when they start. A root logger that has a handler is left as it is, and the process
        that made the Configuration is never touched unless it calls this itself.
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
    """The value in code if there is one, else the environment's, else the default."""
    row = CONNECTION_OPTIONS[name]
    if code_value is not None:
        return row.parse(str(code_value), f"Configuration({name}=…)")
    text = os.environ.get(row.variable)
    return row.parse(text, f"environment variable {row.variable}") if text else row.default


def _api_url(url: str) -> str:
    return url if url.endswith(API_PATH) else url + API_PATH


def _key_pair_of_environment() -> AuthenticationSettings | None:
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
