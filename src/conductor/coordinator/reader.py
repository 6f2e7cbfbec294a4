"""Reads the state of the last commit, in parallel with the writer."""

from __future__ import annotations

from conductor.coordinator.definitions.definition_snapshots import Snapshots
from conductor.coordinator.store.writer import Store


class Reader:
    """Runs queries that change nothing."""

    def __init__(self, store: Store, snapshots: Snapshots) -> None:
        #: Runs one query.
        self.read = store.read
        #: Runs a query that may take long, such as a search.
        self.read_long = store.read_long
        #: The definitions that workflows were started with.
        self.snapshots = snapshots
