"""`${workflow.secrets.X}`: values that workers receive with their tasks, and that no client can read.

Secrets come from variables of the coordinator's process and from the API; the API takes precedence. With a key
(`cipher`) the secrets of the API are stored encrypted in the database; without a key they are only in memory.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping

from conductor.coordinator.limits import MAX_SECRET_BYTES, MAX_SECRETS
from conductor.coordinator.request_errors import bad_request
from conductor.coordinator.settings.cipher import KEY_VARIABLE, Cipher
from conductor.coordinator.store.statements import DROP_SECRET, SECRETS, SET_SECRET
from conductor.coordinator.store.transaction import Tx
from conductor.protocol.views import SecretEntry, SecretList

logger = logging.getLogger(__name__)

#: The variable CONDUCTOR_SECRET_TOKEN sets `${workflow.secrets.TOKEN}`.
PREFIX = "CONDUCTOR_SECRET_"
_NAME = re.compile(r"[A-Za-z0-9_-]{1,200}")


class Secrets:
    """All secrets. `put` and `remove` run in transactions; `apply` makes their changes effective after the commit."""

    def __init__(self, salt: bytes, variables: Mapping[str, str] | None = None) -> None:
        variables = os.environ if variables is None else variables
        self._from_environment = {
            name.removeprefix(PREFIX): value for name, value in variables.items() if name.startswith(PREFIX)
        }
        self._from_api: dict[str, str] = {}
        #: The number of stored secrets that cannot be decrypted without a key. Workers receive null for them.
        self.unreadable = 0
        passphrase = variables.get(KEY_VARIABLE)
        self._cipher = Cipher(passphrase, salt) if passphrase else None

    def load(self, tx: Tx) -> None:
        """Decrypt the secrets in the database, if a key is set. Raises CipherError if the key is wrong."""
        rows = tx.rows(SECRETS)
        if self._cipher is not None:
            self._from_api = {name: self._cipher.decrypt(name, stored) for name, stored in rows}
        elif rows:
            self.unreadable = len(rows)
            logger.warning("Stored secrets are unreadable: secrets=%d; set %s to read them", len(rows), KEY_VARIABLE)
        else:
            logger.info("Secrets from the API are kept in memory only; set %s to store them", KEY_VARIABLE)

    def names(self) -> list[str]:
        """Return the sorted names of all secrets."""
        return sorted({*self._from_environment, *self._from_api})

    def view(self) -> SecretList:
        """Return the names of all secrets and where each comes from."""
        entries = [
            SecretEntry(name=name, from_environment=name in self._from_environment, from_api=name in self._from_api)
            for name in self.names()
        ]
        return SecretList(secrets=entries, are_stored=self._cipher is not None)

    def value(self, name: str) -> str | None:
        """Return the value of a secret. Call this only for the worker that executes a task."""
        return self._from_api.get(name, self._from_environment.get(name))

    def put(self, tx: Tx, name: str, value: str) -> None:
        """Set a secret, and store it in the database if a key is set."""
        if not _NAME.fullmatch(name):
            raise bad_request("the name of a secret has up to 200 letters, digits, '_' and '-'")
        if len(value.encode()) > MAX_SECRET_BYTES:
            raise bad_request(f"a secret has at most {MAX_SECRET_BYTES} bytes")
        if name not in self._from_api and len(self._from_api) >= MAX_SECRETS:
            raise bad_request(f"there are already {MAX_SECRETS} secrets, the limit; remove one first")
        if self._cipher is not None:
            tx.run(SET_SECRET, name, self._cipher.encrypt(name, value))
        else:
            logger.warning("Secret is kept in memory only: name=%s; set %s to store it", name, KEY_VARIABLE)
        tx.notes.secrets[name] = value

    def remove(self, tx: Tx, name: str) -> None:
        """Remove a secret that came from the API."""
        tx.run(DROP_SECRET, name)
        tx.notes.secrets[name] = None

    def apply(self, changes: Mapping[str, str | None]) -> None:
        """Take over the secrets that a committed transaction has set. None deletes a secret."""
        changed = {**self._from_api, **changes}
        self._from_api = {name: value for name, value in changed.items() if value is not None}
