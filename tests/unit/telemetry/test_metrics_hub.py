"""The metrics hub: collects the metrics of all processes and serves or writes them."""

from __future__ import annotations

import http.client
import json
import logging
import random
import re
import socket
import statistics
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from conductor.client.configuration.settings.metrics_settings import MetricsPortError, MetricsSettings
from conductor.client.event.task_runner_events import PollCompleted, PollStarted
from conductor.client.telemetry import metrics_hub
from conductor.client.telemetry.metrics_collector import MetricsCollector
from conductor.client.telemetry.metrics_hub import MetricsHub, MetricsWriter
from conductor.client.telemetry.worker_metrics import QUANTILES
from conductor.telemetry.exposition import MetricsUnavailable

from .conftest import Child, samples_of, value

#: Executes 2,500 tasks with a seed of its own, says so, and waits.
WORK = """
import random
rng = random.Random({seed})
for i in range(2500):
    collector.on_task_execution_completed(TaskExecutionCompleted("t", str(i), "w", "wf", rng.lognormvariate(3, 1), 100))
telemetry.set_slots_in_use("t", 2)
say("worked")
told()
"""


def get(hub: MetricsHub, path: str, method: str = "GET") -> tuple[int, str, bytes]:
    assert hub.port is not None
    connection = http.client.HTTPConnection("127.0.0.1", hub.port, timeout=60)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.headers["Content-Type"], answer.read()
    finally:
        connection.close()


def test_four_processes_one_killed_and_started_again(hub: MetricsHub, child: Callable[..., Child]) -> None:
    hub.start()
    place = hub.child_settings()
    children = [child(place, WORK.format(seed=seed), "t") for seed in range(4)]
    for one in children:
        hub.record_process_start("t")
        assert one.heard() == "worked"
    text = get(hub, "/metrics")[2]
    assert value(text, "task_execute_time_seconds_count", taskType="t", status="SUCCESS") == 10_000
    assert value(text, "worker_slots_in_use", taskType="t") == 8

    hub.record_process_exit("t", children[0].kill())
    hub.record_process_start("t")
    again = child(place, WORK.format(seed=4), "t")
    assert again.heard() == "worked"
    text = get(hub, "/metrics")[2]
    assert value(text, "task_execute_time_seconds_count", taskType="t", status="SUCCESS") == 12_500
    assert value(text, "worker_slots_in_use", taskType="t") == 8, "the dead one's slots are gone"
    assert value(text, "worker_restarts_total", taskType="t") == 1

    exact = [rng.lognormvariate(3, 1) / 1000 for rng in map(random.Random, range(5)) for _ in range(2500)]
    total_s = value(text, "task_execute_time_seconds_sum", taskType="t", status="SUCCESS")
    assert total_s == pytest.approx(sum(exact))
    cuts = statistics.quantiles(exact, n=100, method="inclusive")
    for quantile in QUANTILES:
        shown = value(text, "task_execute_time_seconds", taskType="t", quantile=str(quantile))
        assert shown == pytest.approx(cuts[round(quantile * 100) - 1], rel=0.05)

    for one in (*children[1:], again):
        assert one.end() == 0
    text = get(hub, "/metrics")[2]
    assert value(text, "task_execute_time_seconds_count", taskType="t", status="SUCCESS") == 12_500
    assert not re.search(rb'pid|"%d"' % again.process.pid, text), "no process is a label; a count may be any number"


def test_a_scrape_under_load_always_parses_and_never_goes_back(hub: MetricsHub, child: Callable[..., Child]) -> None:
    hub.start()
    busy = [
        child(
            hub.child_settings(),
            "def poll():\n collector.on_poll_started(PollStarted('t', 'w', 1))\n"
            " collector.on_poll_completed(PollCompleted('t', 1.5, 0))\n"
            "poll()\nsay('go')\nwhile True:\n poll()",
        )
        for _ in range(2)
    ]
    for one in busy:
        assert one.heard() == "go"
    seen = [value(hub.render(), "task_poll_total", taskType="t") for _ in range(20)]
    busy[0].kill()
    seen += [value(hub.render(), "task_poll_total", taskType="t") for _ in range(20)]
    assert seen == sorted(seen)
    assert seen[-1] > 0


def test_the_hub_serves_metrics_over_http(hub: MetricsHub, tmp_path: Path) -> None:
    hub.start()
    status, content_type, body = get(hub, "/metrics?name=x")
    assert (status, content_type) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert samples_of(body) == {}
    collector = MetricsCollector.for_process(hub.child_settings())
    collector.on_poll_started(PollStarted("t", "w", 1))
    assert value(get(hub, "/metrics")[2], "task_poll_total", taskType="t") == 1
    assert get(hub, "/metrics", "HEAD")[::2] == (200, b"")
    assert get(hub, "/elsewhere") == (404, "text/plain", b"Try /metrics, /health or /ready.\n")
    assert get(hub, "/metrics", "POST")[0] == 501
    assert {path.suffix for path in (tmp_path / "metrics").iterdir()} == {".db", ".lock"}, "no file in HTTP mode"
    hub.stop()
    assert list((tmp_path / "metrics").iterdir()) == []


def test_the_hub_serves_health_pages(hub: MetricsHub, child: Callable[..., Child]) -> None:
    hub.start()
    hub.record_process_start("t")
    assert get(hub, "/health")[0] == 200
    assert get(hub, "/ready")[0] == 503, "it has not polled yet"
    one = child(
        hub.child_settings(),
        "health.beat(); health.on_poll_completed(PollCompleted('t', 1.0, 0)); say('polled'); told()",
        "t",
    )
    assert one.heard() == "polled"
    status, content_type, body = get(hub, "/ready")
    assert (status, content_type) == (200, "application/json")
    assert json.loads(body)["workers"][0]["worker"] == "t"
    hub.record_process_exit("t", one.kill())
    status, _, body = get(hub, "/health")
    assert status == 503
    worker = json.loads(body)["workers"][0]
    assert (worker["state"], worker["reasons"]) == ("dead", ["its process has ended (SIGKILL)"])


def test_a_silent_client_holds_nobody_up(hub: MetricsHub) -> None:
    hub.start()
    assert hub.port is not None
    with socket.create_connection(("127.0.0.1", hub.port)):
        assert get(hub, "/health")[0] == 200


def test_a_port_in_use_fails_the_start_and_leaves_nothing_behind(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        hub = MetricsHub(MetricsSettings(directory=str(tmp_path), http_port=port, host="127.0.0.1"))
        with pytest.raises(MetricsPortError, match=f"cannot listen on 127.0.0.1:{port}.*optional=True"):
            hub.start()
    assert list(tmp_path.iterdir()) == []


def test_an_optional_port_in_use_is_one_line_and_the_work_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        hub = MetricsHub(MetricsSettings(directory=str(tmp_path), http_port=port, host="127.0.0.1", optional=True))
        hub.start()
    assert hub.port is None
    errors = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(errors) == 1
    assert f"127.0.0.1:{port}" in errors[0]
    assert "\n" not in errors[0]
    MetricsCollector.for_process(hub.child_settings()).on_poll_started(PollStarted("t", "w", 1))
    assert value(hub.render(), "task_poll_total", taskType="t") == 1
    hub.stop()


def test_the_hub_writes_metrics_to_a_file(tmp_path: Path) -> None:
    hub = MetricsHub(MetricsSettings(directory=str(tmp_path), file_name="metrics.prom", update_interval=0.01))
    collector = MetricsCollector.for_process(hub.child_settings())
    collector.on_poll_completed(PollCompleted("t", 1.0, 2))
    hub.start()
    assert hub.port is None
    collector.on_poll_started(PollStarted("t", "w", 1))
    collector.close()
    hub.stop()
    text = (tmp_path / "metrics.prom").read_bytes()
    assert value(text, "task_received_total", taskType="t") == 2
    assert value(text, "task_poll_total", taskType="t") == 1, "the last figures are written at the end"
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.prom"]


def test_the_file_is_written_again_and_again(tmp_path: Path) -> None:
    scrapes: list[bytes] = []
    third = threading.Event()

    def scrape() -> bytes:
        scrapes.append((tmp_path / "m").read_bytes() if scrapes else b"")
        if len(scrapes) == 3:
            third.set()
        return str(len(scrapes)).encode()

    writer = MetricsWriter(tmp_path / "m", 0.001, scrape)
    writer.start()
    assert third.wait(60)
    writer.stop()
    assert scrapes[:3] == [b"", b"1", b"2"]
    assert (tmp_path / "m").read_bytes() == str(len(scrapes)).encode()


def test_readers_of_the_file_never_see_half_of_it(tmp_path: Path) -> None:
    content = [b"a" * 1_000_000, b"b" * 1_000_000]
    writer = MetricsWriter(tmp_path / "m", 1e-6, lambda: content[0])
    writer.write()
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            content.reverse()
            writer.write()

    thread = threading.Thread(target=write)
    thread.start()
    seen = {(tmp_path / "m").read_bytes() for _ in range(200)}
    stop.set()
    thread.join()
    assert seen <= {b"a" * 1_000_000, b"b" * 1_000_000}


def test_a_file_that_cannot_be_written_is_told_of_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    writer = MetricsWriter(tmp_path / "gone" / "m", 1.0, lambda: b"x")
    writer.write()
    writer.write()
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    (tmp_path / "gone").mkdir()
    writer.write()
    assert writer.path.read_bytes() == b"x"
    assert metrics_hub.MAX_SHARE <= 0.1


def test_without_the_library_the_hub_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "prometheus_client", None)
    with pytest.raises(MetricsUnavailable, match="prometheus-client"):
        MetricsHub(MetricsSettings(directory=str(tmp_path)))
    assert list(tmp_path.iterdir()) == []
