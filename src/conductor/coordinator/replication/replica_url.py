"""Where a replica is stored: a URL that Litestream understands, or a directory."""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

#: The URL schemes that Litestream supports.
SCHEMES = ("file", "s3", "gs", "abs", "oss", "sftp", "nats", "webdav", "webdavs")
#: A replica is stored below the URL under its number, with at least this many digits: `000001`.
NUMBER_DIGITS = 6
HIDDEN = "***"
_SECRET_NAME = re.compile(r"pass|secret|token|key|credential|signature", re.IGNORECASE)
_NUMBER = re.compile(rf"[0-9]{{{NUMBER_DIGITS},18}}")


class InvalidReplicaUrl(ValueError):
    """The URL cannot be used. The message does not contain its password."""


@dataclass(frozen=True, slots=True)
class ReplicaUrl:
    """The URL below which replicas are stored, or the URL of one replica."""

    url: str

    @classmethod
    def parse(cls, text: str) -> ReplicaUrl:
        """Return the parsed URL. A text without a scheme is the path of a directory.

        Raises:
            InvalidReplicaUrl: The text is not a URL that Litestream supports.
        """
        if not text.strip():
            raise InvalidReplicaUrl(
                "the URL of the replica is empty; name a directory, or a URL such as s3://bucket/path"
            )
        if "://" not in text:
            return cls(f"file://{Path(text).expanduser().absolute()}")
        try:
            parts = urlsplit(text)
            shown = cls(text).shown
            _ = parts.port
        except ValueError:  # the message of urlsplit could contain the password
            raise InvalidReplicaUrl("the URL of the replica cannot be parsed; check its host and port") from None
        if parts.scheme not in SCHEMES:
            raise InvalidReplicaUrl(f"{shown}: the scheme {parts.scheme!r} is unknown; use one of {', '.join(SCHEMES)}")
        if parts.scheme == "file":
            if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
                raise InvalidReplicaUrl(
                    f"{shown}: a file URL has three slashes, for example file:///var/backups/replica"
                )
            return cls(f"file://{parts.path}")
        if not parts.hostname:
            raise InvalidReplicaUrl(f"{shown}: the URL has no host or bucket")
        return cls(text)

    @property
    def directory(self) -> Path | None:
        """The directory of a file URL; None for other schemes."""
        return Path(self.url.removeprefix("file://")) if self.url.startswith("file://") else None

    @property
    def configuration(self) -> dict[str, str]:
        """The entry for this replica in a configuration file of Litestream.

        Litestream percent-encodes the path of a file URL: `file:///a b` names the directory `/a%20b`. So a directory is
        configured by its path.
        """
        return {"url": self.url} if self.directory is None else {"type": "file", "path": str(self.directory)}

    @property
    def secrets(self) -> list[str]:
        """The passwords and keys in the URL, both percent-encoded and decoded, the longest first."""
        parts = urlsplit(self.url)
        found = [parts.password or "", *(value for name, value in parse_qsl(parts.query) if _SECRET_NAME.search(name))]
        return sorted({form for value in found if value for form in (value, unquote(value))}, key=len, reverse=True)

    @property
    def shown(self) -> str:
        """The URL for logs and messages: without its secrets."""
        parts = urlsplit(self.url)
        user, at, host = parts.netloc.rpartition("@")
        if ":" in user:
            user = f"{user.partition(':')[0]}:{HIDDEN}"
        query = [(name, HIDDEN if _SECRET_NAME.search(name) else value) for name, value in parse_qsl(parts.query)]
        return urlunsplit(parts._replace(netloc=f"{user}{at}{host}", query=urlencode(query, safe="*")))

    @property
    def digest(self) -> str:
        """A text that identifies this URL in the database. The passwords in the URL do not affect it."""
        return blake2b(self.shown.encode(), digest_size=12).hexdigest()

    def hide_secrets(self, text: str) -> str:
        """Return a text without the secrets of the URL."""
        for secret in self.secrets:
            text = text.replace(secret, HIDDEN)
        return text

    def with_number(self, number: int) -> ReplicaUrl:
        """Return the URL of the replica with this number below this URL."""
        parts = urlsplit(self.url)
        path = f"{parts.path.rstrip('/')}/{number:0{NUMBER_DIGITS}d}"
        return ReplicaUrl(urlunsplit(parts._replace(path=path)) if parts.netloc else f"file://{path}")

    def list_numbers(self) -> list[int]:
        """Return the numbers of the replicas in the directory of a file URL."""
        if self.directory is None or not self.directory.is_dir():
            return []
        return [int(entry.name) for entry in self.directory.iterdir() if _NUMBER.fullmatch(entry.name)]

    @property
    def has_number(self) -> bool:
        """Whether the URL ends with the number of a replica, such as `000001`, and so names a single replica."""
        return bool(_NUMBER.fullmatch(urlsplit(self.url).path.rpartition("/")[2]))
