"""Keeps a coordinator from granting tasks after its database was restored elsewhere and serves a newer coordinator.

Every start of a coordinator on a database is a new epoch. Each answer to a poll carries the token of the current epoch
(`protocol/epoch_token.py`), and workers send the newest token that they have seen with every request. A token of a
newer epoch of the same database shows that another coordinator has taken over. The older coordinator then grants no
more tasks and accepts no changes.
"""

from __future__ import annotations

import hmac
import logging
import re
from hashlib import blake2b

from conductor.protocol.epoch_token import MAX_TOKEN_CHARS

logger = logging.getLogger(__name__)

_TOKEN = re.compile(rb"([0-9a-f]{16})\.([0-9a-f]{8})\.([0-9a-f]{12})\.([0-9a-f]{24})")


class EpochFence:
    """The epoch of this coordinator, and whether a newer one is known.

    Args:
        secret: The secret of the database, which all its copies share.
        number: The number of this epoch.
        started_ms: The start time of this coordinator. If two copies of the database have the same epoch number, the
            coordinator that was started later is the newer one.
    """

    def __init__(self, secret: bytes, number: int, started_ms: int) -> None:
        self._secret = secret
        self._lineage = blake2b(b"lineage", digest_size=8, key=secret).hexdigest().encode()
        self._own = number, started_ms
        #: The token of this epoch, as a header value.
        self.token = self._make(number, started_ms)
        #: Why this coordinator accepts no changes; None while it accepts them.
        self.reason: str | None = None

    def check_token(self, token: bytes) -> None:
        """Set `reason` if a client's token proves that a newer coordinator is running.

        Tokens that are invalid, older or of other databases are ignored.
        """
        if self.reason is not None or len(token) > MAX_TOKEN_CHARS:
            return
        match = _TOKEN.fullmatch(token)
        if match is None or match[1] != self._lineage:
            return
        number, started_ms = int(match[2], 16), int(match[3], 16)
        # Compare the signature last, because it costs a digest, and nearly every token is not newer than our own.
        if (number, started_ms) <= self._own or not hmac.compare_digest(token, self._make(number, started_ms)):
            return
        self.reason = (
            f"a newer coordinator of this database is running (epoch {number}, this one has {self._own[0]}), so this "
            "one grants no tasks and accepts no changes; stop it, and point workers and clients to the newer one"
        )
        logger.critical("Superseded: %s", self.reason)

    def _make(self, number: int, started_ms: int) -> bytes:
        body = b"%b.%08x.%012x" % (self._lineage, number, started_ms)
        return b"%b.%b" % (body, blake2b(body, digest_size=12, key=self._secret).hexdigest().encode())
