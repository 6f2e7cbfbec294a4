"""The cache of parsed snapshots, which the writer and the readers share."""

from __future__ import annotations

import threading
from typing import Any, cast

import msgspec

from conductor.coordinator.definitions import definition_snapshots
from conductor.coordinator.definitions.definition_snapshots import Snapshots
from tests.unit.coordinator.core_harness import simple

BODY = msgspec.json.encode({"name": "flow", "tasks": [simple("work")]})


class BothRead:
    """A transaction that returns a snapshot only when two threads have asked for it."""

    def __init__(self) -> None:
        self.barrier = threading.Barrier(2, timeout=30)

    def first(self, *_: Any) -> bytes:
        self.barrier.wait()
        return BODY


def test_a_snapshot_that_two_threads_parse_counts_once(monkeypatch: Any) -> None:
    monkeypatch.setattr(definition_snapshots, "MAX_CACHED_SNAPSHOT_BYTES", 2 * len(BODY) - 1)
    snapshots, tx = Snapshots(), cast("Any", BothRead())
    threads = [threading.Thread(target=snapshots.get, args=(tx, 1)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tx.barrier.abort()  # a further read would fail, so the snapshot is in the cache
    assert snapshots.get(tx, 1).definition["name"] == "flow"
