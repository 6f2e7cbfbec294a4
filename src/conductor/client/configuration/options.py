"""The connection options that the environment can set, declared once: name, variable, parser, default, meaning."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


def parse_text(value: str) -> str:
    """Any text."""
    return value


def parse_bool(value: str) -> bool:
    """true, 1, yes, on or false, 0, no, off."""
    lowered = value.strip().lower()
    if lowered in ("true", "1", "yes", "on"):
        return True
    if lowered in ("false", "0", "no", "off"):
        return False
    raise ValueError(value)


def parse_seconds(value: str) -> float:
    """a number of seconds, more than 0 and at most 3600."""
    seconds = float(value)
    if not 0 < seconds <= 3600:
        raise ValueError(value)
    return seconds


def parse_count(value: str) -> int:
    """a whole number, 1 to 10000."""
    count = int(value)
    if not 1 <= count <= 10_000:
        raise ValueError(value)
    return count


def parse_minutes(value: str) -> int:
    """whole minutes, 1 to 525600."""
    minutes = int(value)
    if not 1 <= minutes <= 525_600:
        raise ValueError(value)
    return minutes


def parse_certificate_file(value: str) -> str:
    """the path of a readable PEM file with a certificate."""
    return _file_with(value, "-----BEGIN CERTIFICATE-----")


def parse_key_file(value: str) -> str:
    """the path of a readable PEM file with a private key."""
    return _file_with(value, "PRIVATE KEY-----")


def _file_with(path: str, mark: str) -> str:
    try:
        content = Path(path).read_text("latin-1")
    except OSError as error:
        raise ValueError(path) from error
    if mark not in content:
        raise ValueError(path)
    return path


def parse_url(value: str) -> str:
    """an http:// or https:// URL with a host and no query."""
    text = value.strip()
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ValueError(value)
    _ = parts.port  # raises when it is no number
    return text.rstrip("/")


def without_password(url: str) -> str:
    """A URL as it may be printed: `http://ada:***@host`."""
    parts = urlsplit(url)
    user, colon, _ = parts.netloc.rpartition("@")[0].partition(":")
    if not colon:
        return url
    return parts._replace(netloc=f"{user}:***@{parts.netloc.rpartition('@')[2]}").geturl()


def parse_proxy(value: str) -> str:
    """an http:// or https:// URL of a proxy, user:password@ allowed."""
    return parse_url(value)


def parse_level(value: str) -> str:
    """DEBUG, INFO, WARNING, ERROR or CRITICAL."""
    level = value.strip().upper()
    if level not in LOG_LEVELS:
        raise ValueError(value)
    return level


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a Configuration. The parser's docstring is what a user is told to write."""

    name: str
    env: str
    parse: Callable[[str], Any]
    default: Any
    help: str

    def resolve(self, code_value: object) -> Any:
        """The value in code if there is one, else the environment's, else the default."""
        if code_value is not None:
            return self._checked(code_value, f"Configuration({self.name}=…)")
        env_value = os.environ.get(self.env, "")
        if env_value:
            return self._checked(env_value, f"environment variable {self.env}")
        return self.default

    def _checked(self, value: object, where: str) -> Any:
        try:
            return self.parse(str(value))
        except ValueError:
            raise ValueError(f"{where} is {value!r}; allowed: {self.parse.__doc__}") from None


OPTIONS: tuple[Option, ...] = (
    Option(
        "server_api_url",
        "CONDUCTOR_SERVER_URL",
        parse_url,
        "http://localhost:8080/api",
        "URL of the server, with or without /api",
    ),
    Option(
        "ui_host",
        "CONDUCTOR_UI_SERVER_URL",
        parse_url,
        None,
        "URL of the server's user interface; the server's own when absent",
    ),
    Option("auth_key", "CONDUCTOR_AUTH_KEY", parse_text, None, "access key id"),
    Option("auth_secret", "CONDUCTOR_AUTH_SECRET", parse_text, None, "access key secret"),
    Option(
        "auth_token_ttl_min",
        "CONDUCTOR_AUTH_TOKEN_TTL_MIN",
        parse_minutes,
        45,
        "minutes an access token lives; it is renewed before",
    ),
    Option(
        "ssl_ca_cert",
        "CONDUCTOR_TLS_CA_FILE",
        parse_certificate_file,
        None,
        "PEM file of certificate authorities to trust as well",
    ),
    Option("cert_file", "CONDUCTOR_TLS_CERT_FILE", parse_certificate_file, None, "PEM file of the client certificate"),
    Option(
        "key_file", "CONDUCTOR_TLS_KEY_FILE", parse_key_file, None, "PEM file of its key, when not in the same file"
    ),
    Option("verify_ssl", "CONDUCTOR_TLS_VERIFY", parse_bool, True, "check the server's certificate"),
    Option(
        "proxy",
        "CONDUCTOR_PROXY",
        parse_proxy,
        None,
        "proxy for every request; when absent HTTP_PROXY, HTTPS_PROXY and NO_PROXY count, but not for this machine",
    ),
    Option(
        "timeout_s",
        "CONDUCTOR_HTTP_TIMEOUT",
        parse_seconds,
        30.0,
        "seconds a request may take (a poll: what it asks for, and 10 s)",
    ),
    Option("connect_timeout_s", "CONDUCTOR_HTTP_CONNECT_TIMEOUT", parse_seconds, 10.0, "seconds to make a connection"),
    Option("pool_size", "CONDUCTOR_HTTP_POOL_SIZE", parse_count, 100, "connections at most"),
    Option(
        "keepalive_connections",
        "CONDUCTOR_HTTP_KEEPALIVE_CONNECTIONS",
        parse_count,
        50,
        "idle connections kept at most",
    ),
    Option("http2", "CONDUCTOR_HTTP2", parse_bool, True, "speak HTTP/2 where a TLS server offers it"),
    Option(
        "register_schema",
        "CONDUCTOR_REGISTER_SCHEMAS",
        parse_bool,
        True,
        "register schemas along with task definitions, for workers that do not say so themselves",
    ),
    Option(
        "log_level",
        "CONDUCTOR_LOG_LEVEL",
        parse_level,
        None,
        "level of the log of worker processes; INFO, or DEBUG with debug=True",
    ),
)
