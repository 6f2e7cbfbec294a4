"""Encryption of the secrets in the database, with a key that is not in the database."""

from __future__ import annotations

import hashlib
import os

from conductor.coordinator.store.database_file import StoreRefused

#: The environment variable with the passphrase.
KEY_VARIABLE = "CONDUCTOR_SECRETS_KEY"
#: A shorter passphrase is rejected.
MIN_KEY_CHARS = 16
_NONCE_BYTES = 12


class CipherError(StoreRefused):
    """The key is unusable, or it is not the key that encrypted a value; the message says what to do."""


class Cipher:
    """AES-GCM with a key derived from a passphrase and the salt of the database.

    The name of a secret is authenticated with its value, so a value cannot be moved to another name.
    """

    def __init__(self, passphrase: str, salt: bytes) -> None:
        if len(passphrase) < MIN_KEY_CHARS:
            raise CipherError(f"{KEY_VARIABLE} has fewer than {MIN_KEY_CHARS} characters; use a longer passphrase")
        try:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ImportError as error:
            raise CipherError(f"{KEY_VARIABLE} is set, which needs a package: pip install cryptography") from error
        self._aes = AESGCM(hashlib.scrypt(passphrase.encode(), salt=salt, n=2**14, r=8, p=1, dklen=32))

    def encrypt(self, name: str, value: str) -> bytes:
        """Return the encrypted value."""
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._aes.encrypt(nonce, value.encode(), name.encode())

    def decrypt(self, name: str, stored: bytes) -> str:
        """Return the decrypted value. Raises CipherError if another key encrypted it."""
        from cryptography.exceptions import InvalidTag

        try:
            return self._aes.decrypt(stored[:_NONCE_BYTES], stored[_NONCE_BYTES:], name.encode()).decode()
        except InvalidTag as error:
            raise CipherError(
                f"secret {name} in the database was encrypted with another key; set {KEY_VARIABLE} to that key; "
                f"if it is lost, start without {KEY_VARIABLE} and remove the secret"
            ) from error
