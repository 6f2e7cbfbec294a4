"""Public ids. An id is derived from an integer key and a secret of the file, so that no index of ids is kept.

An id reads as a UUID (version 8, "custom"): 48 bits of key, 72 bits of a keyed digest. One that was not made by this
file does not verify and is simply unknown.
"""

from __future__ import annotations

import re
from hashlib import blake2b

#: Ids that are kept with their keys.
MAX_KEPT = 8192

_UUID = re.compile(r"([0-9a-f]{8})-([0-9a-f]{4})-8([0-9a-f]{3})-8([0-9a-f]{3})-([0-9a-f]{12})")


class Ids:
    """Turns keys into ids and back for one database file."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        # The ids of one task are asked for, and asked about, several times within a few milliseconds.
        self._ids: dict[tuple[int, bytes], str] = {}
        self._keys: dict[tuple[str, bytes], int] = {}

    def workflow(self, pk: int) -> str:
        """The id of a workflow."""
        return self._make(pk, b"workflow")

    def task(self, pk: int) -> str:
        """The id of a task."""
        return self._make(pk, b"task")

    def run(self, pk: int) -> str:
        """The id of one run of a schedule."""
        return self._make(pk, b"run")

    def lease(self, task_pk: int, lease_no: int) -> str:
        """The id of one lease of a task: the n-th delivery, sealed."""
        return f"{lease_no:x}-{self._seal(task_pk, b'lease%d' % lease_no)}"

    def workflow_pk(self, public: str | None) -> int | None:
        """The key behind a workflow's id, or None if this file never gave it out."""
        return self._key(public, b"workflow")

    def task_pk(self, public: str | None) -> int | None:
        """The key behind a task's id, or None if this file never gave it out."""
        return self._key(public, b"task")

    def run_pk(self, public: str | None) -> int | None:
        """The key behind the id of a schedule's run, or None if this file never gave it out."""
        return self._key(public, b"run")

    def lease_no(self, task_pk: int, lease_id: str) -> int | None:
        """Which lease of this task the id names, or None if it is not one of its leases."""
        number, _, _ = lease_id.partition("-")
        try:
            lease_no = int(number[:16], 16)  # a longer one is none of ours; its digits could be millions
        except ValueError:
            return None
        return lease_no if lease_no > 0 and self.lease(task_pk, lease_no) == lease_id else None

    def _make(self, pk: int, kind: bytes) -> str:
        known = self._ids.get((pk, kind))
        if known is None:
            if len(self._ids) >= MAX_KEPT:
                self._ids.clear()
                self._keys.clear()
            known = self._ids[pk, kind] = self._sealed(pk, kind)
            self._keys[known, kind] = pk
        return known

    def _seal(self, pk: int, kind: bytes) -> str:
        return blake2b(b"%s:%d" % (kind, pk), digest_size=9, key=self._secret).hexdigest()

    def _sealed(self, pk: int, kind: bytes) -> str:
        key, seal = f"{pk:012x}", self._seal(pk, kind)
        return f"{key[:8]}-{key[8:]}-8{seal[:3]}-8{seal[3:6]}-{seal[6:]}"

    def _key(self, public: str | None, kind: bytes) -> int | None:
        known = self._keys.get((public or "", kind))
        if known is not None:
            return known
        match = _UUID.fullmatch(public or "")
        if match is None:
            return None
        pk = int(match[1] + match[2], 16)
        return pk if self._make(pk, kind) == public else None
