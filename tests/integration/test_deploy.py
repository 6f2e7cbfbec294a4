"""The board and the alerts in `deploy/`: each expression is about series that both halves really have."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from conductor.client.automator.task_handler import TaskHandler
from conductor.client.configuration.configuration import Configuration
from conductor.client.configuration.settings.metrics_settings import MetricsSettings
from conductor.client.worker.worker import Worker
from conductor.coordinator import Coordinator
from conductor.testing.ports import free_port

DEPLOY = Path(__file__).parents[2] / "deploy"
ALERTS = DEPLOY / "prometheus" / "alerts.yml"
BOARD = DEPLOY / "grafana" / "conductor.json"
#: Words of an expression that are not series: functions, keywords, units of time.
WORDS = {
    "sum",
    "max",
    "by",
    "rate",
    "increase",
    "histogram_quantile",
    "absent",
    "or",
    "le",
    "and",
    "m",
    "unless",
    "offset",
    "on",
    "time",
}
#: The last series that appear.
LAST = {
    "task_execute_error_total",
    "worker_event_loop_lag_histogram_seconds_bucket",
    "coordinator_workflows_ended_total",
    "task_poll_empty_total",
    "coordinator_leases_expired_total",
    "coordinator_task_retries_total",
}
FLOW: dict[str, Any] = {
    "name": "deployed",
    "tasks": [
        {"name": "deploy_well", "taskReferenceName": "well"},
        {"name": "deploy_badly", "taskReferenceName": "badly"},
    ],
}


def alerts() -> dict[str, str]:
    groups = yaml.safe_load(ALERTS.read_text())["groups"]
    return {rule["alert"]: rule["expr"] for group in groups for rule in group["rules"]}


def panels() -> dict[str, list[str]]:
    found = json.loads(BOARD.read_text())["panels"]
    return {panel["title"]: [one["expr"] for one in panel["targets"]] for panel in found if panel["type"] != "row"}


def lose_a_task(api: httpx.Client) -> None:
    """Poll a task and let its lease end; then the task is retried."""
    lost = {"name": "deploy_lost", "ownerEmail": "a@example.com", "responseTimeoutSeconds": 1, "retryDelaySeconds": 0}
    assert api.post("/metadata/taskdefs", json=[{**lost, "retryCount": 1}]).status_code == 200
    flow = {"name": "loses", "tasks": [{"name": "deploy_lost", "taskReferenceName": "lost"}]}
    assert api.post("/workflow", json={"name": "loses", "workflowDef": flow}).status_code == 200
    assert len(api.get("/tasks/poll/batch/deploy_lost?timeout=0&count=1").json()) == 1


EXPRESSIONS = {**{f"alert {name}": [expr] for name, expr in alerts().items()}, **panels()}


def well() -> dict[str, str]:
    return {"said": "well"}


def badly() -> None:
    raise ValueError("badly")


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """Name of each series and its labels, of a coordinator and of worker processes that have done something."""
    here = tmp_path_factory.mktemp("deploy")
    workers = [Worker("deploy_well", well), Worker("deploy_badly", badly)]
    settings = MetricsSettings(directory=str(here), file_name="workers.prom")
    with (
        Coordinator(here / "coordinator.db", replicate=str(here / "replica")) as coordinator,
        TaskHandler(workers, Configuration(coordinator.url), settings, journal_dir=str(here / "journal")) as handler,
        httpx.Client(base_url=coordinator.url) as api,
    ):
        handler.start_processes()
        lose_a_task(api)
        for flow in (FLOW, {**FLOW, "name": "ends", "tasks": FLOW["tasks"][:1]}):
            assert api.post("/workflow", json={"name": flow["name"], "workflowDef": flow}).status_code == 200
        metrics = str(api.base_url).replace("/api/", "/metrics")
        deadline = time.monotonic() + 60
        while True:
            file = here / "workers.prom"
            found = _series(api.get(metrics).text + (file.read_text() if file.exists() else ""))
            if found.keys() >= LAST:
                return found
            assert time.monotonic() < deadline, sorted(found)
            time.sleep(0.05)


def _series(text: str) -> dict[str, set[str]]:
    families = text_string_to_metric_families(text)
    return {sample.name: set(sample.labels) for family in families for sample in family.samples}


def names_and_labels(expression: str) -> tuple[set[str], set[str]]:
    """The series that an expression names, and the labels."""
    labels = {
        name for inside in re.findall(r"(?:by|on) \(([^)]*)\)", expression) for name in inside.replace(",", " ").split()
    }
    selectors = " ".join(re.findall(r"\{([^}]*)\}", expression))
    labels |= set(re.findall(r"(\w+)\s*[=!]", selectors))
    labels.discard("instance")  # Prometheus adds it
    bare = re.sub(r"(?:by|on) \([^)]*\)|\{[^}]*\}|\[[^\]]*\]|\d+(\.\d+)?", " ", expression)
    return set(re.findall(r"[a-zA-Z_]\w*", bare)) - WORDS, labels


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_every_series_and_label_of_an_expression_is_there(name: str, scraped: dict[str, set[str]]) -> None:
    for expression in EXPRESSIONS[name]:
        named, labels = names_and_labels(expression)
        assert named, expression
        assert named <= scraped.keys(), expression
        known = set.union(*(scraped[one] for one in named))
        # In an expression with two series, one side is summed by labels that both sides have.
        assert labels <= known, expression


def test_an_expression_is_taken_apart() -> None:
    found = names_and_labels('sum by (le, a) (rate(x_bucket{b=~"5..",c!="d"}[5m])) / max by (a) (y) > 0.5')
    assert found == ({"x_bucket", "y"}, {"le", "a", "b", "c"})


def test_each_alert_is_made_to_fire_by_a_test_of_its_own() -> None:
    text = ALERTS.with_name("alerts_test.yml").read_text()
    assert set(re.findall(r'expr: ALERTS\{alertname="(\w+)"', text)) == alerts().keys()


@pytest.mark.slow
def test_promtool_lets_each_alert_fire() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        if os.environ.get("CI"):
            pytest.fail("promtool is missing; Debian has it in the package prometheus")
        pytest.skip("promtool is not installed")
    for command in (["check", "rules", "alerts.yml"], ["test", "rules", "alerts_test.yml"]):
        done = subprocess.run([promtool, *command], cwd=ALERTS.parent, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_shipped_configuration_loads_in_the_installed_prometheus_o01(tmp_path: Path) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed")
    text = ALERTS.with_name("prometheus.yml").read_text()
    with_token = text.replace("    # authorization:", "    authorization:")
    assert with_token != text
    (tmp_path / "alerts.yml").write_bytes(ALERTS.read_bytes())
    (tmp_path / "token").write_text("cwm_token")
    with_token = with_token.replace("/etc/prometheus/token", str(tmp_path / "token"))
    for config in (text, with_token):
        (tmp_path / "prometheus.yml").write_text(config)
        command = [promtool, "check", "config", "prometheus.yml"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr


# -- a real Prometheus --------------------------------------------------------------------------------------------


def asked_for(expression: str) -> list[str]:
    """Return the left side of an alert's comparison: a healthy system has no data beyond the limit."""
    bare = re.sub(r"absent\((\w+)\)", r"\1", expression)
    bare = re.sub(r"\n +unless (?!coordinator_workflows).*", "", bare)  # exceptions from the rule
    bare = re.sub(r"(\w+) > \d+ and \1 < \d+", r"\1", bare)
    return [re.sub(r"\s*(==|!=|[<>]=?)\s*[\d.]+\s*$", "", part.strip()) for part in re.split(r"\sor\s", bare)]


@contextmanager
def prometheus(place: Path, *targets: str) -> Iterator[httpx.Client]:
    """A server of Prometheus that asks these for their metrics, every second."""
    program = shutil.which("prometheus")
    if program is None:
        if os.environ.get("CI"):
            pytest.fail("prometheus is missing; Debian has it in the package of that name")
        pytest.skip("prometheus is not installed")
    scraped = [{"targets": list(targets)}]
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(ALERTS)],
        "scrape_configs": [{"job_name": "conductor", "metrics_path": "/metrics", "static_configs": scraped}],
    }
    (place / "prometheus.yml").write_text(yaml.safe_dump(config))
    address = f"127.0.0.1:{free_port()}"
    command = [program, f"--config.file={place / 'prometheus.yml'}", f"--storage.tsdb.path={place / 'data'}"]
    with (
        (place / "prometheus.log").open("w") as log,
        subprocess.Popen([*command, f"--web.listen-address={address}"], stdout=log, stderr=log) as process,
        httpx.Client(base_url=f"http://{address}/api/v1", timeout=60) as api,
    ):
        try:
            yield api
        finally:
            process.kill()


@pytest.mark.slow
def test_prometheus_has_data_for_every_expression(tmp_path: Path) -> None:
    workers = [Worker("deploy_well", well), Worker("deploy_badly", badly)]
    settings = MetricsSettings(directory=str(tmp_path), http_port=free_port())
    started = {"name": FLOW["name"], "workflowDef": FLOW}
    at_once = [{"name": "deploy_badly", "retryCount": 0, "ownerEmail": "a@example.com"}]
    waiting = {question for name in EXPRESSIONS for one in EXPRESSIONS[name] for question in asked_for(one)}
    waiting -= {'sum(rate(coordinator_request_seconds_count{status=~"5.."}[5m]))'}  # nothing here makes it fail
    with (
        Coordinator(tmp_path / "coordinator.db", replicate=str(tmp_path / "replica")) as coordinator,
        TaskHandler(
            workers, Configuration(coordinator.url), settings, journal_dir=str(tmp_path / "journal")
        ) as handler,
        httpx.Client(base_url=coordinator.url) as api,
        prometheus(tmp_path, coordinator.url.split("/")[2], f"127.0.0.1:{settings.http_port}") as asked,
    ):
        assert api.post("/metadata/taskdefs", json=at_once).status_code == 200
        handler.start_processes()
        lose_a_task(api)
        deadline = time.monotonic() + 120
        while waiting:
            assert time.monotonic() < deadline, f"no data for {sorted(waiting)}"
            assert api.post("/workflow", json=started).status_code == 200
            waiting = {question for question in waiting if not _data(asked, question)}
            time.sleep(0.2)


def _data(asked: httpx.Client, question: str) -> list[Any]:
    """Return the numbers that Prometheus answers, or nothing while it does not listen yet."""
    try:
        response = asked.get("/query", params={"query": question})
    except httpx.TransportError:
        return []
    if response.status_code == 503:  # it is still starting
        return []
    answer = response.json()
    assert answer["status"] == "success", f"{question}: {answer}"
    return [one for one in answer["data"]["result"] if one["value"][1] != "NaN"]
