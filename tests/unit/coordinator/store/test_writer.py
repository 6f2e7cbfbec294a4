"""The store: one writer, group commit, errors with a remedy, recovery after kill -9."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from conductor.coordinator.request_errors import ApiError, not_found
from conductor.coordinator.store import row_cache
from conductor.coordinator.store.database_file import APPLICATION_ID
from conductor.coordinator.store.ids import Ids
from conductor.coordinator.store.sql import SCHEMA, SCHEMA_VERSION, STATEMENTS
from conductor.coordinator.store.statements import ADD_LOG, ADD_QUEUE, NEAREST_WAKE, NEWEST_LOGS
from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.store.writer import Store, StoreClosed, StoreError, StoreRefused


def add_log(line: str) -> Callable[[Tx], Any]:
    return lambda tx: tx.run(ADD_LOG, "task", 0, line)


def lines(store: Store) -> list[str]:
    return [row[0] for row in store.call(lambda tx: tx.rows(NEWEST_LOGS, "task")[::-1])]


def together(store: Store, *jobs: Callable[[Tx], Any]) -> list[Any]:
    """Return the results or exceptions of callers that share one transaction."""
    blocked, go = threading.Event(), threading.Event()

    def hold(_tx: Tx) -> None:
        blocked.set()
        go.wait(60)

    async def group() -> list[Any]:
        held = asyncio.ensure_future(store.write(hold))
        await asyncio.to_thread(blocked.wait, 60)
        waiting = [asyncio.ensure_future(store.write(job)) for job in jobs]
        await asyncio.sleep(0)
        go.set()
        return (await asyncio.gather(held, *waiting, return_exceptions=True))[1:]

    return asyncio.run(group())


class TestCommit:
    def test_an_answered_write_is_in_the_file(self, tmp_path: Path) -> None:
        store = Store(tmp_path / "a.db")
        store.call(add_log("one"))
        with sqlite3.connect(tmp_path / "a.db") as other:
            assert other.execute("SELECT line FROM task_log").fetchall() == [("one",)]
        other.close()
        store.close()

    def test_a_failing_caller_changes_nothing_and_hurts_nobody(self, tmp_path: Path) -> None:
        store = Store(tmp_path / "a.db")
        blocked, go = threading.Event(), threading.Event()

        def hold(_tx: Tx) -> None:
            blocked.set()
            go.wait(60)

        def fail(tx: Tx) -> None:
            tx.run(ADD_LOG, "task", 0, "lost")
            raise ValueError("no")

        async def group() -> list[object]:
            held = asyncio.ensure_future(store.write(hold))
            await asyncio.to_thread(blocked.wait, 60)
            jobs = [store.write(add_log("one")), store.write(fail), store.write(add_log("two"))]
            waiting = [asyncio.ensure_future(job) for job in jobs]
            await asyncio.sleep(0)
            go.set()
            await held
            return await asyncio.gather(*waiting, return_exceptions=True)

        answers = asyncio.run(group())
        assert isinstance(answers[1], ValueError)
        assert lines(store) == ["one", "two"]
        store.close()

    def test_a_group_shares_one_commit(self, tmp_path: Path) -> None:
        store = Store(tmp_path / "a.db")
        commits = []
        store._db.set_trace_callback(lambda statement: commits.append(statement) if statement == "COMMIT" else None)
        blocked, go = threading.Event(), threading.Event()

        def hold(_tx: Tx) -> None:
            blocked.set()
            go.wait(60)

        async def group() -> None:
            held = asyncio.ensure_future(store.write(hold))
            await asyncio.to_thread(blocked.wait, 60)
            waiting = [asyncio.ensure_future(store.write(add_log(str(n)))) for n in range(50)]
            await asyncio.sleep(0)
            go.set()
            await asyncio.gather(held, *waiting)

        asyncio.run(group())
        assert len(commits) == 2
        store.close()

    @pytest.mark.parametrize(("work", "order"), [(1, ["reports", "poll"]), (50, ["poll", "reports"])])
    def test_a_poll_goes_before_much_work_that_came_with_it(self, tmp_path: Path, work: int, order: list[str]) -> None:
        store = Store(tmp_path / "a.db")
        blocked, go, done = threading.Event(), threading.Event(), list[str]()

        def hold(_tx: Tx) -> None:
            blocked.set()
            go.wait(60)

        async def group() -> None:
            held = asyncio.ensure_future(store.write(hold))
            await asyncio.to_thread(blocked.wait, 60)
            reports = asyncio.ensure_future(store.write(lambda _tx: done.append("reports"), work=work))
            poll = asyncio.ensure_future(store.write(lambda _tx: done.append("poll"), work=0))
            await asyncio.sleep(0)
            go.set()
            await asyncio.gather(held, reports, poll)

        asyncio.run(group())
        assert done == order
        store.close()

    def test_a_job_that_fails_leaves_nothing_behind(self, tmp_path: Path) -> None:
        store = Store(tmp_path / "a.db")
        statements: list[str] = []
        store._db.set_trace_callback(statements.append)

        def fail(tx: Tx) -> None:
            tx.run(ADD_LOG, "task", 0, "lost")
            raise ValueError("no")

        with pytest.raises(ValueError, match="no"):
            store.call(fail)
        store.call(add_log("kept"))
        assert lines(store) == ["kept"]
        # The failed job was undone with its transaction, then tried again with a savepoint.
        assert [statement for statement in statements if statement.startswith("SAVEPOINT")] == ["SAVEPOINT part"]
        store.close()

    def test_a_group_in_which_one_fails_half_way_is_run_again_and_only_that_one_is_undone(self, tmp_path: Path) -> None:
        store = Store(tmp_path / "a.db")
        runs: list[str] = []

        def add(line: str, error: Exception | None = None) -> Callable[[Tx], str]:
            def run(tx: Tx) -> str:
                runs.append(line)
                tx.run(ADD_LOG, "task", 0, line)
                if error is not None:
                    raise error
                return line

            return run

        one, two, three = together(store, add("one"), add("two", ValueError("no")), add("three"))
        assert (one, three) == ("one", "three")
        assert isinstance(two, ValueError)
        assert lines(store) == ["one", "three"]
        assert runs == ["one", "two", "one", "two", "three"]
        store.close()

    def test_a_job_refused_before_it_changed_anything_reruns_no_other(self, tmp_path: Path) -> None:
        store = Store(tmp_path / "a.db")
        runs: list[str] = []

        def add(tx: Tx) -> None:
            runs.append("add")
            tx.run(ADD_LOG, "task", 0, "kept")

        def refuse(_tx: Tx) -> None:
            runs.append("refuse")
            raise not_found("no such thing")

        added, refused = together(store, add, refuse)
        assert added is None
        assert isinstance(refused, ApiError)
        assert runs == ["add", "refuse"]
        assert lines(store) == ["kept"]
        store.close()

    def test_notes_of_a_failed_caller_are_not_told(self, tmp_path: Path) -> None:
        store = Store(tmp_path / "a.db")
        told: list[Any] = []
        store.on_commit = told.append

        def fail(tx: Tx) -> None:
            tx.notes.add_ready("work", "")
            raise ValueError

        with pytest.raises(ValueError):
            store.call(fail)
        store.call(lambda tx: tx.notes.add_ready("other", ""))
        assert [notes.ready for notes in told] == [{("other", ""): 1}]
        store.close()

    def test_a_disk_that_refuses_is_an_error_for_everyone_of_the_group_and_the_store_lives_on(
        self, tmp_path: Path
    ) -> None:
        store = Store(tmp_path / "a.db")
        store._db.execute("PRAGMA query_only = 1")
        with pytest.raises(StoreError, match="could not be written"):
            store.call(add_log("lost"))
        store._db.execute("PRAGMA query_only = 0")
        store.call(add_log("kept"))
        assert lines(store) == ["kept"]
        store.close()

    def test_a_refused_statement_is_its_callers_alone(self, tmp_path: Path) -> None:
        store = Store(tmp_path / "a.db")
        store.call(lambda tx: tx.run(ADD_QUEUE, 1, ""))
        with pytest.raises(StoreError, match="rejected a statement"):
            store.call(lambda tx: tx.run(ADD_QUEUE, 1, ""))
        store.call(add_log("kept"))
        assert lines(store) == ["kept"]
        store.close()

    def test_an_empty_transaction_writes_nothing(self, tmp_path: Path) -> None:
        store = Store(tmp_path / "a.db")
        before = (tmp_path / "a.db-wal").stat()
        for _ in range(10):
            store.call(lambda tx: tx.first(NEAREST_WAKE))
        after = (tmp_path / "a.db-wal").stat()
        assert (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns)
        store.close()

    def test_after_close_callers_get_an_error(self, tmp_path: Path) -> None:
        store = Store(tmp_path / "a.db")
        store.close()
        store.close()
        with pytest.raises(StoreClosed):
            store.call(add_log("late"))

    def test_a_read_sees_the_last_commit_and_cannot_write(self, tmp_path: Path) -> None:
        store = Store(tmp_path / "a.db")
        store.call(add_log("one"))

        async def read() -> None:
            assert await store.read(lambda tx: tx.rows(NEWEST_LOGS, "task")[::-1]) == [("one", 0)]
            with pytest.raises(sqlite3.OperationalError):
                await store.read(add_log("two"))

        asyncio.run(read())
        store.close()


class TestRefusals:
    def test_two_coordinators_on_one_file(self, tmp_path: Path) -> None:
        store = Store(tmp_path / "a.db")
        with pytest.raises(StoreRefused, match="in use by another coordinator"):
            Store(tmp_path / "a.db")
        store.close()
        Store(tmp_path / "a.db").close()

    def test_a_database_of_another_program(self, tmp_path: Path) -> None:
        with sqlite3.connect(tmp_path / "a.db") as other:
            other.execute("CREATE TABLE mine (x)")
        other.close()
        before = (tmp_path / "a.db").read_bytes()
        with pytest.raises(StoreRefused, match="another program"):
            Store(tmp_path / "a.db")
        assert (tmp_path / "a.db").read_bytes() == before

    def test_a_file_that_is_no_database(self, tmp_path: Path) -> None:
        (tmp_path / "a.db").write_text("shopping list: " + "apples " * 1000)
        with pytest.raises(StoreRefused, match="not a usable database"):
            Store(tmp_path / "a.db")

    def test_a_file_of_a_newer_version_is_refused(self, tmp_path: Path) -> None:
        Store(tmp_path / "a.db").close()
        with sqlite3.connect(tmp_path / "a.db") as other:
            other.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
        other.close()
        with pytest.raises(StoreRefused, match=f"newer release .schema {SCHEMA_VERSION + 1}"):
            Store(tmp_path / "a.db")

    def test_a_damaged_file_is_refused(self, tmp_path: Path) -> None:
        store = Store(tmp_path / "a.db")
        for n in range(300):
            store.call(add_log("x" * 1000 + str(n)))
        store.close()
        data = bytearray((tmp_path / "a.db").read_bytes())
        middle = len(data) // 2
        data[middle : middle + 20_000] = os.urandom(20_000)
        (tmp_path / "a.db").write_bytes(data)
        with pytest.raises(StoreRefused, match="damaged|not a usable database"):
            Store(tmp_path / "a.db")

    def test_a_directory_that_does_not_exist(self, tmp_path: Path) -> None:
        with pytest.raises(StoreRefused, match="cannot open .*No such file"):
            Store(tmp_path / "nowhere" / "a.db")

    def test_our_files_say_so(self, tmp_path: Path) -> None:
        Store(tmp_path / "a.db").close()
        with sqlite3.connect(tmp_path / "a.db") as other:
            assert other.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
            assert other.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)
        other.close()


def test_kill_9_loses_nothing_that_was_answered(tmp_path: Path) -> None:
    program = dedent("""
        import sys
        from conductor.coordinator.store.statements import ADD_LOG
        from conductor.coordinator.store.writer import Store
        store = Store(sys.argv[1])
        n = 0
        while True:
            store.call(lambda tx: tx.run(ADD_LOG, "task", 0, str(n)))
            print(n, flush=True)
            n += 1
    """)
    child = subprocess.Popen([sys.executable, "-c", program, str(tmp_path / "a.db")], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    answered = [int(child.stdout.readline()) for _ in range(50)]
    child.send_signal(signal.SIGKILL)
    answered += [int(line) for line in child.stdout.read().split("\n") if line]
    child.wait()
    child.stdout.close()
    store = Store(tmp_path / "a.db")
    assert {str(n) for n in answered} <= set(lines(store))
    store.close()


class TestIds:
    ids = Ids(b"secret")

    def test_an_id_is_encoded_and_decoded(self) -> None:
        for pk in (1, 255, 2**40):
            assert self.ids.task_pk(self.ids.task(pk)) == pk
            assert self.ids.workflow_pk(self.ids.workflow(pk)) == pk

    def test_an_id_of_one_kind_is_not_an_id_of_another(self) -> None:
        assert self.ids.task_pk(self.ids.workflow(7)) is None

    def test_ids_of_another_file_are_unknown(self) -> None:
        assert self.ids.task_pk(Ids(b"other").task(7)) is None

    @pytest.mark.parametrize("text", ["", None, "nope", "00000000-0001-8000-8000-000000000000", "é" * 36])
    def test_a_text_that_is_not_an_id_is_unknown(self, text: str | None) -> None:
        assert self.ids.task_pk(text) is None

    def test_a_lease_belongs_to_its_task(self) -> None:
        lease = self.ids.lease(7, 3)
        assert self.ids.lease_no(7, lease) == 3
        assert self.ids.lease_no(8, lease) is None
        assert self.ids.lease_no(7, "x") is None
        assert self.ids.lease_no(7, "-1-00") is None


def test_a_database_without_a_name_is_refused() -> None:
    with pytest.raises(StoreRefused, match="no name"):
        Store("")


@pytest.mark.parametrize(
    "statement", [row_cache._SELECT_PENDING_TASKS.format("?"), STATEMENTS["open tasks of workflow"]]
)
def test_the_reads_of_a_decision_do_not_grow_with_finished_tasks(statement: str) -> None:
    with closing(sqlite3.connect(":memory:")) as db:
        db.executescript(SCHEMA)
        (first, *_) = db.execute(f"EXPLAIN QUERY PLAN {statement}", (1,)).fetchall()
    assert "USING INDEX task_pending (workflow=?)" in first[3]


def test_the_holders_of_leases_are_read_from_held_tasks_alone() -> None:
    with closing(sqlite3.connect(":memory:")) as db:
        db.executescript(SCHEMA)
        plan = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {STATEMENTS['open leases']}", (1,))]
    assert "SCAN task USING INDEX task_leased" in plan
