"""Public ids. An id is derived from an integer key and secrets of the file, so that no index of ids is needed.

An id reads as a UUID (version 8, "custom"): 48 bits of key, 72 bits of a keyed digest. The digest of an id that another
file created does not match, so the id is unknown.

Every start of a coordinator begins an epoch with a random nonce, which is part of the digests of that epoch. So a file
that was restored from an older copy never repeats an id: it gives new rows the same keys again, but in a new epoch. The
ids that were created after the copy was made are then unknown.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from hashlib import blake2b

from conductor.coordinator.store.statements import Epoch

#: The maximum number of cached ids of workflows, of tasks, and of schedule runs.
MAX_CACHED = 16_384
#: How many low bits of a lease number count the deliveries of the task. The higher bits are the epoch number.
LEASE_BITS = 32

_UUID = re.compile(r"([0-9a-f]{8})-([0-9a-f]{4})-8([0-9a-f]{3})-8([0-9a-f]{3})-([0-9a-f]{12})")


#: The epoch of ids that were created before epochs were recorded. Their digests use only the secret of the file.
UNRECORDED = Epoch(0, 0, 0, 0, b"")


class Ids:
    """Turns keys into ids and back for one database file."""

    def __init__(self, secret: bytes, epochs: Sequence[Epoch] = ()) -> None:
        epochs = [UNRECORDED, *epochs]
        secrets = [secret + epoch.nonce for epoch in epochs]
        workflows = _Kind(b"workflow", [epoch.first_workflow for epoch in epochs], secrets)
        tasks = _Kind(b"task", [epoch.first_task for epoch in epochs], secrets)
        runs = _Kind(b"run", [epoch.first_run for epoch in epochs], secrets)
        #: Return the id of a workflow, a task, or a run of a schedule, from its key.
        self.workflow, self.task, self.run = workflows.id, tasks.id, runs.id
        #: Return the key from an id, or None if this file did not create that id.
        self.workflow_pk, self.task_pk, self.run_pk = workflows.key, tasks.key, runs.key
        self._secrets = {epoch.number: secret for epoch, secret in zip(epochs, secrets, strict=True)}
        #: Keyed digests for lease ids by epoch. They are created on first use, because a file can have many epochs:
        #: each attempt to start a coordinator begins one.
        self._lease_seals: dict[int, blake2b] = {}
        self._lease_base = epochs[-1].number << LEASE_BITS

    def next_lease_no(self, last: int) -> int:
        """Return the number of a task's next lease. Numbers increase, and each epoch has a range of its own."""
        return max(last, self._lease_base) + 1

    def lease(self, task_pk: int, lease_no: int) -> str:
        """Return the id of one lease of a task."""
        epoch = lease_no >> LEASE_BITS
        if epoch not in self._lease_seals:
            self._lease_seals[epoch] = _begin_seal(self._secrets[epoch], b"lease")
        seal = self._lease_seals[epoch].copy()
        seal.update(b"%d:%d" % (lease_no, task_pk))
        return f"{lease_no:x}-{seal.hexdigest()}"

    def lease_no(self, task_pk: int, lease_id: str) -> int | None:
        """Return the lease number from a lease id, or None if this task never had that lease."""
        number, _, _ = lease_id.partition("-")
        try:
            lease_no = int(number[:16], 16)  # parse only the first digits, because an invalid id could have millions
        except ValueError:
            return None
        known = lease_no > 0 and lease_no >> LEASE_BITS in self._secrets
        return lease_no if known and self.lease(task_pk, lease_no) == lease_id else None


class _Kind:
    """The ids of workflows, of tasks or of schedule runs. An id is needed several times in a row, so it is cached."""

    def __init__(self, name: bytes, first_keys: list[int], secrets: list[bytes]) -> None:
        # An epoch that created no id has the same first key as the next epoch, which replaces it in this dict.
        used = dict(zip(first_keys, secrets, strict=True))
        self._first_keys = list(used)
        self._seals = [_begin_seal(secret, name + b":") for secret in used.values()]
        self._ids: dict[int, str] = {}
        self._keys: dict[str | None, int] = {}

    def id(self, pk: int) -> str:
        """Return the id of a key."""
        return self._ids.get(pk) or self._make(pk)

    def key(self, public: str | None) -> int | None:
        """Return the key of an id, or None if this file did not create it."""
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
    """Return a keyed digest to copy for each id. Copying takes half as long as a new keyed digest."""
    return blake2b(kind, digest_size=9, key=secret)
