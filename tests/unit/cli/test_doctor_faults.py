"""`conductor-worker doctor` names each fault with its remedy. The faults are real."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from conductor.cli import checks_machine, checks_server, checks_workers, doctor, top
from conductor.cli.server_kind import open_client
from conductor.client.automator.journal import Journal, PendingReport
from conductor.client.automator.process_deaths import DeathRecord, DeathRecords
from conductor.client.configuration.configuration import Configuration
from conductor.common.clock import SYSTEM_CLOCK
from conductor.coordinator import Coordinator
from conductor.protocol.why_waiting import START_AGAIN
from conductor.testing import ConductorStub, Status
from tests.unit.http.certificates import Authority

WORKERS = """
from conductor import worker_task

@worker_task("packed", register_task_def=False)
def packed(box: str, count: int = 1) -> dict:
    return {}
"""


@pytest.fixture(autouse=True)
def _own_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))


@pytest.fixture
def faults(cli: Any) -> Callable[..., dict[str, dict[str, Any]]]:
    """Run the doctor: its faults by name. Each has a remedy, and so does the text for people."""

    def run(*arguments: str) -> dict[str, dict[str, Any]]:
        ran = cli("doctor", *arguments, "--json")
        found = {one["fault"]: one for one in json.loads(ran.out) if one["fault"]}
        assert ran.status == int(any(one["mark"] == "broken" for one in found.values()))
        assert all(one["what"] and one["remedy"] for one in found.values())
        return found

    return run


def test_doctor_says_when_nothing_is_wrong(faults: Any, conductor_stub: ConductorStub) -> None:
    assert faults("--url", conductor_stub.url) == {}


# -- here ---------------------------------------------------------------------------------------------------------


def test_doctor_names_another_package_that_overwrites_ours(
    faults: Any, conductor_stub: ConductorStub, place: Path, monkeypatch: Any
) -> None:
    (place / "conductor_python-2.0.0.dist-info").mkdir()
    (place / "conductor_python-2.0.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: conductor-python\nVersion: 2.0.0\n"
    )
    monkeypatch.setattr(sys, "path", [str(place), *sys.path])
    assert "pip uninstall" in faults("--url", conductor_stub.url)["other-package"]["remedy"]


def test_doctor_names_wrong_settings_and_a_missing_home(
    faults: Any, conductor_stub: ConductorStub, monkeypatch: Any
) -> None:
    monkeypatch.setenv("CONDUCTOR_SERVER_ULR", "x")
    for name in ("CONDUCTOR_WORKER_JOURNAL_DIR", "XDG_STATE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("conductor.cli.checks_machine._try_out", lambda _: None)
    monkeypatch.setattr("conductor.cli.checks_machine.results_waiting", lambda *_: ())
    found = faults("--url", conductor_stub.url)
    assert "CONDUCTOR_SERVER_URL" in found["variable-sets-nothing"]["what"]
    assert "CONDUCTOR_WORKER_JOURNAL_DIR" in found["home-not-set"]["remedy"]
    monkeypatch.setenv("CONDUCTOR_WORKER_JOURNAL", "false")
    assert "journal-off" in faults("--url", conductor_stub.url)


def test_a_journal_that_cannot_be_written(faults: Any, conductor_stub: Any, place: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("CONDUCTOR_WORKER_JOURNAL_DIR", str(place / "greetings.py"))
    assert "greetings.py" in faults("--url", conductor_stub.url)["journal-not-writable"]["what"]


def test_a_journal_that_is_full_and_has_results_of_the_dead(
    faults: Any, conductor_stub: Any, place: Path, monkeypatch: Any
) -> None:
    directory = place / "journal"
    monkeypatch.setenv("CONDUCTOR_WORKER_JOURNAL_DIR", str(directory))
    monkeypatch.setenv("CONDUCTOR_WORKER_JOURNAL_MAX_BYTES", "65536")
    monkeypatch.setattr(checks_machine, "MIN_FREE_BYTES", 1 << 62)
    journal = Journal(directory, conductor_stub.url, max_bytes=1 << 20)
    assert journal.open()
    assert journal.add(PendingReport("r1", "t1", "packed", "COMPLETED", 1, b"x" * 65_536))
    assert "results-waiting" not in faults("--url", conductor_stub.url), "its process lives"
    journal.close_file()
    found = faults("--url", conductor_stub.url)
    assert "1 results and 0 unfinished tasks" in found["results-waiting"]["what"]
    assert "65536 bytes" in found["journal-full"]["what"]
    assert str(directory) in found["journal-disk-full"]["what"]


def test_a_journal_file_of_absurd_size_a12(faults: Any, conductor_stub: Any, place: Path, monkeypatch: Any) -> None:
    """Doctor names the file, and neither reads nor renames it. One that a worker has set aside is named, too."""
    directory = place / "journal"
    monkeypatch.setenv("CONDUCTOR_WORKER_JOURNAL_DIR", str(directory))
    journal = Journal(directory, conductor_stub.url, max_bytes=1 << 20)
    assert journal.open()
    journal.close_file()
    os.truncate(journal.path, 5 << 30)
    assert journal.path.name in faults("--url", conductor_stub.url)["journal-full"]["what"]
    aside = journal.path.rename(f"{journal.path}.too-large")
    assert str(aside) in faults("--url", conductor_stub.url)["journal-set-aside"]["what"]


def test_tasks_that_have_killed_their_process_a14(
    faults: Any, conductor_stub: Any, place: Path, monkeypatch: Any
) -> None:
    """The doctor names the task and how its process ended, on every server."""
    directory = place / "journal"
    directory.mkdir()
    monkeypatch.setenv("CONDUCTOR_WORKER_JOURNAL_DIR", str(directory))
    records = DeathRecords(directory, "server")
    about: dict[str, Any] = {
        "workflow_instance_id": "w",
        "task_type": "packed",
        "poll_count": 1,
        "at_ms": SYSTEM_CLOCK.wall_ms(),
    }
    cause = "the worker process exited with status 3"
    records.save(DeathRecord(**about, reference_name="a", task_id="t1", deaths=2, cause=cause))
    records.save(DeathRecord(**about, reference_name="b", task_id="t2", suspicions=1, cause=cause))
    found = faults("--url", conductor_stub.url)
    assert "task t1 of packed has ended its worker process 2 times" in found["task-kills-process"]["what"]
    assert found["task-kills-process"]["what"].endswith(cause)
    assert "1 tasks were running when a worker process died" in found["worker-process-died"]["what"]


def test_metrics_that_cannot_be_kept(faults: Any, conductor_stub: Any, place: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(place / "greetings.py"))
    monkeypatch.setattr("conductor.cli.checks_machine._try_out", lambda _: None)
    assert "TMPDIR" in faults("--url", conductor_stub.url)["metrics-not-writable"]["remedy"]


def test_metrics_that_a_killed_handler_has_left(faults: Any, conductor_stub: Any, tmp_path: Path) -> None:
    killed = """
import os, signal, sys, tempfile
tempfile.tempdir = sys.argv[1]
from conductor.client.telemetry.metrics_directory import MetricsDirectory
directory = MetricsDirectory()
directory.place.new_file()
os.kill(os.getpid(), signal.SIGKILL)
"""
    ended = subprocess.run([sys.executable, "-c", killed, str(tmp_path / "tmp")], check=False, timeout=60)
    assert ended.returncode == -signal.SIGKILL
    found = faults("--url", conductor_stub.url)["metrics-left-behind"]
    assert found["what"].startswith("2 files of metrics")
    assert "out of memory?" in found["remedy"]
    assert "metrics-left-behind" not in faults("--url", conductor_stub.url), "they have been removed"


# -- the server ---------------------------------------------------------------------------------------------------


def test_doctor_names_an_address_without_a_server(faults: Any) -> None:
    with ConductorStub() as server:
        url = server.url
    assert "conductor-worker serve" in faults("--url", url)["unreachable"]["remedy"]


def test_doctor_names_a_wrong_path(faults: Any, coordinator: Coordinator) -> None:
    assert "/api" in faults("--url", coordinator.url + "/elsewhere")["wrong-path"]["remedy"]


@pytest.mark.parametrize(("key", "fault"), [("wrong", "key-refused"), (None, "key-missing")])
def test_doctor_names_missing_and_wrong_keys(faults: Any, monkeypatch: Any, key: str | None, fault: str) -> None:
    if key:
        monkeypatch.setenv("CONDUCTOR_AUTH_KEY", key)
        monkeypatch.setenv("CONDUCTOR_AUTH_SECRET", "hush-hush")
    with ConductorStub(auth=("right", "hush-hush")) as server:
        assert "CONDUCTOR_AUTH_KEY" in faults("--url", server.url)[fault]["remedy"]


def test_a_certificate_that_nobody_knows(faults: Any, tmp_path: Path) -> None:
    with ConductorStub(ssl_context=Authority(tmp_path).server_context()) as server:
        assert "CONDUCTOR_TLS_CA_FILE" in faults("--url", server.url)["tls"]["remedy"]


def test_doctor_names_clocks_that_differ(faults: Any, coordinator: Coordinator) -> None:
    """The coordinator of the fixture has a clock of its own."""
    assert "NTP" in faults("--url", coordinator.url)["clock-skew"]["remedy"]


def test_doctor_names_an_old_coordinator(faults: Any, coordinator: Coordinator, monkeypatch: Any) -> None:
    monkeypatch.setattr("conductor.cli.checks_server.__version__", "99.0.0")
    assert "99.0.0" in faults("--url", coordinator.url)["server-too-old"]["what"]


def test_a_coordinator_that_cannot_write(faults: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(checks_machine, "MIN_FREE_BYTES", 1 << 62)
    with Coordinator(tmp_path / "a.db") as running:
        assert running.core is not None
        running.core.store._db.execute("PRAGMA query_only = 1")
        httpx.post(running.url + "/metadata/taskdefs", json=[{"name": "a"}])
        found = faults("--url", running.url)
        running.core.store._db.execute("PRAGMA query_only = 0")
    assert found["database-not-writable"]["mark"] == "broken", found
    assert str(tmp_path) in found["coordinator-disk-full"]["what"]


def start(url: str, task: str, **more: Any) -> None:
    definition = {"name": task, "tasks": [{"name": task, "taskReferenceName": "it", "type": "SIMPLE"}]}
    answer = httpx.post(f"{url}/workflow", json={"name": task, "workflowDef": definition, **more})
    assert answer.status_code == 200, answer.text


def poll(url: str, task: str, domain: str | None = None) -> list[Any]:
    query: dict[str, str | int] = {"workerid": "w", "count": 1, "timeout": 0}
    query |= {"domain": domain} if domain else {}
    found: list[Any] = httpx.get(f"{url}/tasks/poll/batch/{task}", params=query).json()
    return found


def test_tasks_that_wait_in_vain(faults: Any, coordinator: Coordinator) -> None:
    start(coordinator.url, "lonely")
    start(coordinator.url, "night\x1b[31m")
    start(coordinator.url, "split", taskToDomain={"split": "gpu"})
    poll(coordinator.url, "split")
    found = faults("--url", coordinator.url)
    assert "Start a worker that polls" in found["queue-not-polled"]["remedy"]
    assert "domain gpu" in found["domain-mismatch"]["remedy"]
    assert "\x1b" not in str(found)


def test_limits_that_hold_back(faults: Any, coordinator: Coordinator) -> None:
    definitions = [
        {"name": "one", "concurrentExecLimit": 1},
        {"name": "few", "rateLimitPerFrequency": 1, "rateLimitFrequencyInSeconds": 60},
    ]
    assert httpx.post(f"{coordinator.url}/metadata/taskdefs", json=definitions).status_code == 200
    for task in ("one", "few"):
        start(coordinator.url, task)
        start(coordinator.url, task)
        assert len(poll(coordinator.url, task)) == 1
    found = faults("--url", coordinator.url)
    assert "concurrentExecLimit" in found["concurrency-limit"]["remedy"]
    assert "rateLimitPerFrequency" in found["rate-limit"]["remedy"]


def test_a_loop_without_a_pause_o05() -> None:
    """The pace of a loop depends on the machine, so the finding is made from an answer of the coordinator."""
    pace = {"workflowId": "w-1", "workflowName": "spin", "ref": "again", "rounds": 300, "roundsPerSecond": 85.2}
    (found,) = checks_server.fast_loops({"fastLoops": [pace]})
    assert (found.fault, found.line) == (
        "fast-loop",
        "loop again of workflow spin w-1 runs without a pause: 300 rounds, 85 per second",
    )
    assert "WAIT" in (found.remedy or "")


def test_workflows_that_are_out_of_retries(faults: Any, coordinator: Coordinator) -> None:
    httpx.post(f"{coordinator.url}/metadata/taskdefs", json=[{"name": "hard", "retryCount": 0}])
    start(coordinator.url, "hard")
    task = poll(coordinator.url, "hard")[0]
    result = {"taskId": task["taskId"], "workflowInstanceId": task["workflowInstanceId"], "status": "FAILED"}
    httpx.post(f"{coordinator.url}/tasks", json={**result, "reasonForIncompletion": "too hard", "workerId": "w"})
    found = faults("--url", coordinator.url)["workflow-failed"]
    assert "too hard" in found["what"]
    assert "retry" in found["remedy"]


def test_queues_that_a_key_may_not_read(faults: Any, conductor_stub: ConductorStub) -> None:
    conductor_stub.script(lambda request: request.path.startswith("/tasks/queue/"), Status(403), repeat=True)
    found = faults("--url", conductor_stub.url)["queues-not-shown"]
    assert "cannot be read" in found["what"]
    assert "a key that may read them" in found["remedy"]


# -- workers and the server ---------------------------------------------------------------------------------------


@pytest.fixture
def shop(place: Path) -> Path:
    (place / "doctors_shop.py").write_text(WORKERS)
    return place


def test_workers_that_the_server_knows_otherwise(faults: Any, shop: Path, coordinator: Coordinator) -> None:
    url = coordinator.url
    assert "register_task_def" in faults("doctors_shop", "--url", url)["definition-missing"]["remedy"]
    schema = {"type": "object", "properties": {"crate": {"type": "string"}}}
    answer = httpx.post(f"{url}/schema", json=[{"name": "packed_input", "version": 1, "type": "JSON", "data": schema}])
    assert answer.status_code == 200, answer.text
    definition = {"name": "packed", "responseTimeoutSeconds": 2, "inputSchema": {"name": "packed_input", "version": 1}}
    assert httpx.post(f"{url}/metadata/taskdefs", json=[definition]).status_code == 200
    start(url, "packed", taskToDomain={"packed": "gpu"})
    found = faults("doctors_shop", "--url", url)
    assert "10 or more" in found["response-timeout-short"]["remedy"]
    assert "crate" in found["schema-mismatch"]["what"]
    assert "CONDUCTOR_WORKER_PACKED_DOMAIN" in found["worker-domain"]["remedy"]


def test_tasks_without_a_definition_share_one_warning(cli: Any, shop: Path, coordinator: Coordinator) -> None:
    (shop / "doctors_second.py").write_text(WORKERS.replace("packed", "sealed"))
    found = json.loads(cli("doctor", "doctors_shop", "doctors_second", "--url", coordinator.url, "--json").out)
    (missing,) = [one["what"] for one in found if one["fault"] == "definition-missing"]
    assert missing == (
        "the server has no definition of packed, sealed: these tasks get the server's default retries and timeouts"
    )


def test_two_workers_for_one_task(faults: Any, shop: Path, conductor_stub: ConductorStub) -> None:
    (shop / "doctors_twin.py").write_text(WORKERS)
    found = faults("doctors_shop", "doctors_twin", "--url", conductor_stub.url)
    assert "Rename one" in found["two-workers-for-one-task"]["remedy"]


def test_modules_that_cannot_be_imported(faults: Any, conductor_stub: ConductorStub) -> None:
    assert "no such module" in faults("doctors_nothing", "--url", conductor_stub.url)["modules-not-usable"]["what"]


def test_definitions_that_a_key_may_not_read(faults: Any, shop: Path, conductor_stub: ConductorStub) -> None:
    conductor_stub.script("taskdefs", Status(403), repeat=True)
    found = faults("doctors_shop", "--url", conductor_stub.url)["definitions-not-shown"]
    assert found["what"].startswith("packed cannot be compared with the server: ")
    assert "faults of the server" in found["remedy"]


def test_an_option_that_is_not_allowed(faults: Any, shop: Path, conductor_stub: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("CONDUCTOR_WORKER_PACKED_THREAD_COUNT", "none")
    found = faults("doctors_shop", "--url", conductor_stub.url)["option-not-allowed"]
    assert found["mark"] == "broken"
    assert "CONDUCTOR_WORKER_PACKED_THREAD_COUNT" in found["what"]
    assert "'none'" in found["what"]
    assert found["remedy"] == "Correct the value."


def test_a_schema_that_the_server_does_not_have(faults: Any, shop: Path) -> None:
    with ConductorStub(schemas=True) as server:
        definition = {"name": "packed", "inputSchema": {"name": "packed_input", "version": 1}}
        assert httpx.post(f"{server.url}/metadata/taskdefs", json=[definition]).status_code == 200
        found = faults("doctors_shop", "--url", server.url)["schema-missing"]
    assert "names schema packed_input" in found["what"]
    assert "Register the schema" in found["remedy"]


def server_state(**more: Any) -> dict[str, Any]:
    """An answer of `GET /view/server`, as far as the checks read it."""
    return {"nowMs": 10_000, "pid": 1, "writerBusyS": 1.0, "commits": 100, "logBytes": 5 << 20, **more}


def test_a_full_disk_a_late_replica_and_a_busy_writer_are_faults() -> None:
    gb = 1 << 30
    disk = {"diskTotalBytes": 100 * gb, "diskReserveBytes": gb}
    assert [one.fault for one in checks_server.disk_share(disk | {"diskFreeBytes": gb // 2})] == ["starts-refused"]
    assert [one.fault for one in checks_server.disk_share(disk | {"diskFreeBytes": 10 * gb})] == ["disk-nearly-full"]
    replica = {"url": "s3://b/000001", "running": True, "lagS": 0.5, "lastError": None}
    assert [one.mark for one in checks_server.replica({"replication": replica})] == ["ok"]
    for wrong in ({"running": False}, {"lagS": 60.0}, {"lastError": "no such bucket"}):
        (finding,) = checks_server.replica({"replication": {**replica, **wrong}})
        assert finding.fault == "replica-late"
    assert not [*checks_server.replica({"replication": None})]
    assert not [*checks_server.secrets_without_key(server_state(unreadableSecrets=0))]
    (finding,) = checks_server.secrets_without_key(server_state(unreadableSecrets=2))
    assert finding.fault == "secrets-unreadable"
    assert "cannot read 2 stored secrets, so workers receive null" in finding.line
    later = server_state(nowMs=11_000, writerBusyS=1.9, commits=190)
    (finding,) = checks_server.load_of_writer(server_state(), later)
    assert finding.fault == "writer-busy"
    assert "90% of the time, 10.0 ms per commit" in finding.line
    (finding,) = checks_server.load_of_writer(server_state(), server_state(nowMs=11_000, writerBusyS=1.1))
    assert finding.mark == "ok"
    assert not [*checks_server.load_of_writer(server_state(), server_state(nowMs=11_000, pid=2))], "it was restarted"


def test_a_superseded_coordinator_is_a_fault() -> None:
    overview = {"healthy": False, "health": "a newer coordinator of this database is running (epoch 9)"}
    (finding,) = checks_server.unhealthy(overview)
    assert finding.fault == "superseded"


async def test_a_warning_about_a_registered_schedule_is_a_fault_with_a_remedy_u4_78() -> None:
    schedule = {"name": "nightly", "cronExpression": "0 0 2 * * *", "startWorkflowRequest": {"name": "nothing"}}
    with Coordinator() as coordinator:
        async with open_client(Configuration(coordinator.url)) as api:
            await api.call_for(Any, "POST", "/scheduler/schedules", body=json.dumps(schedule).encode())
            (finding,) = [one async for one in checks_server.suspect_definitions(api)]
    assert finding.fault == "suspect-definition"
    assert finding.line.startswith("schedule nightly: there is no workflow 'nothing'")
    assert finding.remedy == "Correct it, and register it again."


def test_a_failed_workflow_is_listed_with_the_command_that_retries_it() -> None:
    failed = {"name": "buy", "workflowId": "w-1", "endTime": 1, "waiting": {"sentence": "pay failed: no money"}}
    (finding,) = checks_server.failed_workflows({"nowMs": 1, "results": [failed]})
    assert "`conductor-worker workflow retry w-1`" in (finding.remedy or "")


def test_no_retry_is_proposed_if_it_cannot_help_u4_59() -> None:
    waiting = {"sentence": "sum failed for good, without retries", "remedy": START_AGAIN}
    failed = {"name": "buy", "workflowId": "w-1", "endTime": 1, "waiting": waiting}
    (finding,) = checks_server.failed_workflows({"nowMs": 1, "results": [failed]})
    assert finding.remedy == START_AGAIN


def test_every_fault_that_has_a_name_is_tested() -> None:
    named = set()
    for checks in (checks_machine, checks_server, checks_workers):
        text = Path(str(checks.__file__)).read_text()
        named |= set(re.findall(r'(?:warning|broken)\(\s*"([a-z-]+)"', text))
    tested = Path(__file__).read_text()
    assert len(named) >= 30
    assert sorted(fault for fault in named if f'"{fault}"' not in tested) == []


def test_doctor_and_top_end_soon_if_a_server_accepts_connections_and_never_answers_o06(
    faults: Any, cli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "SERVER_WITHIN_S", 0.2)
    monkeypatch.setattr(top, "FRAME_WITHIN_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/api"
        found = faults("--url", url)
        frame = cli("top", "--once", "--url", url)
    assert "has not answered within 0.2 s" in found["unreachable"]["what"]
    assert (frame.status, "has not answered within 0.2 s" in frame.err) == (2, True)
    slow = checks_server.silent_server(Configuration(url), 3, is_known=True)
    assert (slow.fault, slow.mark) == ("server-slow", "warning")
    nobody = cli("top", "--once", "--url", "http://127.0.0.1:1/api")
    assert (nobody.status, nobody.err.count("\n")) == (2, 1)


def test_doctor_takes_the_journal_directory_as_run_does_o06(
    faults: Any, conductor_stub: ConductorStub, place: Path
) -> None:
    (place / "a file").write_text("")
    found = faults("--url", conductor_stub.url, "--journal-dir", str(place / "a file"))
    assert str(place / "a file") in found["journal-not-writable"]["what"]


def test_doctor_lists_the_extra_for_traces_u1_17() -> None:
    (found,) = checks_machine.installation()
    assert ", otel" in found.line


def test_doctor_names_failures_with_one_cause_once_and_leaves_out_sub_workflows_u2_12() -> None:
    def failed(number: int, sentence: str, **more: Any) -> dict[str, Any]:
        return {"name": "pay", "workflowId": f"w{number}", "endTime": 1, "waiting": {"sentence": sentence}, **more}

    lately = [failed(n, f"charge failed: order {n} was refused") for n in range(40)]
    lately += [failed(40, "no card"), failed(41, "no card", isSubWorkflow=True)]
    refused, no_card = checks_server.failed_workflows({"nowMs": 2, "results": lately})
    assert (
        refused.line == "40 workflows pay have failed for the same reason, last w0: charge failed: order 0 was refused"
    )
    assert no_card.line == "workflow pay w40 has failed: no card"


def test_doctor_says_what_to_do_if_all_workers_of_a_queue_are_busy_u3_8() -> None:
    queue = {"name": "drive", "ready": 3, "inHand": 1, "oldestMs": 1}
    (found,) = checks_server.busy_workers([queue], 180_000)
    assert found.line == "3 tasks of drive wait, the oldest for 3 min: its workers run 1 task"
    assert (found.fault, "raise thread_count" in str(found.remedy)) == ("workers-busy", True)
    assert [*checks_server.busy_workers([queue], 1_000)] == []
    assert [*checks_server.busy_workers([{**queue, "inHand": 0}], 180_000)] == []
