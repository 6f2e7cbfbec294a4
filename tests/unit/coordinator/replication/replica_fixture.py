"""A coordinator with a replica in a directory, and waits for the replica."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from conductor.coordinator.replication.litestream import find_program
from conductor.coordinator.replication.replicator import UnixConnection
from conductor.coordinator.store.database_file import StoreRefused

PATIENCE_S = 60.0


def _is_installed() -> bool:
    try:
        find_program()
    except StoreRefused:
        return False
    return True


needs_litestream = pytest.mark.skipif(not _is_installed(), reason="litestream is not installed")


def call(url: str, method: str, path: str, body: Any = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    with urlopen(Request(url + path, data, {"Content-Type": "application/json"}, method=method), timeout=60) as answer:
        text = answer.read().decode()
        return json.loads(text) if text.startswith(("{", "[")) else text


def define(url: str) -> None:
    task = {"name": "t", "taskReferenceName": "t", "type": "SIMPLE"}
    call(url, "POST", "/metadata/workflow", {"name": "w", "tasks": [task]})


def start(url: str) -> str:
    return str(call(url, "POST", "/workflow/w", {}))


def replication(url: str) -> dict[str, Any]:
    found = call(url, "GET", "/health")["replication"]
    assert isinstance(found, dict)
    return found


def until_replicated(database: Path) -> None:
    """Wait until the replica has everything that is committed."""

    def is_synced() -> bool:
        try:
            configuration = json.loads(Path(f"{database}-replication/litestream.yml").read_text())
            body = json.dumps({"path": str(database.absolute()), "wait": True, "timeout": 30})
            with closing(UnixConnection(configuration["socket"]["path"], timeout_s=PATIENCE_S)) as connection:
                connection.request("POST", "/sync", body, {"Content-Type": "application/json"})
                answer = json.loads(connection.getresponse().read())
        except OSError:
            return False
        return bool(answer.get("replicated_txid")) and answer["replicated_txid"] == answer["txid"]

    until(is_synced)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "the condition did not become true"
        time.sleep(0.02)


def places(directory: Path) -> list[str]:
    return sorted(entry.name for entry in directory.iterdir())
