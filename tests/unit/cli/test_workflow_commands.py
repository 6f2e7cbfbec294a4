"""`conductor-worker workflow list`, `show`, `start` and `wait`."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from conductor.cli import workflow_commands
from conductor.cli.workflow_commands import list_remedies
from conductor.common.text import escape
from conductor.coordinator import Coordinator
from conductor.protocol.views import WorkflowEntry
from conductor.protocol.why_waiting import MORE_WORKERS, Waiting
from conductor.testing import ConductorStub
from tests.unit.cli.server_client import EVIL, Client, order, simple, step

FAILED_BECAUSE = "ConnectionError: bank.example refused"


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """A client with an order that waits for a person, a failed one, and one without workers."""
    with Coordinator() as coordinator:
        made = Client(coordinator.url)
        made.ask(
            "/metadata/taskdefs", [{"name": "charge", "retryCount": 1, "retryDelaySeconds": 0, "ownerEmail": "a@b.c"}]
        )
        made.register("order", *order("charge", "pack"))
        made.register("party", *order("party_charge", "party_pack"))
        yield made


@pytest.fixture(scope="module")
def waiting(client: Client) -> str:
    """An order that has come as far as the person it waits for."""
    workflow_id = client.start("order", {"how": "post"}, "order-7")
    while client.work("pack") or client.work("charge"):
        pass
    return workflow_id


@pytest.fixture(scope="module")
def failed(client: Client, waiting: str) -> str:  # noqa: ARG001 - after it: both are worked on by the same queues
    """An order whose card was refused twice."""
    workflow_id = client.start("order", {"how": "fetch"}, "order-8")
    for _ in range(2):
        assert client.work("charge", "FAILED", reasonForIncompletion=FAILED_BECAUSE) == 1
    return workflow_id


@pytest.fixture(scope="module")
def forgotten(client: Client) -> str:
    """An order for which no worker has ever come."""
    return client.start("party", {"how": "dance"})


def lines_of(out: str) -> list[str]:
    return [line.rstrip() for line in out.splitlines()]


class TestShow:
    def test_workflow_show_draws_the_graph_with_each_tasks_state(self, cli: Any, client: Client, waiting: str) -> None:
        ran = cli("workflow", "show", waiting, "--url", client.url)
        assert (ran.status, ran.err.count("\n")) == (0, 1)
        title, ids, why, empty, *graph, _empty, given, command = lines_of(ran.out)
        assert given == 'input: {"how": "post"}'
        assert command == f"conductor-worker task complete {waiting}:okay --output '{{}}'"
        assert title.startswith("◐ RUNNING  order  version 1  for ")
        assert f"id {waiting}, started 2" in ids
        assert ids.endswith("correlation id order-7")
        assert why.startswith("  okay waits for a signal to complete it.")
        assert empty == ""
        assert [line.partition("  0.")[0] for line in graph] == [
            "✓ how  SWITCH  → post  completed",
            "├─ post:",
            "│  ✓ stamp  pack  completed",
            "└─ not taken: fetch, default",
            "✓ split  FORK_JOIN  2 branches  completed",
            "├─ ✓ charge  completed",
            "│  ✓ receipt  pack  completed",
            "└─ ✓ wrap  pack  completed",
            "✓ both  JOIN  completed",
            "✓ rounds  DO_WHILE  iteration 2  completed",
            "↻ ✓ turn  pack  completed",
            "◐ okay  WAIT  in progress  waits for a signal to complete it",
            "· ship  not reached",
        ]

    def test_workflow_show_says_how_it_failed_and_what_to_do(self, cli: Any, client: Client, failed: str) -> None:
        out = cli("workflow", "show", failed, "--url", client.url).out
        assert (
            f"charge is out of retries: attempt 2 of 2 failed: {FAILED_BECAUSE}. Correct the cause of the failure"
            in out
        )
        (line,) = [line for line in lines_of(out) if "─ ✕ charge" in line]
        assert "failed  2 attempts" in line
        assert line.endswith(FAILED_BECAUSE)

    def test_workflow_show_says_why_each_open_task_waits(self, cli: Any, client: Client, forgotten: str) -> None:
        out = cli("workflow", "show", forgotten, "--url", client.url).out
        assert "no worker has polled party_charge since the server started" in out
        assert "Start a worker that polls party_charge" in out
        assert "◐ both  JOIN  in progress  joins on receipt, wrap" in out

    def test_workflow_show_writes_json_for_programs(self, cli: Any, client: Client, failed: str) -> None:
        found = json.loads(cli("workflow", "show", failed, "--json", "--url", client.url).out)
        assert found["workflow"]["status"] == "FAILED"
        assert found["workflow"]["workflowDefinition"]["name"] == "order"
        assert found["waiting"]["kind"] == "failed"
        assert [task["status"] for task in found["tasks"] if task["ref"] == "charge"] == ["FAILED", "FAILED"]
        assert found["cannotTell"] == []

    def test_workflow_show_folds_wide_forks_with_the_interesting_branches_first(self, cli: Any, client: Client) -> None:
        names = [simple("wide", f"image_{number}") for number in range(40)]
        fork = {"dynamicForkTasksParam": "tasks", "dynamicForkTasksInputParamName": "inputs"}
        given = {"inputParameters": {"tasks": names, "inputs": {}}}
        client.register("wide", step("FORK_JOIN_DYNAMIC", "fork", **fork, **given), step("JOIN", "join"))
        workflow_id = client.start("wide")
        client.work("wide", count=30)
        client.work("wide", "IN_PROGRESS", callbackAfterSeconds=600)
        lines = lines_of(cli("workflow", "show", workflow_id, "--url", client.url).out)[4:-2]
        assert lines[0] == "✓ fork  FORK_JOIN_DYNAMIC  40 forked  completed"
        assert len(lines) == 6, lines
        assert "was postponed by its worker until" in lines[1] + lines[2] + lines[3] or "IN_PROGRESS" in lines[1]
        assert lines[4] == "└─ … 37 more branches; all 40: " + lines[4].partition("all 40: ")[2]
        assert "30 ✓ completed" in lines[4]
        assert lines[5].startswith("◐ join  JOIN  in progress  joins on ")

    def test_data_cannot_send_control_sequences_to_the_terminal(self, cli: Any, client: Client) -> None:
        client.register(EVIL, simple(EVIL))
        workflow_id = client.start(EVIL, correlation_id=EVIL)
        for arguments in (["show", workflow_id], ["list", "--name", EVIL]):
            out = cli("workflow", *arguments, "--url", client.url).out
            assert escape(EVIL) in out
            assert all(char.isprintable() or char == "\n" for char in out)

    def test_an_id_that_is_none(self, cli: Any, client: Client) -> None:
        ran = cli("workflow", "show", "\x1b[31mnope", "--url", client.url)
        assert (ran.status, ran.out) == (2, "")
        hint = "`conductor-worker workflow list` prints the ids"
        assert ran.err == f"conductor-worker: No such workflow found by id: \\x1b[31mnope. {hint}\n"


def test_workflow_list_says_what_helps_if_all_workers_are_busy_u3_8() -> None:
    def entry(ref: str, remedy: str | None, status: str = "RUNNING") -> WorkflowEntry:
        waiting = Waiting(kind="busy", sentence="waits", remedy=remedy, ref=ref)
        return WorkflowEntry(workflow_id="w", name="trip", version=1, status=status, start_time=1, waiting=waiting)

    busy = [entry(ref, MORE_WORKERS) for ref in ("drive", "drive", "fly", "sail", "walk")]
    assert list_remedies([*busy, entry("a", None), entry("b", "Retry it.", "FAILED")]) == [
        "drive, fly, sail, ...: If this lasts, raise thread_count of the worker, or start another worker."
    ]
    many = [entry(f"step_{number}", f"Start worker {number}.") for number in range(5)]
    assert list_remedies(many)[2:] == [
        "step_2: Start worker 2.",
        "`conductor-worker workflow show ID` prints the remedies of the others.",
    ]


@pytest.mark.usefixtures("waiting", "failed", "forgotten")
class TestList:
    def rows(self, cli: Any, client: Client, *arguments: str) -> list[dict[str, Any]]:
        ran = cli("workflow", "list", "--json", "--url", client.url, *arguments)
        assert (ran.status, ran.err) == (0, "")
        found: list[dict[str, Any]] = json.loads(ran.out)
        return found

    def test_workflow_list_has_a_line_for_each_with_why(
        self, cli: Any, client: Client, waiting: str, failed: str
    ) -> None:
        head, *lines = lines_of(cli("workflow", "list", "--name", "order", "--url", client.url).out)
        assert head.split() == ["status", "workflow", "id", "started", "took", "correlation", "id", "why"]
        assert lines[0].startswith(f"✕ FAILED   order v1  {failed}  ")
        assert lines[0].endswith(FAILED_BECAUSE)
        assert lines[1].startswith(f"◐ RUNNING  order v1  {waiting}  ")
        assert lines[1].endswith("okay waits for a signal to complete it")

    def test_workflow_list_says_what_helps_those_that_wait_u3_8(self, cli: Any, client: Client) -> None:
        err = cli("workflow", "list", "--url", client.url).err
        assert ": Start a worker that polls party_charge, without a domain.\n" in err
        assert "\nokay: Complete or fail it in the web UI, or by its task id.\n" in err
        assert "Correct the cause" not in err, "nothing waits in the failed one"

    def test_workflow_list_filters(self, cli: Any, client: Client, waiting: str, failed: str, forgotten: str) -> None:
        def ids(*arguments: str) -> list[str]:
            return [row["workflowId"] for row in self.rows(cli, client, *arguments)]

        assert ids("--name", "party") == [forgotten]
        assert ids("--status", "failed,terminated") == [failed]
        assert ids("--name", "order", "--status", "RUNNING", "--status", "PAUSED") == [waiting]
        assert ids("--correlation-id", "order-8") == [failed]
        assert ids("--correlation-id", "order-") == [], "not a part of one"
        assert ids("--text", "ORDER-") == [failed, waiting]
        assert ids("--text", waiting) == [waiting]
        assert ids("--text", "order-7", "--correlation-id", "order-8") == []
        assert ids("--name", "order", "--since", "1h") == [failed, waiting]
        assert ids("--since", "2100-01-01") == []
        assert ids("--size", "1", "--name", "order") == [failed]

    def test_workflow_list_says_that_there_are_more_or_none(self, cli: Any, client: Client) -> None:
        out = cli("workflow", "list", "--size", "1", "--url", client.url).out
        assert lines_of(out)[-1] == "The newest 1: --size shows more."
        assert cli("workflow", "list", "--name", "x", "--url", client.url).out == "There are no such workflows.\n"

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["--status", "BROKEN"], "--status: 'BROKEN' is not one of COMPLETED, FAILED"),
            (["--since", "soon"], "--since: 'soon' is not a time; use 30s, 15m, 2h"),
            (["--size", "0"], "--size"),
        ],
    )
    def test_workflow_list_refuses_bad_questions(
        self, cli: Any, client: Client, arguments: list[str], said: str
    ) -> None:
        ran = cli("workflow", "list", *arguments, "--url", client.url)
        assert (ran.status, ran.out, ran.err.count("\n")) == (2, "", 1)
        assert said in ran.err

    def test_a_server_that_is_not_there(self, cli: Any) -> None:
        ran = cli("workflow", "list", "--json", "--url", "http://127.0.0.1:1")
        assert (ran.status, ran.out, ran.err.count("\n")) == (2, "", 1)
        assert "127.0.0.1:1" in ran.err

    def test_a_server_without_workflows(self, cli: Any, conductor_stub: ConductorStub) -> None:
        ran = cli("workflow", "list", "--url", conductor_stub.url)
        assert (ran.status, ran.err.count("\n")) == (2, 1)


class TestStartAndWait:
    @pytest.fixture(autouse=True)
    def registered(self, client: Client) -> None:
        client.register("short", simple("short"))

    def test_start_prints_the_id(self, cli: Any, client: Client) -> None:
        ran = cli("workflow", "start", "short", "--input", '{"a": 1}', "--correlation-id", "mine", "--url", client.url)
        assert (ran.status, ran.err.startswith("Web UI: ")) == (0, True)
        found = client.ask(f"/workflow/{ran.out.strip()}")
        assert (found["input"], found["correlationId"]) == ({"a": 1}, "mine")
        assert client.work("short") == 1

    def test_input_from_a_file_and_its_end(self, cli: Any, client: Client, place: Any) -> None:
        (place / "input.json").write_text('{"b": [2]}')
        worker = threading.Thread(target=lambda: _work_until_done(client, outputData={"c": 3}))
        worker.start()
        ran = cli("workflow", "start", "short", "--input", "@input.json", "--wait", "--json", "--url", client.url)
        worker.join()
        (ended,) = json.loads(ran.out)
        assert (ran.status, ended["status"]) == (0, "COMPLETED")
        assert client.ask(f"/workflow/{ended['workflowId']}")["input"] == {"b": [2]}

    def test_waiting_for_one_that_fails_is_status_1(self, cli: Any, client: Client) -> None:
        good, bad = client.start("short"), client.start("short")
        client.work("short")
        client.work("short", "FAILED_WITH_TERMINAL_ERROR", reasonForIncompletion=EVIL)
        ran = cli("workflow", "wait", good, bad, good, "--url", client.url)
        assert ran.status == 1
        assert sorted(ran.out.splitlines()) == sorted([f"{good}: COMPLETED", *_failed(ran.out, bad)])
        assert cli("workflow", "wait", good, "--url", client.url).status == 0

    def test_waiting_for_a_workflow_has_a_time_limit(self, cli: Any, client: Client) -> None:
        workflow_id = client.start("short")
        ran = cli("workflow", "wait", workflow_id, "--timeout", "0.1", "--url", client.url)
        assert (ran.status, ran.out) == (1, f"{workflow_id}: RUNNING after 0.1 s\n")
        assert client.work("short") == 1

    def test_mistakes_of_workflow_start_are_one_line(self, cli: Any, client: Client) -> None:
        for arguments, said in (
            (["start", "short", "--input", "{name: 5}"], """write for example '{"name": "Ada", "count": 2}'"""),
            (["start", "short", "--input", "[1]"], "--input must be a JSON object, not [1]"),
            (["start", "short", "--input", "@no.json"], "--input @no.json: No such file"),
            (["start", "absent"], "absent"),
            (["start", "short", "--timeout", "3"], "--timeout needs --wait"),
            (["wait", "nope"], "No such workflow found by id: nope"),
        ):
            ran = cli("workflow", *arguments, "--url", client.url)
            assert (ran.status, ran.out, ran.err.count("\n")) == (2, "", 1)
            assert said in ran.err


class TestStartWithAFile:
    @pytest.fixture(autouse=True)
    def registered(self, client: Client) -> None:
        client.register("many", simple("many"))

    def start(self, cli: Any, client: Client, *arguments: str) -> Any:
        return cli("workflow", "start", "many", "--input-file", "many.jsonl", *arguments, "--url", client.url)

    def test_workflow_start_with_a_file_starts_a_workflow_for_each_line_and_shows_progress(
        self, cli: Any, client: Client, place: Any
    ) -> None:
        (place / "many.jsonl").write_text("".join(f'{{"n": {n}}}\n\n' for n in range(1200)))
        ran = self.start(cli, client, "--correlation-id", "mine")
        ids = ran.out.split()
        assert (ran.status, len(set(ids))) == (0, 1200)
        assert ran.err.splitlines() == ["Started 1,000 of 1,200", "Started 1,200 of 1,200"]
        found = client.ask(f"/workflow/{ids[1100]}")
        assert (found["input"], found["correlationId"]) == ({"n": 1100}, "mine")

    def test_names_bad_lines_before_anything_is_started(self, cli: Any, client: Client, place: Any) -> None:
        before = client.ask("/tasks/queue/sizes?taskType=many")
        (place / "many.jsonl").write_text('{"n": 1}\n{"n":\n\n[4]\n{"n": 5}\n')
        ran = self.start(cli, client)
        assert (ran.status, ran.out, ran.err.count("\n")) == (2, "", 1)
        assert "nothing was started: line 2: not JSON" in ran.err
        assert "line 4: not a JSON object" in ran.err
        assert client.ask("/tasks/queue/sizes?taskType=many") == before

    def test_workflow_start_with_a_file_can_be_repeated_with_a_key_in_each_line(
        self, cli: Any, client: Client, place: Any
    ) -> None:
        (place / "many.jsonl").write_text('{"order": "a1"}\n{"order": 7}\n')
        first = self.start(cli, client, "--idempotency-field", "order")
        again = self.start(cli, client, "--idempotency-field", "order")
        assert first.status == 0
        assert again.out == first.out
        (place / "many.jsonl").write_text('{"order": "a1"}\n{}\n')
        ran = self.start(cli, client, "--idempotency-field", "order")
        assert (ran.status, "line 2: field 'order'" in ran.err) == (2, True)

    def test_names_the_lines_that_the_server_refuses(self, cli: Any, client: Client, place: Any) -> None:
        (place / "many.jsonl").write_text('{"n": 1}\n\n{"n": 2}\n')
        ran = self.start(cli, client, "--version", "9", "--json")
        assert ran.status == 1
        assert [(one["line"], "No such workflow" in one["error"]) for one in json.loads(ran.out)] == [
            (1, True),
            (3, True),
        ]
        assert "line 3: not started: No such workflow" in ran.err

    def test_mistakes_of_starting_from_a_file_are_one_line(self, cli: Any, client: Client, place: Any) -> None:
        (place / "many.jsonl").write_text("\n")
        for arguments, said in (
            ([], "many.jsonl has no lines"),
            (["--wait"], "--input-file cannot be combined with"),
            (["--input", '{"a": 1}'], "--input-file cannot be combined with"),
            (["--input-file", "absent.jsonl"], "--input-file absent.jsonl: No such file"),
        ):
            ran = self.start(cli, client, *arguments)
            assert (ran.status, ran.out, ran.err.count("\n")) == (2, "", 1)
            assert said in ran.err
        ran = cli("workflow", "start", "many", "--idempotency-field", "order", "--url", client.url)
        assert (ran.status, "--idempotency-field needs --input-file" in ran.err) == (2, True)


def _work_until_done(client: Client, **more: Any) -> None:
    for _ in range(600):  # a minute: each poll waits for 100 ms
        if client.work("short", **more):
            return


def _failed(out: str, workflow_id: str) -> list[str]:
    """The line about that one, which says what its worker said and nothing that drives a terminal."""
    (line,) = [line for line in out.splitlines() if line.startswith(f"{workflow_id}: FAILED: ")]
    assert "evil\\x1b[2J\\x07 [red]" in line
    return [line]


def test_start_names_a_similar_workflow_or_the_versions_u2_15_u4_44(client: Client, cli: Any) -> None:
    wrong = cli("workflow", "start", "ordre", "--url", client.url)
    assert (wrong.status, wrong.err) == (
        2,
        "conductor-worker: there is no workflow 'ordre'; did you mean 'order'?\n",
    )
    newer = cli("workflow", "start", "order", "--version", "9", "--url", client.url)
    assert newer.err == "conductor-worker: workflow 'order' has no version 9; it has 1\n"


def test_start_with_wait_and_show_print_input_output_and_the_web_ui_u2_6(client: Client, cli: Any) -> None:
    answer = {"inputParameters": {"expression": "'hi ' + $.name", "name": "${workflow.input.name}"}}
    client.register("echo", step("INLINE", "say", **answer))
    ran = cli("workflow", "start", "echo", "--input", '{"name": "Ada"}', "--wait", "--url", client.url)
    workflow_id = ran.out.splitlines()[0]
    assert ran.out.splitlines()[1:] == [f"{workflow_id}: COMPLETED", 'output: {"result": "hi Ada"}']
    address = f"Web UI: {client.url.removesuffix('/api')}/execution/{workflow_id}\n"
    assert ran.err == address
    for more in ([], ["--follow"]):
        shown = cli("workflow", "show", workflow_id, "--url", client.url, *more)
        assert 'input: {"name": "Ada"}\noutput: {"result": "hi Ada"}\n' in shown.out
        assert shown.err == address


def test_show_prints_the_command_that_completes_a_waiting_task_u2_7(client: Client, waiting: str, cli: Any) -> None:
    shown = cli("workflow", "show", waiting, "--url", client.url)
    assert f"conductor-worker task complete {waiting}:okay --output '{{}}'" in shown.out


def test_delete_removes_ended_workflows_only_u2_13(client: Client, cli: Any) -> None:
    client.register("short", step("WAIT", "pause"))
    workflow_id = client.start("short")
    refused = cli("workflow", "delete", workflow_id, "--url", client.url)
    assert (refused.status, "because it is RUNNING" in refused.out) == (1, True)
    cli("workflow", "terminate", workflow_id, "--url", client.url)
    assert cli("workflow", "delete", workflow_id, "--url", client.url).out == f"{workflow_id}: deleted\n"
    assert cli("workflow", "show", workflow_id, "--url", client.url).status == 2


def test_definitions_lists_what_is_registered_u2_13(client: Client, cli: Any) -> None:
    ran = cli("workflow", "definitions", "--url", client.url)
    assert [line.split()[:2] for line in lines_of(ran.out)[:1]] == [["workflow", "version"]]
    assert any(line.split()[:2] == ["order", "1"] for line in lines_of(ran.out))


def test_wait_explains_what_the_workflow_waits_for(client: Client, cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workflow_commands, "EXPLAIN_AFTER_S", 0)
    client.register("unattended", step("SIMPLE", "nobody_polls_this"))
    ran = cli("workflow", "start", "unattended", "--wait", "--timeout", "1", "--url", client.url)
    explanations = [line for line in ran.err.splitlines() if "waits for a worker" in line]
    assert len(explanations) == 1
    assert "Start a worker that polls nobody_polls_this" in explanations[0]
