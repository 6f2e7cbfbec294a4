"""Every SQL statement has a description, a typed constant, and as many columns as its rows have fields."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest

from conductor.coordinator.store import statements
from conductor.coordinator.store.rows import read_task, read_whole_task, read_workflow
from conductor.coordinator.store.sql import SCHEMA, STATEMENTS
from conductor.coordinator.store.statements import Command, Query

CONSTANTS = [value for value in vars(statements).values() if isinstance(value, Command | Query)]
QUERIES = [value for value in CONSTANTS if isinstance(value, Query)]


@pytest.fixture(scope="module")
def db() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as found:
        found.executescript(SCHEMA)
        yield found


def test_every_statement_has_exactly_one_constant() -> None:
    assert sorted(constant.name for constant in CONSTANTS) == sorted(STATEMENTS)


@pytest.mark.parametrize("name", STATEMENTS)
def test_every_statement_begins_with_a_description(name: str) -> None:
    assert re.match(r"-- [A-Z].*\.\n(?!--)", STATEMENTS[name])


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.name)
def test_the_rows_of_a_query_can_be_read(db: sqlite3.Connection, query: Query[object]) -> None:
    named = re.findall(r":([a-z_]+)", query.sql)
    cursor = db.execute(query.sql, dict.fromkeys(named, 0) if named else [0] * query.sql.count("?"))
    statuses = {"status": "FAILED"}
    columns = [statuses.get(column[0]) for column in cursor.description]
    assert query.read(*columns) is not NotImplemented
    if query.read not in (read_task, read_whole_task, read_workflow) and isinstance(query.read, type):
        fields = getattr(query.read, "_fields", None) or query.read.__struct_fields__  # type: ignore[attr-defined]
        assert len(fields) == len(columns)
