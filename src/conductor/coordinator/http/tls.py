"""TLS of the coordinator: loads its certificate, and loads it again when the files change."""

from __future__ import annotations

import contextlib
import logging
import os
import ssl
from pathlib import Path

from conductor.common.clock import Clock

logger = logging.getLogger(__name__)

#: How often the files are checked for a renewed certificate.
CHECK_S = 60.0
#: A client that does not finish its handshake within this time is disconnected.
HANDSHAKE_TIMEOUT_S = 15.0
#: How long a closed connection waits for the client's confirmation. Clients with idle connections send none.
CLOSE_TIMEOUT_S = 3.0


class ServerCertificate:
    """The certificate of the coordinator, and its private key.

    Args:
        cert: A PEM file with the certificate, followed by those of intermediate authorities.
        key: A PEM file with the private key, without a passphrase.

    Raises:
        ValueError: A file is missing, unreadable or invalid, or the key belongs to another certificate.
    """

    def __init__(self, cert: str | os.PathLike[str], key: str | os.PathLike[str]) -> None:
        self._cert, self._key = Path(cert), Path(key)
        self._seen = self._read()
        self.context = self._load()

    async def reload_when_renewed(self, clock: Clock) -> None:
        """Check the files every `CHECK_S` until cancelled, and use a renewed certificate for new connections."""
        while True:
            await clock.sleep(CHECK_S)
            self.reload_if_changed()

    def reload_if_changed(self) -> None:
        """Load the files if their content has changed. Keep the old certificate if the new one is not valid."""
        try:
            found = self._read()
            if found == self._seen:
                return
            # Validate first: if only one of the two files is replaced yet, the context in use must stay unchanged.
            self._load()
            self.context.load_cert_chain(self._cert, self._key, _refuse_passphrase)
        except (ValueError, OSError) as error:
            logger.error("TLS certificate not renewed, the old one stays in use: error=%r", str(error))
            return
        self._seen = found
        logger.warning("TLS certificate renewed: file=%s", self._cert)

    def _read(self) -> tuple[bytes, bytes]:
        return _read_file(self._cert, "certificate"), _read_file(self._key, "key")

    def _load(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.set_alpn_protocols(["http/1.1"])
        try:
            context.load_cert_chain(self._cert, self._key, _refuse_passphrase)
        except ssl.SSLError as error:
            if error.reason == "KEY_VALUES_MISMATCH":
                raise ValueError(
                    f"the TLS key {self._key} does not belong to the certificate {self._cert}; "
                    "name the key with which the certificate was requested"
                ) from None
            raise ValueError(f"{self._find_invalid_file()} ({error.reason or error})") from None
        return context

    def _find_invalid_file(self) -> str:
        """Return a message that names the file which OpenSSL cannot load."""
        with contextlib.suppress(ssl.SSLError, ValueError):
            ssl.create_default_context(cadata=self._cert.read_text("latin-1"))
            return f"the TLS key {self._key} is not a PEM file with a private key"
        return f"the TLS certificate {self._cert} is not a PEM file with a certificate"


def _read_file(path: Path, what: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ValueError(f"cannot read the TLS {what} {path}: {error.strerror}") from None


def _refuse_passphrase() -> str:
    # Without this function OpenSSL would ask for the passphrase on the terminal.
    raise ValueError("the TLS key has a passphrase, which the coordinator cannot ask for; store the key without one")
