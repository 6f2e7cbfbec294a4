"""The board and the alerts in `deploy/`: each expression is about series that both halves really have."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
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

DEPLOY = Path(__file__).parents[2] / "deploy"
ALERTS = DEPLOY / "prometheus" / "alerts.yml"
BOARD = DEPLOY / "grafana" / "conductor.json"
#: What stands in an expression and is no series: functions, words of the language, units of time.
WORDS = {"sum", "max", "by", "rate", "increase", "histogram_quantile", "absent", "or", "le", "and", "m"}
#: The last series that appear.
LAST = {
    "task_execute_error_total",
    "worker_event_loop_lag_histogram_seconds_bucket",
    "coordinator_workflows_ended_total",
    "task_poll_empty_total",
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
        Coordinator(here / "coordinator.db") as coordinator,
        TaskHandler(workers, Configuration(coordinator.url), settings, journal_dir=str(here / "journal")) as handler,
        httpx.Client(base_url=coordinator.url) as api,
    ):
        handler.start_processes()
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
    labels = {name for inside in re.findall(r"by \(([^)]*)\)", expression) for name in inside.replace(",", " ").split()}
    selectors = " ".join(re.findall(r"\{([^}]*)\}", expression))
    labels |= set(re.findall(r"(\w+)\s*[=!]", selectors))
    bare = re.sub(r"by \([^)]*\)|\{[^}]*\}|\[[^\]]*\]|\d+(\.\d+)?", " ", expression)
    return set(re.findall(r"[a-zA-Z_]\w*", bare)) - WORDS, labels


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_every_series_and_label_of_an_expression_is_there(name: str, scraped: dict[str, set[str]]) -> None:
    for expression in EXPRESSIONS[name]:
        named, labels = names_and_labels(expression)
        assert named, expression
        assert named <= scraped.keys(), expression
        known = set.union(*(scraped[one] for one in named))
        # Of an expression with two series, those of one side are summed by labels that both have.
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
