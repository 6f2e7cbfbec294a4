"""Keeps a coordinator from granting tasks after its database was restored elsewhere. Workers reveal the newer one.

Each answer to a poll carries the token of this epoch (`protocol/epoch_token.py`). Workers send the newest token that
they have seen with every request. A token of a newer epoch of the same lineage shows that another coordinator has taken
over, so this one grants no more tasks and accepts no changes.
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
        started_ms: The start time of this coordinator. It orders two copies of the database with the same epoch.
    """

    def __init__(self, secret: bytes, number: int, started_ms: int) -> None:
        self._secret = secret
        self._lineage = blake2b(b"lineage", digest_size=8, key=secret).hexdigest().encode()
        self._own = number, started_ms
        #: The token of this epoch, as a header value.
        self.token = self._make(number, started_ms)
        #: Why this coordinator accepts no changes; None while it does.
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
        # The signature is compared last, because nearly every token is older than the one of this coordinator, or equal
        # to it.
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
