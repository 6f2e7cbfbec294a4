"""The key pair a worker exchanges for access tokens."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class AuthenticationSettings:
    """An access key of the server: `AuthenticationSettings(key_id, key_secret)`. The secret is never printed."""

    key_id: str
    key_secret: str = field(repr=False)
