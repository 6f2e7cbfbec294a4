"""The command line has every worker option of the table."""

from __future__ import annotations

import os
from typing import Any

import pytest

from conductor.cli.support import UserError
from conductor.cli.worker_options import flag_of, set_worker_variables
from conductor.client.worker.worker_config import OPTIONS, resolve_worker_config


@pytest.fixture(autouse=True)
def _environment_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", os.environ.copy())


def test_every_option_of_the_table_is_an_option_of_run(cli: Any) -> None:
    words = cli("run", "--help").out.split()
    assert [flag_of(row) for row in OPTIONS.values() if flag_of(row) not in words] == []


def test_an_option_holds_for_all_workers_and_gives_way_to_a_worker_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONDUCTOR_WORKER_THREAD_COUNT", "2")
    monkeypatch.setenv("CONDUCTOR_WORKER_SPECIAL_THREAD_COUNT", "9")
    set_worker_variables({"thread_count": "5", "domain": None, "paused": True})
    plain = resolve_worker_config("plain", thread_count=1, env=os.environ)
    special = resolve_worker_config("special", env=os.environ)
    assert (plain.thread_count, special.thread_count) == (5, 9)
    assert plain.paused is True
    assert plain.source("domain") == "default"


@pytest.mark.parametrize("row", [row for row in OPTIONS.values() if row.minimum is not None], ids=lambda row: row.name)
def test_a_value_that_the_table_does_not_allow_is_refused_in_its_words(row: Any) -> None:
    with pytest.raises(UserError, match="is not allowed") as refused:
        set_worker_variables({row.name: str(row.minimum - 1)})
    assert str(refused.value).startswith(flag_of(row) + ": ")
    assert row.allowed in str(refused.value)


def test_a_boolean_has_a_no(cli: Any) -> None:
    out = cli("run", "--help").out
    assert all(f"--no-{flag_of(row)[2:]}" in out for row in OPTIONS.values() if row.kind is bool)
