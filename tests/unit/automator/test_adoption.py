"""The journal of a dead process, in the hands of one that may die too."""

from __future__ import annotations

from pathlib import Path

from conductor.client.automator.journal import Entry, Journal


def left_behind(directory: Path, *report_ids: str) -> None:
    """Results without a verdict, of a process that is gone."""
    journal = Journal(directory, "http://server/api", max_bytes=1 << 20)
    journal.open()
    for report_id in report_ids:
        assert journal.put(Entry(report_id, f"task of {report_id}", "job", "COMPLETED", 1))
    journal.close()


def test_a_result_with_its_verdict_is_not_adopted_again(tmp_path: Path) -> None:
    left_behind(tmp_path, "a", "b", "c")
    heir = Journal(tmp_path, "http://server/api", max_bytes=1 << 20)
    (file,) = heir.adopt()
    first, second, _ = file.entries
    file.done(second)
    assert [entry.report_id for entry in file.entries] == ["a", "c"]
    file.release()  # as the kernel does for a process that dies
    (again,) = heir.adopt()
    assert [entry.report_id for entry in again.entries] == ["a", "c"]
    again.done(first)
    again.done(first)
    assert [entry.report_id for entry in again.entries] == ["c"]
    again.release()
