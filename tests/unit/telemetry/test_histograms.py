"""Histograms beside the summaries, and the names that all of Conductor's SDKs share."""

from __future__ import annotations

from pathlib import Path

import pytest

from conductor.client.configuration.settings.metrics_settings import MetricsSettings
from conductor.client.telemetry.metrics_collector import MetricsCollector
from conductor.client.telemetry.metrics_hub import MetricsHub
from tests.unit.telemetry.conftest import samples_of, value


def settings(tmp_path: Path, **more: object) -> MetricsSettings:
    return MetricsSettings(directory=str(tmp_path), **more)  # type: ignore[arg-type]


def test_values_fall_between_the_bounds_and_processes_add_up(tmp_path: Path) -> None:
    hub = MetricsHub(settings(tmp_path, buckets=(0.1, 1)))
    collectors = [MetricsCollector.for_process(hub.child_settings()) for _ in range(2)]
    for collector in collectors:
        for seconds in (0.1, 0.5, 30):
            collector.record_task_execute_time("pay", seconds)
    collectors[0].record_task_execute_time("pay", 2, "FAILED")
    collectors[0].close()  # what an ended process counted stays counted
    text = hub.render()
    name, labels = "task_execute_time_histogram_seconds", {"taskType": "pay", "status": "SUCCESS"}
    counts = [value(text, f"{name}_bucket", **labels, le=le) for le in ("0.1", "1.0", "+Inf")]
    assert counts == [2, 4, 6]
    assert value(text, f"{name}_count", **labels) == 6
    assert value(text, f"{name}_sum", **labels) == pytest.approx(61.2)
    assert value(text, f"{name}_bucket", taskType="pay", status="FAILED", le="+Inf") == 1
    # The summary beside it is as it was.
    assert value(text, "task_execute_time_seconds_count", **labels) == 6
    collectors[1].close()
    hub.stop()


def test_sizes_have_bounds_of_their_own(tmp_path: Path) -> None:
    collector = MetricsCollector(settings(tmp_path, buckets=(0.1,)))
    collector.record_task_result_payload_size("pay", 500)
    text = collector.render()
    name = "task_result_size_histogram_bytes_bucket"
    assert value(text, name, taskType="pay", le="100.0") == 0
    assert value(text, name, taskType="pay", le="1000.0") == 1
    collector.close()


def test_the_names_of_all_sdks_in_place_of_summaries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKER_CANONICAL_METRICS", "TRUE")
    collector = MetricsCollector(settings(tmp_path))
    collector.increment_task_poll("pay")
    collector.record_task_poll_time("pay", 0.02)
    collector.record_task_execute_time("pay", 0.2)
    collector.record_task_execute_time("pay", 0.2, "FAILED")
    collector.record_task_update_time("pay", 0.2)
    collector.on_request("GET", "/tasks/poll/batch/{tasktype}", 200, 0.02)
    text = collector.render()
    collector.close()
    for name, status in [
        ("task_poll_time_seconds", "SUCCESS"),
        ("task_execute_time_seconds", "SUCCESS"),
        ("task_execute_time_seconds", "FAILURE"),
        ("task_update_time_seconds", "SUCCESS"),
    ]:
        assert value(text, f"{name}_count", taskType="pay", status=status) == 1
        assert value(text, f"{name}_bucket", taskType="pay", status=status, le="+Inf") == 1
    request = {"method": "GET", "uri": "/tasks/poll/batch/{tasktype}", "status": "200"}
    assert value(text, "http_api_client_request_seconds_count", **request) == 1
    assert value(text, "task_poll_total", taskType="pay") == 1
    assert not [name for name, labels in samples_of(text) if dict(labels).get("quantile") or "histogram" in name]


@pytest.mark.parametrize("buckets", [(), (1, 1), (2, 1), (0, 1), (float("inf"),), tuple(range(1, 40))])
def test_bounds_that_are_none_are_refused(buckets: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="positive numbers of seconds in ascending order"):
        MetricsSettings(buckets=buckets)


def test_the_variable_for_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONDUCTOR_METRICS_BUCKETS", "0.1, 1,10")
    assert MetricsSettings().buckets == (0.1, 1, 10)
    assert MetricsSettings(buckets=(5,)).buckets == (5,)
    monkeypatch.setenv("CONDUCTOR_METRICS_BUCKETS", "many")
    with pytest.raises(ValueError, match="CONDUCTOR_METRICS_BUCKETS='many'"):
        MetricsSettings()
