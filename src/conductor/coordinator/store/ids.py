"""Public ids. An id is derived from an integer key and secrets of the file, so that no index of ids is kept.

An id reads as a UUID (version 8, "custom"): 48 bits of key, 72 bits of a keyed digest. An id that this file did not
make does not verify and is unknown.

Every start of a coordinator begins an epoch with a nonce of its own, which seals the keys of that epoch. A file that
was restored from an older copy therefore never repeats an id: the keys after the copy belong to a new epoch, and the
ids that were given out after the copy was made do not verify any more.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from hashlib import blake2b

from conductor.coordinator.store.statements import Epoch

#: Ids of each kind that are cached with their keys.
MAX_CACHED = 16_384
#: A lease number is the number of its epoch, followed by this many bits that count the deliveries of the task.
LEASE_BITS = 32

_UUID = re.compile(r"([0-9a-f]{8})-([0-9a-f]{4})-8([0-9a-f]{3})-8([0-9a-f]{3})-([0-9a-f]{12})")


#: Ids from before epochs were recorded are sealed with the secret of the file alone.
UNRECORDED = Epoch(0, 0, 0, 0, b"")


class Ids:
    """Turns keys into ids and back for one database file."""

    def __init__(self, secret: bytes, epochs: Sequence[Epoch] = ()) -> None:
        epochs = [UNRECORDED, *epochs]
        secrets = [secret + epoch.nonce for epoch in epochs]
        workflows = _Kind(b"workflow", [epoch.first_workflow for epoch in epochs], secrets)
        tasks = _Kind(b"task", [epoch.first_task for epoch in epochs], secrets)
        runs = _Kind(b"run", [epoch.first_run for epoch in epochs], secrets)
        #: The id of a workflow, of a task, of one run of a schedule.
        self.workflow, self.task, self.run = workflows.id, tasks.id, runs.id
        #: The key behind each of them, or None if this file never gave that id out.
        self.workflow_pk, self.task_pk, self.run_pk = workflows.key, tasks.key, runs.key
        self._lease_seals = {
            epoch.number: _begin_seal(secret, b"lease") for epoch, secret in zip(epochs, secrets, strict=True)
        }
        self._lease_base = epochs[-1].number << LEASE_BITS

    def next_lease_no(self, last: int) -> int:
        """Return the number of a task's next lease. Numbers grow, and no epoch uses those of another."""
        return max(last, self._lease_base) + 1

    def lease(self, task_pk: int, lease_no: int) -> str:
        """Return the id of one lease of a task."""
        seal = self._lease_seals[lease_no >> LEASE_BITS].copy()
        seal.update(b"%d:%d" % (lease_no, task_pk))
        return f"{lease_no:x}-{seal.hexdigest()}"

    def lease_no(self, task_pk: int, lease_id: str) -> int | None:
        """Return which lease of this task the id names, or None if it is not one of its leases."""
        number, _, _ = lease_id.partition("-")
        try:
            lease_no = int(number[:16], 16)  # a longer number is not ours, and could have millions of digits
        except ValueError:
            return None
        known = lease_no > 0 and lease_no >> LEASE_BITS in self._lease_seals
        return lease_no if known and self.lease(task_pk, lease_no) == lease_id else None


class _Kind:
    """The ids of one kind. An id is usually needed several times within a few milliseconds, so it is cached."""

    def __init__(self, name: bytes, first_keys: list[int], secrets: list[bytes]) -> None:
        self._first_keys = first_keys
        self._seals = [_begin_seal(secret, name + b":") for secret in secrets]
        self._ids: dict[int, str] = {}
        self._keys: dict[str | None, int] = {}

    def id(self, pk: int) -> str:
        """Return the id of a key."""
        return self._ids.get(pk) or self._make(pk)

    def key(self, public: str | None) -> int | None:
        """Return the key behind an id, or None if this file never gave it out."""
        return self._keys.get(public) or self._find(public)

    def _make(self, pk: int) -> str:
        if len(self._ids) >= MAX_CACHED:
            self._ids.clear()
            self._keys.clear()
        sealed = self._seals[bisect_right(self._first_keys, pk) - 1].copy()
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


def _begin_seal(secret: bytes, kind: bytes) -> blake2b:
    """Begin a seal. Each seal continues a copy, which takes half as long as a digest from the beginning."""
    return blake2b(kind, digest_size=9, key=secret)
