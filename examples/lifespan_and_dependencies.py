"""A worker function that receives a transaction per task on a database per process. Stop it with Ctrl-C."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Annotated

from conductor import Configuration, Depends, TaskHandler, worker_lifespan, worker_task


@worker_lifespan
def database() -> Iterator[sqlite3.Connection]:
    """Open a database before the first poll of the process, and close it after the last task."""
    with closing(sqlite3.connect(":memory:", check_same_thread=False)) as connection:
        connection.execute("create table orders (number integer primary key, item text)")
        yield connection


def transaction(connection: Annotated[sqlite3.Connection, Depends(database)]) -> Iterator[sqlite3.Cursor]:
    """Begin a transaction for each task, commit it if the function returns, and roll it back if it raises."""
    with connection, closing(connection.cursor()) as cursor:
        yield cursor


Rows = Annotated[sqlite3.Cursor, Depends(transaction, scope="task")]


@worker_task(task_definition_name="take_order")
def take_order(number: int, item: str, rows: Rows) -> dict[str, int]:
    """Insert an order. `number` and `item` come from the input of the task, and `rows` is injected."""
    rows.execute("insert into orders values (?, ?)", (number, item))
    return {"orders": rows.execute("select count(*) from orders").fetchone()[0]}


if __name__ == "__main__":
    with TaskHandler(configuration=Configuration(), max_tasks_per_process=10_000) as handler:
        handler.start_processes()
        handler.join_processes()
