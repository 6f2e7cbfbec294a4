"""Signed tokens. A token names the secret that it was issued for, so it is valid only as long as that secret.

The signing key is derived from the secret of the database file, so tokens survive a restart. If CONDUCTOR_SECRETS_KEY
is set, it is part of the signing key, so a stolen copy of the file is not enough to sign tokens.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Mapping
from hashlib import blake2b

from conductor.common.clock import Clock
from conductor.coordinator.keys.key_store import STATIC_PREFIX, Keys
from conductor.coordinator.keys.roles import Identity
from conductor.coordinator.request_errors import ApiError
from conductor.coordinator.settings.cipher import KEY_VARIABLE
from conductor.protocol.wire import AUTH_HEADER

#: How long a token is valid. Clients renew their token before it expires.
TOKEN_LIFETIME_S = 3600
#: The maximum number of verified tokens that are cached.
_MAX_VERIFIED = 1024
_MAX_DIGITS = 18


class Tokens:
    """Issues and verifies tokens."""

    def __init__(self, salt: bytes, keys: Keys, clock: Clock, variables: Mapping[str, str] = os.environ) -> None:
        self._keys = keys
        self._clock = clock
        #: Signs the tokens of the keys in the database.
        self._signing_key = _derive(salt, b"token", variables.get(KEY_VARIABLE, ""))
        #: Signs the tokens of the key from the environment variables. Its secret is part of this signing key, so a new
        #: secret invalidates these tokens.
        self._configured_key = self._signing_key
        #: Verified tokens → identity and expiry. Cleared when keys change.
        self._verified: dict[str, tuple[Identity, int]] = {}

    def bind_configured_secret(self, secret: str) -> None:
        """Derive `_configured_key` from the secret in the environment variables."""
        self._configured_key = _derive(self._signing_key, b"configured", secret)

    def forget_verified(self) -> None:
        """Forget which tokens were verified, because the keys have changed."""
        self._verified.clear()

    def issue(self, identity: Identity) -> str:
        """Return a token for an identity."""
        secret = identity.secret or 0
        expires_s = self._clock.wall_ms() // 1000 + TOKEN_LIFETIME_S
        ends_ms = self._keys.expires_ms(secret)
        if ends_ms is not None:
            expires_s = min(expires_s, ends_ms // 1000)
        return f"{secret}.{expires_s}.{self._sign(secret, expires_s)}"

    def verify(self, token: str) -> Identity:
        """Return the identity of a token, or raise a 401."""
        known = self._verified.get(token)
        if known is None:
            known = self._verify(token)
            if len(self._verified) >= _MAX_VERIFIED:
                self._verified.clear()
            self._verified[token] = known
        if known[1] <= self._clock.wall_ms():
            self._verified.pop(token, None)
            raise ApiError(401, "the token has expired", code="EXPIRED_TOKEN")
        return known[0]

    def _verify(self, token: str) -> tuple[Identity, int]:
        if token.startswith(STATIC_PREFIX):
            identity = self._keys.find_static(token)
            if identity is None or identity.secret is None:
                raise _make_invalid_token_error()
            return identity, self._end_ms(identity.secret, 2**62)
        number, _, rest = token.partition(".")
        expires, _, signature = rest.partition(".")
        if not (_is_number(number) and _is_number(expires)):
            raise _make_invalid_token_error()
        identity = self._keys.identity(int(number))
        if identity is None:
            # Clients renew their token on EXPIRED_TOKEN, which succeeds if they have a newer secret of the key.
            raise ApiError(401, "the key of the token was revoked, or its secret was replaced", code="EXPIRED_TOKEN")
        expected = self._sign(int(number), int(expires))
        if not hmac.compare_digest(signature.encode(), expected.encode()):
            raise _make_invalid_token_error()
        return identity, self._end_ms(int(number), int(expires) * 1000)

    def _end_ms(self, secret: int, expires_ms: int) -> int:
        """Return when a token expires: at `expires_ms`, or when its secret expires, if that is earlier."""
        secret_ends_ms = self._keys.expires_ms(secret)
        return expires_ms if secret_ends_ms is None else min(expires_ms, secret_ends_ms)

    def _sign(self, secret: int, expires_s: int) -> str:
        key = self._signing_key if secret else self._configured_key
        # A database that was restored from an old copy lacks later secrets, and gives their numbers to new secrets. The
        # digest of the secret is signed too, so that a token of a lost secret is not valid for a new one.
        return blake2b(
            b"%d.%d.%b" % (secret, expires_s, self._keys.digest(secret)), digest_size=24, key=key
        ).hexdigest()


def read_token(headers: Mapping[bytes, bytes]) -> str:
    """Return the token of a request: of `X-Authorization`, or of `Authorization: Bearer`. Empty if there is none."""
    token = headers.get(_HEADER)
    if token is None:
        scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
        if scheme.lower() != b"bearer":
            return ""
    return token.strip().decode("latin-1")


_HEADER = AUTH_HEADER.lower().encode()


def _derive(key: bytes, purpose: bytes, text: str) -> bytes:
    return blake2b(text.encode(), digest_size=32, key=key, person=purpose).digest()


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS


def _make_invalid_token_error() -> ApiError:
    return ApiError(401, f"this coordinator requires a token in header {AUTH_HEADER}", code="INVALID_TOKEN")
