"""The spans of a task, as an exporter of OpenTelemetry's SDK sees them."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from opentelemetry import context, trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, Decision, ParentBasedTraceIdRatio, Sampler, SamplingResult
from opentelemetry.trace import StatusCode

from conductor.client.automator import task_trace
from conductor.client.automator.task_trace import find_queue_times, start_task_trace
from conductor.client.http.models.task import Task
from conductor.telemetry import tracing

ABOUT = ("pay", "task-1", "worker-1", "flow-1")
SAMPLED = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
UNSAMPLED = SAMPLED.removesuffix("01") + "00"


@pytest.fixture(autouse=True)
def _restored_span() -> Iterator[None]:
    """Make the previous span current again. A task that is not sampled leaves its span current."""
    token = context.attach(Context())
    yield
    context.detach(token)


class Provider:
    """A provider that keeps its finished spans, and a tracer that uses it."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, sampler: Sampler | None = None, *processors: SpanProcessor
    ) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider(sampler=sampler)
        for processor in (*processors, SimpleSpanProcessor(self._exporter)):
            provider.add_span_processor(processor)
        monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
        self.tracer = tracing.Tracer()

    def finished(self) -> list[ReadableSpan]:
        return list(self._exporter.get_finished_spans())

    def run_task(self, traceparent: object, error: BaseException | None = None) -> None:
        """Trace one sampled task from its poll to its report."""
        found = start_task_trace(self.tracer, ABOUT, traceparent, 2.0)
        assert found is not None
        found.start_execution()
        found.end_execution(error)
        with found.start_report():
            pass


class RecordingSampler(Sampler):
    """Drops the spans of one name and remembers the names that it was asked about."""

    def __init__(self, dropped: str = "") -> None:
        self._dropped = dropped
        self.names: list[str] = []

    def should_sample(
        self, parent_context: Context | None, trace_id: int, name: str, *_: Any, **__: Any
    ) -> SamplingResult:
        self.names.append(name)
        return SamplingResult(Decision.DROP if name == self._dropped else Decision.RECORD_AND_SAMPLE)

    def get_description(self) -> str:
        return "RecordingSampler"


class AddingProcessor(SpanProcessor):
    """Adds an attribute to each span at its start, as processors that carry baggage do."""

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        span.set_attribute("added", f"{span.name} {span.kind.name}")


def test_a_task_has_three_spans_below_its_traceparent(monkeypatch: pytest.MonkeyPatch) -> None:
    provider = Provider(monkeypatch, None, AddingProcessor())
    found = start_task_trace(provider.tracer, ABOUT, SAMPLED, 2.0)
    assert found is not None
    found.start_execution()
    trace.get_current_span().set_attribute("own", 1)
    found.end_execution(None)
    with found.start_report():
        sent = tracing.current_traceparent()
    poll, execution, report = provider.finished()
    ids = {"conductor.task.id": "task-1", "conductor.workflow.id": "flow-1"}
    assert dict(poll.attributes or {}) == {**ids, "added": "poll pay CONSUMER"}
    assert dict(execution.attributes or {}) == {
        **ids,
        "conductor.task.type": "pay",
        "conductor.worker.id": "worker-1",
        "own": 1,
        "added": "execute pay CONSUMER",
    }
    assert dict(report.attributes or {}) == {**ids, "added": "report pay PRODUCER"}
    for span in (poll, execution, report):
        assert span.context is not None
        assert span.parent is not None
        assert f"{span.context.trace_id:032x}" == SAMPLED[3:35]
        assert f"{span.parent.span_id:016x}" == SAMPLED[36:52]
        assert span.parent.is_remote
        assert span.instrumentation_scope is not None
        assert span.instrumentation_scope.name == "conductor-worker"
    assert poll.end_time is not None
    assert poll.start_time is not None
    assert poll.end_time - poll.start_time > 1.9e9
    assert report.context is not None
    assert sent == f"{SAMPLED[:35]}-{report.context.span_id:016x}-01"


@pytest.mark.parametrize("traceparent", [None, "nonsense", 7, "00-" + "0" * 32 + "-b7ad6b7169203331-01"])
def test_without_a_valid_traceparent_the_poll_begins_the_trace(
    monkeypatch: pytest.MonkeyPatch, traceparent: object
) -> None:
    provider = Provider(monkeypatch)
    provider.run_task(traceparent)
    poll, execution, report = provider.finished()
    assert poll.parent is None
    assert execution.parent == report.parent == poll.context


def test_the_sampler_is_asked_about_each_span_of_a_sampled_task(monkeypatch: pytest.MonkeyPatch) -> None:
    sampler = RecordingSampler()
    Provider(monkeypatch, sampler).run_task(SAMPLED)
    assert sampler.names == ["poll pay", "execute pay", "report pay"]


def test_a_sampler_that_drops_the_poll_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    sampler = RecordingSampler(dropped="poll pay")
    provider = Provider(monkeypatch, sampler)
    assert start_task_trace(provider.tracer, ABOUT, SAMPLED, 0) is None
    assert sampler.names == ["poll pay"]
    assert provider.finished() == []


def test_a_sampler_that_ignores_the_parent_keeps_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    provider = Provider(monkeypatch, ALWAYS_ON)
    provider.run_task(UNSAMPLED)
    assert [span.name for span in provider.finished()] == ["poll pay", "execute pay", "report pay"]


def test_the_functions_own_spans_are_dropped_with_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    provider = Provider(monkeypatch, ParentBasedTraceIdRatio(0.0))
    trace_ids: set[str] = set()
    for traceparent in (UNSAMPLED, None, "nonsense"):
        token = provider.tracer.attach(trace.INVALID_SPAN)
        assert start_task_trace(provider.tracer, ABOUT, traceparent, 0) is None
        sent = tracing.current_traceparent()
        assert sent is not None
        assert int(sent[-2:], 16) & 1 == 0
        assert traceparent != UNSAMPLED or sent[:35] == UNSAMPLED[:35]
        with trace.get_tracer("shop").start_as_current_span("own") as own:
            assert not own.is_recording()
            assert f"{own.get_span_context().trace_id:032x}" == sent[3:35]
        trace_ids.add(sent[3:35])
        provider.tracer.detach(token)
    assert provider.finished() == []
    assert len(trace_ids) == 3


def test_the_error_of_a_function_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    provider = Provider(monkeypatch)
    provider.run_task(SAMPLED, LookupError("no such order"))
    _, execution, report = provider.finished()
    assert (execution.status.status_code, execution.status.description) == (
        StatusCode.ERROR,
        "LookupError: no such order",
    )
    (event,) = execution.events
    assert (event.name, (event.attributes or {})["exception.type"]) == ("exception", "LookupError")
    assert report.status.is_unset


class UnreadableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("this error has no text")


def test_an_error_whose_text_cannot_be_read_is_recorded_by_its_type(monkeypatch: pytest.MonkeyPatch) -> None:
    provider = Provider(monkeypatch)
    provider.run_task(SAMPLED, UnreadableError())
    _, execution, _ = provider.finished()
    assert execution.status.description == "UnreadableError"


def test_a_provider_without_the_sdk_is_used_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace, "get_tracer", trace.NoOpTracerProvider().get_tracer)
    tracer = tracing.Tracer()
    assert start_task_trace(tracer, ABOUT, SAMPLED, 0) is None


@pytest.mark.parametrize("module", [tracing, task_trace], ids=lambda module: module.__name__)
def test_tracing_uses_no_private_name_of_another_library(module: ModuleType) -> None:
    attributes = [node for node in ast.walk(ast.parse(inspect.getsource(module))) if isinstance(node, ast.Attribute)]
    private = {
        ast.unparse(node) for node in attributes if node.attr.startswith("_") and ast.unparse(node.value) != "self"
    }
    assert private <= {"type(error).__name__"}


def test_the_wait_in_the_queue_has_a_span_o10(monkeypatch: pytest.MonkeyPatch) -> None:
    provider = Provider(monkeypatch)
    task = Task(scheduled_time=1_700_000_000_000, start_delay_in_seconds=2, start_time=1_700_000_005_500, poll_count=1)
    queued_ms = find_queue_times(task)
    assert start_task_trace(provider.tracer, ABOUT, SAMPLED, 2.0, queued_ms) is not None
    poll, wait = provider.finished()
    assert (poll.name, wait.name) == ("poll pay", "queue wait pay")
    assert wait.parent == poll.parent
    assert wait.start_time is not None
    assert abs(wait.start_time - 1_700_000_002_000 * 10**6) < 10**9
    assert wait.end_time == 1_700_000_005_500 * 10**6
    assert find_queue_times(Task()) is None
    assert find_queue_times(Task(scheduled_time=5000, start_time=4000)) is None
    assert find_queue_times(Task(scheduled_time=5000, start_time=6000, poll_count=2)) is None
