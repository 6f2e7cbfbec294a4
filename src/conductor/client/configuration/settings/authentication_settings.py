"""The access key, which a client exchanges for access tokens."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class AuthenticationSettings:
    """An access key of a server. Its `repr` does not show the secret."""

    key_id: str
    key_secret: str = field(repr=False)
