"""Public ids. An id is derived from an integer key and a secret of the file, so that no index of ids is kept.

An id reads as a UUID (version 8, "custom"): 48 bits of key, 72 bits of a keyed digest. One that was not made by this
file does not verify and is simply unknown.
"""

from __future__ import annotations

import re
from hashlib import blake2b

#: Ids of each kind that are kept with their keys.
MAX_KEPT = 16_384

_UUID = re.compile(r"([0-9a-f]{8})-([0-9a-f]{4})-8([0-9a-f]{3})-8([0-9a-f]{3})-([0-9a-f]{12})")


class Ids:
    """Turns keys into ids and back for one database file."""

    def __init__(self, secret: bytes) -> None:
        self._leases = _sealed(secret, b"lease")
        workflows, tasks, runs = (_Kind(secret, name) for name in (b"workflow", b"task", b"run"))
        #: The id of a workflow, of a task, of one run of a schedule.
        self.workflow, self.task, self.run = workflows.id, tasks.id, runs.id
        #: The key behind each of them, or None if this file never gave that id out.
        self.workflow_pk, self.task_pk, self.run_pk = workflows.key, tasks.key, runs.key

    def lease(self, task_pk: int, lease_no: int) -> str:
        """The id of one lease of a task: the n-th delivery, sealed."""
        seal = self._leases.copy()
        seal.update(b"%d:%d" % (lease_no, task_pk))
        return f"{lease_no:x}-{seal.hexdigest()}"

    def lease_no(self, task_pk: int, lease_id: str) -> int | None:
        """Which lease of this task the id names, or None if it is not one of its leases."""
        number, _, _ = lease_id.partition("-")
        try:
            lease_no = int(number[:16], 16)  # a longer one is none of ours; its digits could be millions
        except ValueError:
            return None
        return lease_no if lease_no > 0 and self.lease(task_pk, lease_no) == lease_id else None


class _Kind:
    """The ids of one kind. One is asked for, and asked about, several times within a few milliseconds."""

    def __init__(self, secret: bytes, name: bytes) -> None:
        self._seals = _sealed(secret, name + b":")
        self._ids: dict[int, str] = {}
        self._keys: dict[str | None, int] = {}

    def id(self, pk: int) -> str:
        """The id of a key."""
        return self._ids.get(pk) or self._make(pk)

    def key(self, public: str | None) -> int | None:
        """The key behind an id, or None if this file never gave it out."""
        return self._keys.get(public) or self._find(public)

    def _make(self, pk: int) -> str:
        if len(self._ids) >= MAX_KEPT:
            self._ids.clear()
            self._keys.clear()
        sealed = self._seals.copy()
        sealed.update(b"%d" % pk)
        key, seal = f"{pk:012x}", sealed.hexdigest()
        made = self._ids[pk] = f"{key[:8]}-{key[8:]}-8{seal[:3]}-8{seal[3:6]}-{seal[6:]}"
        self._keys[made] = pk
        return made

    def _find(self, public: str | None) -> int | None:
        match = _UUID.fullmatch(public or "")
        if match is None:
            return None
        pk = int(match[1] + match[2], 16)
        return pk if self.id(pk) == public else None


def _sealed(secret: bytes, kind: bytes) -> blake2b:
    """The beginning of a seal: each one goes on from a copy of it, which takes half as long as to begin anew."""
    return blake2b(kind, digest_size=9, key=secret)
