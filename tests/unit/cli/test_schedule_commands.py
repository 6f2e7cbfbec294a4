"""`conductor-worker schedule`: workflows that a server starts on a schedule."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from conductor.cli.command_line import run_command
from conductor.client.configuration.configuration import Configuration
from conductor.client.http.models.cron_schedule import CronSchedule
from conductor.client.http.models.save_schedule_request import SaveScheduleRequest
from conductor.client.http.models.start_workflow_request import StartWorkflowRequest
from conductor.client.scheduler_client import SchedulerClient
from conductor.coordinator import Coordinator
from tests.unit.cli.server_client import Client, simple

NEW_YEAR = "0 0 0 1 1 *"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with Coordinator() as coordinator:
        monkeypatch.setenv("CONDUCTOR_SERVER_URL", coordinator.url)
        yield coordinator.url


@pytest.mark.usefixtures("server")
class TestSchedule:
    def test_a_schedule_is_added_listed_shown_and_removed(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run_command(["schedule", "list"]) == 0
        assert run_command(["schedule", "add", "party", "fireworks", NEW_YEAR, "--zone", "Europe/Berlin"]) == 0
        assert run_command(["schedule", "list"]) == 0
        assert run_command(["schedule", "show", "party"]) == 0
        assert run_command(["schedule", "remove", "party"]) == 0
        assert run_command(["schedule", "list"]) == 0
        nothing, added, head, listed, _, shown, removed, again = capsys.readouterr().out.splitlines()
        assert nothing == again == "There are no schedules."
        assert added.startswith("party: saved, due at ")
        assert added.endswith("-01-01 00:00:00 Europe/Berlin")
        assert head.split() == ["schedule", "workflow", "cron", "zone", "next"]
        assert listed.split()[:2] == ["party", "fireworks"]
        assert "Europe/Berlin" in listed
        assert shown == listed
        assert removed == "party: removed"

    def test_a_schedule_is_paused_with_a_reason_and_resumed(self, capsys: pytest.CaptureFixture[str]) -> None:
        run_command(["schedule", "add", "party", "fireworks", NEW_YEAR])
        assert run_command(["schedule", "pause", "party", "--reason", "rain"]) == 0
        assert run_command(["schedule", "list"]) == 0
        assert run_command(["schedule", "resume", "party"]) == 0
        _, paused, _, listed, resumed = capsys.readouterr().out.splitlines()
        assert paused == "party: paused"
        assert listed.rstrip().endswith("PAUSED rain")
        assert resumed.startswith("party: resumed, due at ")

    def test_a_schedule_of_several_expressions_has_a_line_for_each(
        self, server: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        crons = [CronSchedule(cron_expression=NEW_YEAR), CronSchedule(cron_expression="@daily", zone_id="Asia/Tokyo")]
        asked = SaveScheduleRequest(
            name="party", cron_schedules=crons, start_workflow_request=StartWorkflowRequest(name="fireworks")
        )
        with SchedulerClient(Configuration(server)) as scheduler:
            scheduler.save_schedule(asked)
        assert run_command(["schedule", "list"]) == 0
        _, first, second = capsys.readouterr().out.splitlines()
        assert NEW_YEAR in first
        assert second.split() == ["@daily", "Asia/Tokyo"]

    def test_schedule_commands_write_json_for_programs(self, capsys: pytest.CaptureFixture[str]) -> None:
        asked = [
            "add",
            "party",
            "fireworks",
            NEW_YEAR,
            "--version",
            "2",
            "--input",
            '{"a": 1}',
            "--catch-up",
            "--paused",
        ]
        for words in (asked, ["list"], ["list", "--workflow", "other"], ["show", "party"], ["resume", "party"]):
            assert run_command(["schedule", *words, "--json"]) == 0
        added, listed, others, shown, resumed = map(json.loads, capsys.readouterr().out.splitlines())
        assert listed == [added]
        assert others == []
        assert shown == {**added, "runs": []}
        assert (added["paused"], resumed["paused"]) == (True, False)
        assert added["runCatchupScheduleInstances"] is True
        assert added["startWorkflowRequest"]["input"] == {"a": 1}
        assert added["startWorkflowRequest"]["version"] == 2

    @pytest.mark.parametrize(
        ("words", "why"),
        [
            (["add", "s", "w", "* * * * *"], "has 5 fields, not 6"),
            (["add", "s", "w", NEW_YEAR, "--zone", "Mars/One"], "unknown time zone 'Mars/One'"),
            (["add", "s", "w", NEW_YEAR, "--input", "[1]"], "--input must be a JSON object, not [1]"),
            (["add", "s", "w", NEW_YEAR, "--input", "{"], "--input is not JSON"),
            (["show", "nope"], "Schedule 'nope' not found"),
            (["pause", "nope"], "Schedule 'nope' not found"),
            (["remove", "nope"], "Schedule 'nope' not found"),
        ],
    )
    def test_schedule_commands_say_what_was_refused_in_one_line(
        self, capsys: pytest.CaptureFixture[str], words: list[str], why: str
    ) -> None:
        assert run_command(["schedule", *words]) == 2
        said = capsys.readouterr()
        assert (said.out, len(said.err.splitlines())) == ("", 1)
        assert why in said.err


def test_a_server_that_is_not_there_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["schedule", "list", "--url", "http://127.0.0.1:1/api"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "http://127.0.0.1:1/api cannot be reached: no connection" in line
    assert "Start a server with `conductor-worker serve`" in line


@pytest.mark.usefixtures("server")
def test_a_schedule_for_an_unknown_workflow_is_saved_with_a_warning_u1_12(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["schedule", "add", "party", "fireworks", NEW_YEAR]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("party: saved")
    assert printed.err.startswith("warning: schedule party: there is no workflow 'fireworks'")


def test_a_schedule_is_run_now_with_its_input_u2_13(server: str, capsys: pytest.CaptureFixture[str]) -> None:
    client = Client(server)
    client.register("fireworks", simple("light"))
    assert run_command(["schedule", "add", "party", "fireworks", NEW_YEAR, "--input", '{"colour": "red"}']) == 0
    capsys.readouterr()
    assert run_command(["schedule", "run", "party"]) == 0
    workflow_id = capsys.readouterr().out.strip()
    assert client.ask(f"/workflow/{workflow_id}")["input"] == {"colour": "red"}


@pytest.mark.usefixtures("server")
def test_the_next_run_is_shown_in_the_zone_of_the_schedule_u4_78(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["schedule", "add", "nightly", "any", "0 0 2 * * *", "--zone", "Europe/Berlin"]) == 0
    assert "02:00:00 Europe/Berlin" in capsys.readouterr().out
    assert run_command(["schedule", "list"]) == 0
    assert "02:00:00 Europe/Berlin" in capsys.readouterr().out
