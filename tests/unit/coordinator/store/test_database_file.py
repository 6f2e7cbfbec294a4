"""The database file: its lock and permissions, incomplete copies, errors, and the marks of a dead process."""

from __future__ import annotations

import logging
import multiprocessing
import os
import shutil
import sqlite3
import stat
from pathlib import Path
from typing import Any

import pytest

from conductor.coordinator.store.database_file import StoreError, StoreRefused
from conductor.coordinator.store.ids import Ids
from conductor.coordinator.store.statements import ADD_LOG, SUSPECTS
from conductor.coordinator.store.writer import Store
from conductor.coordinator.workflows import executions, workflow_actions
from tests.unit.coordinator.core_harness import Harness, simple
from tests.unit.coordinator.decider_harness import task

WAIT = task("w", "WAIT", inputParameters={"duration": "1 seconds"})


class TestPermissions:
    def test_only_the_owner_may_read_the_database(self, tmp_path: Path) -> None:
        before = os.umask(0o022)
        try:
            with Harness(tmp_path / "a.db") as harness:
                harness.start_one()
                modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
        finally:
            os.umask(before)
        assert modes == dict.fromkeys(("a.db", "a.db-shm", "a.db-step", "a.db-wal"), 0o600)

    def test_a_database_that_others_can_read_is_logged(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        Store(tmp_path / "a.db").close()
        (tmp_path / "a.db").chmod(0o644)
        with caplog.at_level(logging.WARNING):
            Store(tmp_path / "a.db").close()
        assert "readable by other users" in caplog.text


class TestOneCoordinatorAtATime:
    @pytest.mark.parametrize("link", ["symlink_to", "hardlink_to"])
    def test_a_second_coordinator_is_refused_under_every_name_of_the_file(self, tmp_path: Path, link: str) -> None:
        store = Store(tmp_path / "a.db")
        getattr(tmp_path / "b.db", link)(tmp_path / "a.db")
        with pytest.raises(StoreRefused, match="in use by another coordinator"):
            Store(tmp_path / "b.db")
        store.close()
        Store(tmp_path / "b.db").close()

    def test_the_lock_is_on_the_database_and_on_no_other_file(self, tmp_path: Path) -> None:
        store = Store(tmp_path / "a.db")
        for path in tmp_path.glob("*.lock"):
            path.unlink()
        with pytest.raises(StoreRefused, match="in use"):
            Store(tmp_path / "a.db")
        store.close()


class TestCopies:
    def test_a_copy_without_its_log_is_mentioned(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        with Harness(tmp_path / "a.db") as harness:
            harness.start_one()
            shutil.copy(tmp_path / "a.db", tmp_path / "copy.db")
        with caplog.at_level(logging.WARNING):
            Harness(tmp_path / "copy.db").close()
        assert "copied while it was in use, without its -wal file" in caplog.text
        assert "conductor-worker backup" in caplog.text

    def test_a_file_that_was_closed_is_whole(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        with Harness(tmp_path / "a.db") as harness:
            harness.start_one()
        shutil.copy(tmp_path / "a.db", tmp_path / "copy.db")
        with caplog.at_level(logging.WARNING), Harness(tmp_path / "copy.db") as harness:
            assert len(harness.poll()) == 1
        assert not caplog.records


class TestErrors:
    def test_a_file_that_cannot_be_opened_is_one_line(self, tmp_path: Path) -> None:
        (tmp_path / "a.db").mkdir()
        with pytest.raises(StoreRefused, match="choose a file that can be written"):
            Store(tmp_path / "a.db")

    def test_a_full_disk_is_named_in_a_savepoint_too(self, tmp_path: Path) -> None:
        store = Store(tmp_path / "a.db")
        pages = store._db.execute("PRAGMA page_count").fetchone()[0]
        store._db.execute(f"PRAGMA max_page_count = {pages + 1}")

        def fill(tx: Any) -> None:
            with tx.savepoint():
                for _ in range(1000):
                    tx.run(ADD_LOG, "task", 0, "x" * 4000)

        with pytest.raises(StoreError, match="full"):
            store.call(fill)
        store.close()


def _decide_and_die(database: Path) -> None:
    """A process whose bug, met in a step of a workflow, kills it."""

    def die(*_: Any, **__: Any) -> Any:
        os._exit(9)

    with Harness(database) as harness:
        executions.decide = die  # type: ignore[attr-defined]
        harness.tick()


class TestCrashMarks:
    """The file must stay usable: a step that ended the process twice is not tried a third time."""

    def test_a_workflow_that_took_the_process_down_twice_is_set_aside(self, tmp_path: Path) -> None:
        database = tmp_path / "a.db"
        with Harness(database) as harness:
            harness.workflow_def("bad", WAIT, simple("never"))
            bad, good = harness.start("bad"), harness.start_one()
            # The process below has a clock of its own: the wait must be over there.
            harness.store.call(lambda tx: tx.select("UPDATE workflow SET wake_at_ms = 1 WHERE wake_at_ms > 1", ()))
            tasks = "UPDATE task SET due_at_ms = 1 WHERE operator = 'WAIT'"
            harness.store.call(lambda tx: tx.select(tasks, ()))
        context = multiprocessing.get_context("fork")
        for _ in range(2):
            process = context.Process(target=_decide_and_die, args=(database,))
            process.start()
            process.join()
            assert process.exitcode == 9
        with Harness(database) as harness:
            harness.tick()
            found = harness.workflow(bad)
            assert found["status"] == "FAILED"
            assert "died 2 times in a row" in found["reasonForIncompletion"]
            assert [one["status"] for one in found["tasks"]] == ["CANCELED"]
            assert [one["workflowInstanceId"] for one in harness.poll()] == [good]
            assert harness.store.call(lambda tx: tx.rows(SUSPECTS)) == []

    def test_a_workflow_is_not_set_aside_after_one_death(self, tmp_path: Path) -> None:
        database = tmp_path / "a.db"
        with Harness(database) as harness:
            workflow = harness.start_one()
            pk = harness.store.ids.workflow_pk(workflow) or 0
        (tmp_path / "a.db-step").write_bytes(pk.to_bytes(8, "little"))
        with Harness(database) as harness:
            assert harness.store.call(lambda tx: tx.rows(SUSPECTS)) == [(pk, 1)]
            harness.report(harness.poll_one())
            assert harness.workflow(workflow)["status"] == "COMPLETED"
            assert harness.store.call(lambda tx: tx.rows(SUSPECTS)) == [], "a step went well: it is no suspect any more"

    def test_no_workflow_is_marked_between_steps(self, tmp_path: Path) -> None:
        with Harness(tmp_path / "a.db") as harness:
            harness.start_one()
            harness.report(harness.poll_one())
            assert (tmp_path / "a.db-step").read_bytes() == bytes(8)


def test_an_older_file_is_brought_to_the_new_schema(tmp_path: Path) -> None:
    """Version 1: other names of columns, and reports in a table of their own."""
    with Harness(tmp_path / "a.db") as harness:
        harness.store.ids = Ids(harness.store.salt)  # ids as they were before epochs
        workflow = harness.start_one()
        held = harness.poll_one()
        harness.report(held, "IN_PROGRESS", reportId="first", callbackAfterSeconds=5)
    db = sqlite3.connect(tmp_path / "a.db")
    db.executescript(
        """
        CREATE TABLE report (task INTEGER, lease_no INTEGER, report_id TEXT, verdict TEXT);
        INSERT INTO report VALUES (1, 1, 'first', 'COMMITTED');
        DROP INDEX task_sub_workflow;
        ALTER TABLE task_data DROP COLUMN definition;
        ALTER TABLE task_data DROP COLUMN reports;
        ALTER TABLE task_data ADD COLUMN more BLOB;
        ALTER TABLE task RENAME COLUMN operator TO kind;
        ALTER TABLE task RENAME COLUMN lease_until_ms TO lease_ms;
        ALTER TABLE task RENAME COLUMN response_timeout_ms TO response_ms;
        ALTER TABLE task RENAME COLUMN poll_timeout_ms TO poll_ms;
        ALTER TABLE task RENAME COLUMN total_timeout_ms TO total_ms;
        ALTER TABLE task RENAME COLUMN ready_since_ms TO ready_ms;
        ALTER TABLE task RENAME COLUMN due_at_ms TO due_ms;
        ALTER TABLE task RENAME COLUMN wake_at_ms TO wake_ms;
        ALTER TABLE task DROP COLUMN former_workers;
        ALTER TABLE workflow RENAME COLUMN wake_at_ms TO wake_ms;
        ALTER TABLE workflow DROP COLUMN traceparent;
        ALTER TABLE workflow DROP COLUMN restless;
        DROP TABLE suspect;
        DROP INDEX workflow_failed;
        DROP TABLE step;
        ALTER TABLE workflow DROP COLUMN has_calls;
        ALTER TABLE task DROP COLUMN step_line;
        ALTER TABLE task DROP COLUMN step_count;
        ALTER TABLE task DROP COLUMN step_bytes;
        ALTER TABLE task DROP COLUMN suspended;
        DROP TABLE epoch;
        DROP TABLE workflow_message;
        ALTER TABLE task DROP COLUMN granted_for;
        DROP TABLE termination;
        DROP TABLE turn;
        DROP TABLE schedule;
        DROP TABLE schedule_due;
        DROP TABLE schedule_run;
        DROP TABLE secret;
        DROP TABLE event_handler;
        DROP TABLE event;
        DROP TABLE api_key;
        DROP TABLE api_key_secret;
        DROP TABLE audit;
        ALTER TABLE workflow_data DROP COLUMN started_by;
        PRAGMA user_version = 1;
        """
    )
    db.close()
    with Harness(tmp_path / "a.db", clock=harness.clock) as newer:
        assert newer.report(held, "IN_PROGRESS", reportId="first").verdict == "COMMITTED", "the same again"
        newer.advance(5)
        newer.report(newer.poll_one())
        assert newer.workflow(workflow)["status"] == "COMPLETED"


class TestOutputOfAWorkflow:
    """The output of a workflow usually is the output of its last task, which is stored once."""

    def test_the_output_of_a_workflow_is_read_from_its_last_task(self, tmp_path: Path) -> None:
        with Harness(tmp_path / "a.db") as harness:
            workflow = harness.start_one()
            harness.report(harness.poll_one(), outputData={"total": 7})
            assert harness.workflow(workflow)["output"] == {"total": 7}
        with Harness(tmp_path / "a.db", clock=harness.clock) as later:
            assert later.workflow(workflow)["output"] == {"total": 7}
        assert _stored_outputs(tmp_path / "a.db") == [None]

    def test_an_output_made_by_the_definition_is_stored(self, tmp_path: Path) -> None:
        with Harness(tmp_path / "a.db") as harness:
            harness.workflow_def("flow", simple("work"), outputParameters={"sum": "${work.output.total}"})
            workflow = harness.start("flow")
            harness.report(harness.poll_one(), outputData={"total": 7})
            assert harness.workflow(workflow)["output"] == {"sum": 7}
        assert _stored_outputs(tmp_path / "a.db") == [b'{"sum":7}']

    def test_a_workflow_that_runs_again_has_its_new_output(self, tmp_path: Path) -> None:
        with Harness(tmp_path / "a.db") as harness:
            workflow = harness.start_one()
            harness.report(harness.poll_one(), outputData={"total": 7})
            harness.act(workflow, workflow_actions.restart)
            assert harness.workflow(workflow)["output"] == {}
            harness.report(harness.poll_one(), outputData={"total": 8})
            assert harness.workflow(workflow)["output"] == {"total": 8}

    def test_a_workflow_that_runs_again_and_ends_at_once_has_its_new_output(self, tmp_path: Path) -> None:
        ends = task("end", "TERMINATE", inputParameters={"terminationStatus": "FAILED", "workflowOutput": {"total": 7}})
        route = task("route", "SWITCH", evaluatorType="value-param", expression="way", defaultCase=[ends])
        route |= {"decisionCases": {"work": [simple("work")]}, "inputParameters": {"way": "${workflow.input.way}"}}
        with Harness(tmp_path / "a.db") as harness:
            harness.workflow_def("flow", route)
            workflow = harness.start("flow", input={"way": "work"})
            harness.report(harness.poll_one(), outputData={"total": 7})
        with Harness(tmp_path / "a.db", clock=harness.clock) as later:
            later.act(workflow, workflow_actions.restart, workflow_input={"way": "end"})
            found = later.workflow(workflow)
            assert (found["status"], found["output"]) == ("FAILED", {"total": 7})

    def test_a_workflow_that_failed_keeps_its_output(self, tmp_path: Path) -> None:
        with Harness(tmp_path / "a.db") as harness:
            workflow = harness.start_one()
            harness.report(harness.poll_one(), "FAILED_WITH_TERMINAL_ERROR", outputData={"total": 7})
            assert harness.workflow(workflow)["output"] == {"total": 7}
        assert _stored_outputs(tmp_path / "a.db") == [b'{"total":7}']

    def test_a_workflow_of_an_older_file_has_its_stored_output(self, tmp_path: Path) -> None:
        with Harness(tmp_path / "a.db") as harness:
            harness.store.ids = Ids(harness.store.salt)  # ids as they were before epochs
            workflow = harness.start_one()
            harness.report(harness.poll_one(), outputData={"total": 7})
        db = sqlite3.connect(tmp_path / "a.db")
        db.executescript("UPDATE workflow_data SET output = CAST('{\"total\":6}' AS BLOB); DROP TABLE epoch;")
        db.executescript("DROP TABLE workflow_message")
        db.executescript("DROP INDEX workflow_failed; ALTER TABLE task DROP COLUMN granted_for; DROP TABLE step")
        db.executescript("ALTER TABLE workflow DROP COLUMN has_calls; ALTER TABLE task DROP COLUMN suspended")
        for column in ("step_line", "step_count", "step_bytes"):
            db.execute(f"ALTER TABLE task DROP COLUMN {column}")
        db.executescript("DROP TABLE api_key; DROP TABLE api_key_secret; DROP TABLE audit")
        db.executescript("ALTER TABLE workflow_data DROP COLUMN started_by")
        db.executescript("DROP TABLE termination; ALTER TABLE event DROP COLUMN actions; PRAGMA user_version = 4;")
        db.close()
        with Harness(tmp_path / "a.db", clock=harness.clock) as newer:
            assert newer.workflow(workflow)["output"] == {"total": 6}


def _stored_outputs(database: Path) -> list[bytes | None]:
    db = sqlite3.connect(database)
    found = [output for (output,) in db.execute("SELECT output FROM workflow_data")]
    db.close()
    return found
