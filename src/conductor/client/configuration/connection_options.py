"""The table of the options of a connection: name, default, help, environment variable, allowed values."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from conductor.client.configuration.option import LEVELS, Option, TextForm
from conductor.telemetry.log_format import FORMATS
from conductor.telemetry.tracing import AUTO, check_setting


def _parse_url(text: str) -> str:
    parts = urlsplit(text.strip())
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ValueError(text)
    _ = parts.port  # raises ValueError for an invalid port
    return text.strip().rstrip("/")


def _check_pem_file(path: str, marker: str) -> str:
    try:
        content = Path(path).read_text("latin-1")
    except OSError as error:
        raise ValueError(path) from error
    if marker not in content:
        raise ValueError(path)
    return path


_URL = TextForm(_parse_url, "an http:// or https:// URL with a host and no query")
_PROXY_URL = TextForm(_parse_url, "an http:// or https:// URL of a proxy, user:password@ allowed")
_CERTIFICATE_FILE = TextForm(
    partial(_check_pem_file, marker="-----BEGIN CERTIFICATE-----"),
    "the path of a readable PEM file with a certificate",
)
_KEY_FILE = TextForm(
    partial(_check_pem_file, marker="PRIVATE KEY-----"), "the path of a readable PEM file with a private key"
)
_TRACING = TextForm(check_setting, "auto, off, or module:function that sets OpenTelemetry up")

_ROWS = (
    Option(
        "server_api_url",
        "http://localhost:8080/api",
        "URL of the server, with or without /api",
        variable="CONDUCTOR_SERVER_URL",
        form=_URL,
    ),
    Option(
        "ui_host",
        None,
        "URL of the server's web UI; the server itself by default",
        variable="CONDUCTOR_UI_SERVER_URL",
        form=_URL,
    ),
    Option("auth_key", None, "access key id", variable="CONDUCTOR_AUTH_KEY"),
    Option("auth_secret", None, "access key secret", variable="CONDUCTOR_AUTH_SECRET"),
    Option(
        "auth_token_ttl_min",
        45,
        "lifetime of an access token in minutes; the token is renewed before it expires",
        variable="CONDUCTOR_AUTH_TOKEN_TTL_MIN",
        minimum=1,
        maximum=525_600,
    ),
    Option(
        "ssl_ca_cert",
        None,
        "PEM file with additional certificate authorities",
        variable="CONDUCTOR_TLS_CA_FILE",
        form=_CERTIFICATE_FILE,
    ),
    Option(
        "cert_file",
        None,
        "PEM file with the client certificate",
        variable="CONDUCTOR_TLS_CERT_FILE",
        form=_CERTIFICATE_FILE,
    ),
    Option(
        "key_file",
        None,
        "PEM file with the key of the client certificate, if the key is in another file",
        variable="CONDUCTOR_TLS_KEY_FILE",
        form=_KEY_FILE,
    ),
    Option("verify_ssl", True, "verify the server's certificate", variable="CONDUCTOR_TLS_VERIFY"),
    Option(
        "proxy",
        None,
        "proxy for every request; if unset, HTTP_PROXY, HTTPS_PROXY and NO_PROXY apply, except for a local server",
        variable="CONDUCTOR_PROXY",
        form=_PROXY_URL,
    ),
    Option(
        "timeout_s",
        30.0,
        "time limit of a request in seconds; a poll may take 10 s more than it asks the server to wait",
        variable="CONDUCTOR_HTTP_TIMEOUT",
        minimum=0.001,
        maximum=3600,
    ),
    Option(
        "connect_timeout_s",
        10.0,
        "time limit of a new connection in seconds",
        variable="CONDUCTOR_HTTP_CONNECT_TIMEOUT",
        minimum=0.001,
        maximum=3600,
    ),
    Option(
        "max_answer_bytes",
        64 * 1024 * 1024,
        "largest answer in bytes, after decompression; a request with a larger answer fails",
        variable="CONDUCTOR_HTTP_MAX_ANSWER_BYTES",
        minimum=64 * 1024,
        maximum=2**31 - 1,
    ),
    Option(
        "pool_size",
        100,
        "largest number of connections",
        variable="CONDUCTOR_HTTP_POOL_SIZE",
        minimum=1,
        maximum=10_000,
    ),
    Option(
        "keepalive_connections",
        50,
        "largest number of idle connections",
        variable="CONDUCTOR_HTTP_KEEPALIVE_CONNECTIONS",
        minimum=1,
        maximum=10_000,
    ),
    Option("http2", True, "use HTTP/2 if a TLS server offers it", variable="CONDUCTOR_HTTP2"),
    Option(
        "register_schema",
        True,
        "register schemas with task definitions; the option `register_schema` of a worker has precedence",
        variable="CONDUCTOR_REGISTER_SCHEMAS",
    ),
    Option(
        "log_level",
        None,
        "log level of worker processes; INFO by default, DEBUG with debug=True",
        variable="CONDUCTOR_LOG_LEVEL",
        choices=LEVELS,
    ),
    Option(
        "log_format",
        "text",
        "format of log lines in worker processes: text, or json with the ids of the task as fields",
        variable="CONDUCTOR_LOG_FORMAT",
        choices=FORMATS,
    ),
    Option(
        "tracing",
        AUTO,
        "tracing: auto (uses OpenTelemetry's own variables or the program's setup), off (no spans), "
        "or a function that sets OpenTelemetry up",
        variable="CONDUCTOR_TRACING",
        form=_TRACING,
    ),
)

#: The options by name.
CONNECTION_OPTIONS = {row.name: row for row in _ROWS}
