"""How secrets are written into the file: encrypted with a key that is not in it."""

from __future__ import annotations

import hashlib
import os

from conductor.coordinator.store.database_file import StoreRefused

#: A passphrase; anything that is hard to guess.
KEY_VARIABLE = "CONDUCTOR_SECRETS_KEY"
#: A shorter one is refused.
LEAST_KEY_CHARS = 16
_NONCE_BYTES = 12


class CipherError(StoreRefused):
    """The key cannot be used, or is not the one that a value was written with; the message says what to do."""


class Cipher:
    """AES-GCM, with a key made of a passphrase and the salt of the file. A value belongs to its name."""

    def __init__(self, passphrase: str, salt: bytes) -> None:
        if len(passphrase) < LEAST_KEY_CHARS:
            raise CipherError(f"{KEY_VARIABLE} has fewer than {LEAST_KEY_CHARS} characters; use a longer one")
        try:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ImportError as error:
            raise CipherError(f"{KEY_VARIABLE} is set, which needs a package: pip install cryptography") from error
        self._aes = AESGCM(hashlib.scrypt(passphrase.encode(), salt=salt, n=2**14, r=8, p=1, dklen=32))

    def encrypt(self, name: str, value: str) -> bytes:
        """What goes into the file."""
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._aes.encrypt(nonce, value.encode(), name.encode())

    def decrypt(self, name: str, stored: bytes) -> str:
        """The value again. CipherError if it was written with another key."""
        from cryptography.exceptions import InvalidTag

        try:
            return self._aes.decrypt(stored[:_NONCE_BYTES], stored[_NONCE_BYTES:], name.encode()).decode()
        except InvalidTag as error:
            raise CipherError(
                f"secret {name} in the file was written with another key; set {KEY_VARIABLE} to that one, "
                "or remove the secret while the variable is not set"
            ) from error
