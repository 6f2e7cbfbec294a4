"""`${workflow.secrets.X}`: values that workers are given with their tasks, and that nobody is shown.

They come from variables of the coordinator's process and from the API; those of the API win. With a key for the file
(`cipher`) the latter are kept in it, encrypted; without one they are kept in memory only.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping

from conductor.coordinator.limits import MAX_SECRET_BYTES, MAX_SECRETS
from conductor.coordinator.request_errors import bad_request
from conductor.coordinator.settings.cipher import KEY_VARIABLE, Cipher
from conductor.coordinator.store.transaction import Tx

logger = logging.getLogger(__name__)

#: CONDUCTOR_SECRET_TOKEN is `${workflow.secrets.TOKEN}`.
PREFIX = "CONDUCTOR_SECRET_"
_NAME = re.compile(r"[A-Za-z0-9_-]{1,200}")


class Secrets:
    """All secrets. Used on the writer's thread, but for reading names."""

    def __init__(self, salt: bytes, variables: Mapping[str, str] | None = None) -> None:
        found = os.environ if variables is None else variables
        self._given = {name.removeprefix(PREFIX): found[name] for name in found if name.startswith(PREFIX)}
        self._kept: dict[str, str] = {}
        passphrase = found.get(KEY_VARIABLE)
        self._cipher = Cipher(passphrase, salt) if passphrase else None

    def load(self, tx: Tx) -> None:
        """Read those in the file. CipherError if the key is another one; without a key they are not read."""
        rows = tx.rows("secrets")
        if self._cipher is not None:
            self._kept = {name: self._cipher.decrypt(name, stored) for name, stored in rows}
        elif rows:
            logger.warning("%d secrets in the file cannot be read: %s is not set", len(rows), KEY_VARIABLE)
        else:
            logger.info("secrets of the API are kept in memory only: %s is not set", KEY_VARIABLE)

    def names(self) -> list[str]:
        """The names, in order."""
        return sorted({*self._given, *self._kept})

    def value(self, name: str) -> str | None:
        """For whoever executes a task, and nobody else."""
        return self._kept.get(name, self._given.get(name))

    def put(self, tx: Tx, name: str, value: str) -> None:
        """Keep one, in the file if there is a key for it."""
        if not _NAME.fullmatch(name):
            raise bad_request("the name of a secret has up to 200 letters, digits, '_' and '-'")
        if len(value.encode()) > MAX_SECRET_BYTES:
            raise bad_request(f"a secret has at most {MAX_SECRET_BYTES} bytes")
        if name not in self._kept and len(self._kept) >= MAX_SECRETS:
            raise bad_request(f"there are {MAX_SECRETS} secrets already")
        if self._cipher is not None:
            tx.run("set secret", name, self._cipher.encrypt(name, value))
        else:
            logger.warning("secret %s is kept in memory only: %s is not set", name, KEY_VARIABLE)
        self._kept[name] = value

    def remove(self, tx: Tx, name: str) -> None:
        """Forget one that came through the API."""
        tx.run("drop secret", name)
        self._kept.pop(name, None)
