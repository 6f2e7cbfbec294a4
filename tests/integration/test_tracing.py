"""A trace leads from the program that starts a workflow through its tasks into the user's own spans."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ParentBasedTraceIdRatio
from opentelemetry.trace import SpanKind, StatusCode

from conductor.client.automator.task_handler_asyncio import TaskHandlerAsyncIO
from conductor.client.automator.task_trace import start_task_trace
from conductor.client.configuration.configuration import Configuration
from conductor.client.configuration.settings.metrics_settings import MetricsSettings
from conductor.client.telemetry.metrics_collector import MetricsCollector
from conductor.client.telemetry.metrics_hub import MetricsHub
from conductor.client.worker.worker import Worker
from conductor.coordinator import Coordinator
from conductor.telemetry import tracing
from conductor.testing import ConductorStub

PROGRAM = Path(__file__).with_name("traced_program.py")
TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
Spans = dict[str, list[dict[str, Any]]]


def run(*arguments: str, **env: str) -> dict[str, Any]:
    """Run the program; what it prints last."""
    done = subprocess.run(
        [sys.executable, str(PROGRAM), *arguments],
        env={**os.environ, **env},
        cwd=PROGRAM.parent,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    printed: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return printed


class Collector:
    """A collector of OTLP over HTTP, on a real socket: it decodes what it is sent."""

    def __init__(self) -> None:
        self.spans: list[dict[str, Any]] = []
        #: How many requests brought spans.
        self.requests = 0
        #: Requests are answered while it is set.
        self.answers = threading.Event()
        self.answers.set()
        #: The latest of each metric.
        self.metrics: dict[str, Any] = {}
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                assert collector.answers.wait(60)
                if self.path == "/v1/traces":
                    collector.requests += 1
                    collector.take(ExportTraceServiceRequest.FromString(body))
                if self.path == "/v1/metrics":
                    collector.take_metrics(ExportMetricsServiceRequest.FromString(body))
                self.send_response(200)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def take(self, request: ExportTraceServiceRequest) -> None:
        for resource in request.resource_spans:
            for scope in resource.scope_spans:
                self.spans += [
                    {
                        "name": span.name,
                        "trace": span.trace_id.hex(),
                        "span": span.span_id.hex(),
                        "parent": span.parent_span_id.hex() or None,
                        "attributes": {one.key: one.value.string_value for one in span.attributes},
                    }
                    for span in scope.spans
                ]

    def take_metrics(self, request: ExportMetricsServiceRequest) -> None:
        for resource in request.resource_metrics:
            for scope in resource.scope_metrics:
                self.metrics.update({metric.name: metric for metric in scope.metrics})

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def collector() -> Iterator[Collector]:
    found = Collector()
    yield found
    found.close()


def by_name(spans: list[dict[str, Any]]) -> Spans:
    found: Spans = {}
    for span in spans:
        found.setdefault(span["name"], []).append(span)
    return found


def check(spans: list[dict[str, Any]], workflow_id: str) -> None:
    """Check that there is one trace, with each span below the right one."""
    found = by_name(spans)
    (order,) = found["order"]
    ours = [span for span in spans if span["trace"] == order["trace"]]
    assert order["parent"] is None
    (start,) = found["POST /api/workflow"]
    assert start["parent"] == order["span"]
    for task in ("plain", "waiting", "apart"):
        (execution,), (own,), (report,), (poll,) = (
            found[f"{what} {task}"] for what in ("execute", "own", "report", "poll")
        )
        assert {span["trace"] for span in (execution, own, report, poll)} == {order["trace"]}
        assert execution["parent"] == report["parent"] == poll["parent"] == start["span"]
        assert own["parent"] == execution["span"]
        (wait,) = found[f"queue wait {task}"]
        assert (wait["trace"], wait["parent"]) == (order["trace"], start["span"])
        assert execution["attributes"]["conductor.task.type"] == task
        assert execution["attributes"]["conductor.task.id"]
        in_sub_workflow = task == "waiting"
        assert (execution["attributes"]["conductor.workflow.id"] == workflow_id) is not in_sub_workflow
    # The coordinator's own: each request that changes something, and below it what was decided and committed.
    requests = {span["span"]: span["name"] for span in ours if span["name"].startswith("POST ")}
    commits = [requests[span["parent"]] for span in found["decide and commit"]]
    assert sorted(commits) == ["POST /api/tasks/reports"] * 3 + ["POST /api/workflow"]


def test_one_trace_through_def_async_def_a_sub_workflow_and_a_process(tmp_path: Path) -> None:
    done = run("memory", str(tmp_path / "spans.jsonl"))
    check(done["spans"], done["workflow"])
    (apart,) = by_name(done["spans"])["own apart"]
    assert apart["pid"] == done["outputs"]["apart"]["pid"] != done["pid"]


def test_a_workflow_that_is_not_sampled_has_no_spans(tmp_path: Path) -> None:
    """Worker, functions and coordinator would each keep a span without a parent."""
    (tmp_path / "spans.jsonl").touch()
    done = run("memory", str(tmp_path / "spans.jsonl"), TRACEPARENT.removesuffix("01") + "00")
    assert done["outputs"]["apart"]["pid"]
    assert [span["name"] for span in done["spans"]] == []


def test_the_same_over_otlp_set_up_by_variables_alone(collector: Collector) -> None:
    done = run("otlp", OTEL_EXPORTER_OTLP_ENDPOINT=collector.url)
    check(collector.spans, done["workflow"])


def test_a_collector_that_does_not_answer_blocks_no_task(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    exporter = OTLPSpanExporter(f"{collector.url}/v1/traces")
    provider = TracerProvider(shutdown_on_exit=False)
    # The processor's thread is woken by a full batch, and otherwise not within this test.
    provider.add_span_processor(
        BatchSpanProcessor(exporter, max_queue_size=16, max_export_batch_size=16, schedule_delay_millis=1e8)
    )
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    tracer = tracing.Tracer()
    collector.answers.clear()
    try:
        for number in range(100):
            assert start_task_trace(tracer, ("work", str(number), "worker", "flow"), TRACEPARENT, 0) is not None
    finally:
        collector.answers.set()
        provider.shutdown()
    # At most one batch was being sent; of the other spans, the queue holds 16.
    assert 16 <= len(collector.spans) < 100


def test_the_variables_of_opentelemetry_set_the_size_of_a_batch(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100000000")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "400")
    providers: list[TracerProvider] = []
    monkeypatch.setattr(trace, "get_tracer_provider", trace.ProxyTracerProvider)
    monkeypatch.setattr(trace, "set_tracer_provider", providers.append)
    tracing.set_up(tracing.AUTO)
    (provider,) = providers
    tracer = provider.get_tracer("shop")
    for number in range(1200):
        tracer.start_span(str(number), Context()).end()
    provider.shutdown()
    assert len(collector.spans) == 1200
    assert collector.requests == 3


def test_the_coordinator_carries_a_trace_although_it_does_not_trace() -> None:
    flow = {"name": "flow", "tasks": [{"name": "work", "taskReferenceName": "work"}]}
    with Coordinator() as coordinator, httpx.Client(base_url=coordinator.url) as api:
        for header in (TRACEPARENT, "00-nonsense", None):
            headers = {} if header is None else {"traceparent": header}
            assert api.post("/workflow", json={"name": "flow", "workflowDef": flow}, headers=headers).status_code == 200
        tasks = api.get("/tasks/poll/batch/work", params={"count": 3, "timeout": 0}).json()
        shown = api.get(f"/workflow/{tasks[0]['workflowInstanceId']}").json()
    assert [task.get("traceparent") for task in tasks] == [TRACEPARENT, None, None]
    assert "traceparent" not in shown


@pytest.mark.parametrize("ratio", [0.0, 1.0])
def test_the_request_that_starts_a_workflow_decides_about_sampling_for_all_its_tasks(
    monkeypatch: pytest.MonkeyPatch, ratio: float
) -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(sampler=ParentBasedTraceIdRatio(ratio))
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    monkeypatch.setattr(tracing, "tracer", tracing.Tracer())
    flow = {"name": "flow", "tasks": [{"name": "work", "taskReferenceName": "work"}]}
    with Coordinator() as coordinator, httpx.Client(base_url=coordinator.url) as api:
        for _ in range(2):  # on one connection, where the first span must not stay current
            assert api.post("/workflow", json={"name": "flow", "workflowDef": flow}).status_code == 200
        tasks = api.get("/tasks/poll/batch/work", params={"count": 2, "timeout": 0}).json()
    traceparents = {task["traceparent"] for task in tasks}
    assert len({traceparent[3:35] for traceparent in traceparents}) == 2
    assert {int(traceparent[-2:], 16) & 1 for traceparent in traceparents} == {int(ratio)}
    finished = sorted(exporter.get_finished_spans(), key=lambda span: span.name)
    names = ["POST /api/workflow", "POST /api/workflow", "decide and commit", "decide and commit"]
    assert [span.name for span in finished] == (names if ratio else [])
    for span in finished[:2]:
        assert span.kind is SpanKind.SERVER
        assert dict(span.attributes or {}) == {"http.request.method": "POST", "http.route": "/api/workflow"}


@pytest.mark.parametrize(
    "carried_too", [None, TRACEPARENT], ids=["Conductor server", "coordinator with the same mapping"]
)
async def test_no_function_sees_the_traceparent_in_its_input(
    conductor_stub: ConductorStub, carried_too: str | None
) -> None:
    conductor_stub.add_task("job", {"a": 1, "_traceparent": TRACEPARENT}, traceparent=carried_too)

    def job(**given: Any) -> dict[str, Any]:
        return {"given": sorted(given)}

    async with TaskHandlerAsyncIO([Worker("job", job)], Configuration(conductor_stub.url)):
        await conductor_stub.until(lambda: conductor_stub.requests_of("update"))
    (result,) = conductor_stub.wait_results(1)
    assert result["outputData"] == {"given": ["a"]}


def test_metrics_are_pushed(collector: Collector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    hub = MetricsHub(MetricsSettings(directory=str(tmp_path), buckets=(0.1, 1), otlp=True))
    hub.start()
    counting = MetricsCollector.for_process(hub.child_settings())
    counting.increment_task_poll("pay")
    for seconds in (0.05, 0.5, 30):
        counting.record_task_execute_time("pay", seconds)
    hub.stop()  # the last push comes with it
    counting.close()
    (polls,) = collector.metrics["task_poll_total"].sum.data_points
    assert (polls.as_double, polls.attributes[0].value.string_value) == (1, "pay")
    (times,) = collector.metrics["task_execute_time_histogram_seconds"].histogram.data_points
    assert (list(times.explicit_bounds), list(times.bucket_counts)) == ([0.1, 1], [1, 1, 1])
    assert (times.count, times.sum) == (3, pytest.approx(30.55))
    assert "task_execute_time_seconds" not in collector.metrics


def test_a_setting_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="module:function"):
        Configuration(tracing="loud")


def test_a_404_is_no_error_and_the_end_of_a_workflow_names_its_trace_o10(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    monkeypatch.setattr(tracing, "tracer", tracing.Tracer())
    with Coordinator() as coordinator, httpx.Client(base_url=coordinator.url) as api:
        unknown = {"name": "first", "ownerEmail": "a@example.com"}
        assert api.put("/metadata/taskdefs", json=unknown).status_code == 404
        flow = {"name": "flow", "tasks": [{"name": "end", "type": "TERMINATE", "taskReferenceName": "end"}]}
        flow["tasks"][0]["inputParameters"] = {"terminationStatus": "FAILED", "terminationReason": "enough"}  # type: ignore[index]
        headers = {"traceparent": TRACEPARENT}
        started = api.post("/workflow", json={"name": "flow", "workflowDef": flow}, headers=headers)
        assert started.status_code == 200
    spans = [span for span in exporter.get_finished_spans() if span.name == "PUT /api/metadata/taskdefs"]
    assert [span.attributes and span.attributes["http.response.status_code"] for span in spans] == [404]
    assert {span.status.status_code for span in exporter.get_finished_spans()} == {StatusCode.UNSET}
    (line,) = [record for record in caplog.records if "ended as FAILED" in record.message]
    assert vars(line)["trace_id"] == TRACEPARENT.split("-")[1]
