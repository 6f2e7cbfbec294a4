"""`conductor-worker secret`: secrets are set from a pipe or a file, listed by name, and deleted."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from conductor.coordinator import Coordinator


def test_a_secret_is_set_listed_and_deleted_and_its_value_is_never_printed(
    cli: Any, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "bank.key").write_text("s3cret-of-the-bank\n")
    with Coordinator() as coordinator:
        monkeypatch.setenv("CONDUCTOR_SERVER_URL", coordinator.url)
        ran = [cli("secret", "list"), cli("secret", "set", "BANK_KEY", "--file", "bank.key")]
        monkeypatch.setattr("sys.stdin", io.StringIO("s3cret-of-the-post\n"))
        ran += [cli("secret", "set", "POST_KEY"), cli("secret", "list")]
        listed = cli("secret", "list", "--json")
        ran += [cli("secret", "delete", "BANK_KEY")]
        again = cli("secret", "delete", "BANK_KEY")
        missing = cli("secret", "set", "BANK_KEY", "--file", "none.key")
        monkeypatch.setattr("sys.stdin", io.StringIO("\n"))
        empty = cli("secret", "set", "BANK_KEY")
        assert coordinator.core is not None
        assert coordinator.core.secrets.value("POST_KEY") == "s3cret-of-the-post"
    assert [one.status for one in ran] == [0] * len(ran)
    assert [one.out for one in ran] == [
        "There are no secrets.\n",
        "BANK_KEY: set\n",
        "POST_KEY: set\n",
        "BANK_KEY\nPOST_KEY\n",
        "BANK_KEY: deleted\n",
    ]
    assert json.loads(listed.out) == ["BANK_KEY", "POST_KEY"]
    assert (again.status, again.err) == (2, "conductor-worker: there is no secret 'BANK_KEY'\n")
    assert (missing.status, "none.key" in missing.err) == (2, True)
    assert (empty.status, "is empty" in empty.err) == (2, True)
    assert not any("s3cret" in one.out + one.err for one in [*ran, again, missing, empty])
