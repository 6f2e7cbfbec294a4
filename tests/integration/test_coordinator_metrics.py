"""The coordinator's `/metrics`: every figure after work that is known, over a real socket."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text

from conductor.coordinator import Coordinator
from conductor.coordinator.limits import MAX_SERIES_PER_METRIC
from conductor.coordinator.server_metrics import METRICS, OTHER, Tally
from conductor.coordinator.store.online_backup import back_up
from conductor.testing import FakeClock

Labels = frozenset[tuple[str, str]]


class Scrape:
    """The lines of one scrape, by name and labels."""

    def __init__(self, text: str) -> None:
        self.kinds = {family.name: family.type for family in read_text(text)}
        self._values: dict[tuple[str, Labels], float] = {}
        for family in read_text(text):
            for sample in family.samples:
                self._values[sample.name, frozenset(sample.labels.items())] = sample.value

    def __call__(self, name: str, **labels: str) -> float | None:
        return self._values.get((name, frozenset(labels.items())))

    def series(self, name: str) -> list[dict[str, str]]:
        return [dict(labels) for found, labels in self._values if found == name]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def coordinator(tmp_path: Path, clock: FakeClock) -> Iterator[Coordinator]:
    with Coordinator(tmp_path / "coordinator.db", clock=clock) as found:
        yield found


@pytest.fixture
def api(coordinator: Coordinator) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=coordinator.url) as client:
        yield client


def scraped(api: httpx.Client) -> Scrape:
    answer = api.get(str(api.base_url).replace("/api/", "/metrics"))
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return Scrape(answer.text)


def start(api: httpx.Client, task: str, flow: str = "flow") -> None:
    definition = {"name": flow, "tasks": [{"name": task, "taskReferenceName": "ref"}]}
    assert api.post("/workflow", json={"name": flow, "workflowDef": definition}).status_code == 200


def poll(api: httpx.Client, task: str, count: int = 1) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = api.get(
        f"/tasks/poll/batch/{task}", params={"timeout": 0, "workerid": "w1", "count": count}
    ).json()
    return found


def report(api: httpx.Client, task: dict[str, Any], **more: Any) -> int:
    said = {"taskId": task["taskId"], "workflowInstanceId": task["workflowInstanceId"], "workerId": "w1"}
    return api.post("/tasks", json={**said, "leaseId": task["leaseId"], "status": "COMPLETED", **more}).status_code


def test_every_figure_after_known_work(api: httpx.Client, clock: FakeClock) -> None:
    for _ in range(4):
        start(api, "pay")
    clock.advance(30)
    done, failed, held = poll(api, "pay", 3)
    assert poll(api, "nothing") == []
    assert report(api, done) == 200
    assert report(api, done, reportId="another") == 409  # that lease was used
    assert report(api, failed, status="FAILED_WITH_TERMINAL_ERROR") == 200
    assert report(api, held, status=None, extendLease=True) == 200
    clock.advance(5)
    found = scraped(api)
    queue = {"taskType": "pay", "domain": ""}
    assert found("coordinator_queue_depth", **queue) == 1
    assert found("coordinator_queue_oldest_seconds", **queue) == 35
    assert found("coordinator_queue_last_poll_seconds", **queue) == 5
    assert found("coordinator_tasks_in_hand", **queue) == 1
    assert found("coordinator_queue_delayed", **queue) == 0
    assert found("coordinator_queue_unserved", **queue) == 0
    assert found("coordinator_workflows_running", workflowType="flow") == 2
    assert found("coordinator_workflows_started_total", workflowType="flow") == 4
    assert found("coordinator_workflows_ended_total", workflowType="flow", status="COMPLETED") == 1
    assert found("coordinator_workflows_ended_total", workflowType="flow", status="FAILED") == 1
    assert found("coordinator_polls_total", taskType="pay") == 1
    assert found("coordinator_polls_total", taskType="nothing") == 1
    assert found("coordinator_tasks_granted_total", taskType="pay") == 3
    assert found("coordinator_tasks_ended_total", taskType="pay", status="COMPLETED") == 1
    assert found("coordinator_tasks_ended_total", taskType="pay", status="FAILED_WITH_TERMINAL_ERROR") == 1
    assert found("coordinator_reports_total", verdict="COMMITTED") == 2
    assert found("coordinator_reports_total", verdict="REJECTED") == 1
    assert found("coordinator_reports_total", verdict="CANCELLED") == 0
    assert len(found.series("coordinator_reports_total")) == 3
    assert found("coordinator_heartbeats_total", verdict="COMMITTED") == 1
    assert found("coordinator_request_seconds_count", method="POST", uri="/api/tasks", status="200") == 3
    assert found("coordinator_request_seconds_count", method="POST", uri="/api/tasks", status="409") == 1
    assert found("coordinator_commit_failures_total") == 0
    assert found("coordinator_healthy") == 1
    assert (found("coordinator_file_bytes", file="database") or 0) > 0
    assert found("coordinator_parked_polls") == 0
    commits = found("coordinator_commit_seconds_count")
    assert commits
    assert commits >= 10
    assert found("coordinator_commit_group_size_bucket", le="+Inf") == commits


def test_lost_leases_and_retries_are_counted_o08(api: httpx.Client, clock: FakeClock) -> None:
    task = {"name": "pay", "ownerEmail": "a@example.com", "retryDelaySeconds": 0, "responseTimeoutSeconds": 5}
    assert api.post("/metadata/taskdefs", json=[{**task, "retryCount": 1}]).status_code == 200
    start(api, "pay")
    assert len(poll(api, "pay")) == 1
    clock.advance(6)
    (again,) = poll(api, "pay")
    assert (again["retryCount"], report(api, again)) == (1, 200)
    found = scraped(api)
    assert found("coordinator_leases_expired_total", taskType="pay") == 1
    assert found("coordinator_task_retries_total", taskType="pay") == 1
    assert found("coordinator_schedules_late") == 0


def test_the_process_its_disk_and_its_writer_are_measured_o08(api: httpx.Client, tmp_path: Path) -> None:
    before = scraped(api)
    for _ in range(10):
        start(api, "pay")
    found = scraped(api)
    assert (found("process_cpu_seconds_total") or 0) > (before("process_cpu_seconds_total") or 0) > 0
    assert (found("process_resident_memory_bytes") or 0) > 1 << 20
    busy_s = found("coordinator_writer_busy_seconds_total") or 0
    assert busy_s > (before("coordinator_writer_busy_seconds_total") or 0)
    assert busy_s >= (before("coordinator_commit_seconds_sum") or 0)
    disk = [found(f"coordinator_disk_{what}_bytes") or 0 for what in ("reserve", "free", "size")]
    assert 0 < disk[0] < disk[2] >= disk[1] > 0
    assert found("coordinator_last_backup_time_seconds") == 0
    began_s = time.time()
    back_up(tmp_path / "coordinator.db", tmp_path / "copy.db")
    backup_s = scraped(api)("coordinator_last_backup_time_seconds") or 0
    assert began_s - 1 <= backup_s <= time.time() + 1
    with Coordinator() as in_memory, httpx.Client(base_url=in_memory.url) as other:
        names = ("coordinator_disk_free_bytes", "coordinator_last_backup_time_seconds")
        assert [scraped(other)(name) for name in names] == [None, None]


def test_a_backup_whose_time_cannot_be_recorded_is_kept_o08(
    coordinator: Coordinator, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert coordinator.url
    (tmp_path / "coordinator.db-backup").mkdir()
    assert back_up(tmp_path / "coordinator.db", tmp_path / "copy.db") > 0
    assert "Time of the backup could not be recorded" in caplog.text


def test_a_queue_that_nobody_polls_is_told(api: httpx.Client, clock: FakeClock) -> None:
    start(api, "lonely")
    clock.advance(600)
    assert scraped(api)("coordinator_queue_unserved", taskType="lonely", domain="") == 1


def test_all_that_is_scraped_is_declared_and_openmetrics_is_understood(api: httpx.Client) -> None:
    start(api, "pay")
    start(api, "pay")
    assert report(api, poll(api, "pay")[0]) == 200
    url = str(api.base_url).replace("/api/", "/metrics")
    answer = api.get(url, headers={"accept": "application/openmetrics-text;version=1.0.0,text/plain;q=0.5"})
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    families = {family.name: family for family in read_openmetrics(answer.text)}  # type: ignore[no-untyped-call]
    declared = {metric.name.removesuffix("_total"): metric.kind.name.lower() for metric in METRICS}
    assert {name: family.type for name, family in families.items()} == {
        name: kind for name, kind in declared.items() if name in families
    }
    # No heartbeat was sent, and there is no replica; all other series exist.
    missing = {name for name in set(declared) - set(families) if not name.startswith("coordinator_replication")}
    assert missing == {"coordinator_heartbeats", "coordinator_leases_expired", "coordinator_task_retries"}


def test_requests_without_a_route_are_counted_together(api: httpx.Client) -> None:
    for number in range(3):
        assert api.get(f"/nothing/here/{number}").status_code == 404
    assert scraped(api)("coordinator_request_seconds_count", method="", uri="", status="404") == 3


def test_names_are_kept_apart_up_to_a_limit(api: httpx.Client) -> None:
    for number in range(MAX_SERIES_PER_METRIC + 5):
        poll(api, f"t{number}")
    found = scraped(api)
    assert len(found.series("coordinator_polls_total")) == MAX_SERIES_PER_METRIC + 1
    assert found("coordinator_polls_total", taskType=OTHER) == 5


def test_a_name_that_is_known_is_counted_beyond_the_limit() -> None:
    tally = Tally()
    for number in range(MAX_SERIES_PER_METRIC):
        tally.add(("m", f"n{number}", "a"))
    tally.add(("m", "late", "a"))
    tally.add(("m", "later", "b"), 2)
    tally.add(("m", "n0", "a"))
    counts = tally.copy()
    assert (counts["m", "n0", "a"], counts["m", OTHER, "a"], counts["m", OTHER, "b"]) == (2, 1, 2)


def test_metrics_need_a_token_if_other_reads_do(tmp_path: Path) -> None:
    with Coordinator(tmp_path / "c.db", auth_key="key", auth_secret="secret") as coordinator:
        root = coordinator.url.removesuffix("/api")
        assert httpx.get(f"{root}/metrics").status_code == 401
        shown = httpx.post(f"{coordinator.url}/token", json={"keyId": "key", "keySecret": "secret"}).json()
        answer = httpx.get(f"{root}/metrics", headers={"X-Authorization": shown["token"]})
        assert answer.status_code == 200
