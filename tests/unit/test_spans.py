"""Our spans beside those of OpenTelemetry's SDK: whoever exports or processes them sees the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanLimits, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace import Tracer as SdkTracer
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import (
    ALWAYS_OFF,
    ALWAYS_ON,
    Decision,
    ParentBased,
    ParentBasedTraceIdRatio,
    Sampler,
    SamplingResult,
    TraceIdRatioBased,
)
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from conductor import tracing
from conductor.client.automator.task_trace import begin_trace
from conductor.coordinator import Coordinator
from conductor.spans import LiveSpan, SpanMaker, bound_of

ABOUT = ("pay", "task-1", "worker-1", "flow-1")
WANTED = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
UNWANTED = WANTED.removesuffix("01") + "00"


class Made:
    """A provider that keeps what it is given, and both ways to make spans for it."""

    def __init__(self, sampler: Sampler | None = None, *processors: SpanProcessor, **options: Any) -> None:
        self._kept = InMemorySpanExporter()
        self.provider = TracerProvider(sampler=sampler, resource=Resource({"service.name": "shop"}), **options)
        for processor in (*processors, SimpleSpanProcessor(self._kept)):
            self.provider.add_span_processor(processor)
        found = self.provider.get_tracer(tracing.NAME)
        assert isinstance(found, SdkTracer)
        self.sdk = found
        self.maker = SpanMaker(self.sdk, tracing.NAME)

    def ours(self, parent: Context | None = None) -> trace.Span:
        return self.maker.start("work", parent, {"a": "b"}, SpanKind.CONSUMER, 5)

    def theirs(self, parent: Context | None = None) -> trace.Span:
        return self.sdk.start_span("work", parent, SpanKind.CONSUMER, {"a": "b"}, start_time=5)

    def seen(self) -> list[ReadableSpan]:
        found = list(self._kept.get_finished_spans())
        self._kept.clear()
        return found


def tracer_of(made: Made, monkeypatch: pytest.MonkeyPatch) -> tracing.Tracer:
    monkeypatch.setattr(trace, "get_tracer", made.provider.get_tracer)
    return tracing.Tracer()


def shown(span: ReadableSpan) -> dict[str, Any]:
    """What an exporter can read, without what is drawn by chance."""
    found: dict[str, Any] = json.loads(span.to_json())
    assert found.pop("context")["span_id"]
    for event in found["events"]:
        event.pop("timestamp")
    found["scope"] = span.instrumentation_scope.name if span.instrumentation_scope else None
    found["dropped"] = (span.dropped_attributes, span.dropped_events, span.dropped_links)
    return found


def fail(span: trace.Span) -> None:
    with pytest.raises(LookupError), span:
        raise LookupError("no such order")


def link(span: trace.Span) -> None:
    span.add_link(SpanContext(1, 2, True, TraceFlags(1)), {"why": "because"})
    span.add_link(SpanContext(0, 0, True))


def too_much(span: trace.Span) -> None:
    for number in range(4):
        span.set_attribute(f"k{number}", "long" * number)
        span.add_event(f"e{number}", {"x": "long" * 3})


def after_the_end(span: trace.Span) -> None:
    span.end(8)
    span.end(9)
    span.set_attribute("late", 1)
    span.add_event("late")
    span.update_name("late")
    span.set_status(StatusCode.ERROR)
    assert not span.is_recording()


@pytest.mark.parametrize(
    "use",
    [
        lambda span: None,
        lambda span: span.set_attributes({"n": 1, "ok": True, "many": [1, 2]}),
        lambda span: span.add_event("paid", {"n": 1}),
        lambda span: span.update_name("other"),
        lambda span: span.set_status(StatusCode.ERROR, "broken"),
        lambda span: (span.set_status(StatusCode.OK), span.set_status(StatusCode.ERROR, "too late")),
        lambda span: (span.set_status(Status(StatusCode.ERROR, "x")), span.set_status(Status(StatusCode.UNSET))),
        lambda span: span.record_exception(ValueError("no"), {"n": 1}),
        fail,
        link,
        too_much,
        after_the_end,
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_an_exporter_sees_what_it_sees_of_the_sdks(use: Callable[[trace.Span], Any]) -> None:
    made = Made(span_limits=SpanLimits(max_attributes=3, max_events=2, max_attribute_length=6))
    for start in (made.ours, made.theirs):
        span = start()
        assert span.is_recording()
        use(span)
        span.end(7)
    ours, theirs = (shown(span) for span in made.seen())
    if use is fail:  # the same, but for the time of its end
        for one in (ours, theirs):
            assert one.pop("end_time")
    assert ours == theirs


class Samples(Sampler):
    """Decides as it is told, adds something, and remembers what it was asked."""

    def __init__(self, decision: Decision) -> None:
        self.decision = decision
        self.asked: list[str] = []

    def should_sample(
        self,
        parent_context: Context | None,
        trace_id: int,
        name: str,
        kind: SpanKind | None = None,
        attributes: Any = None,
        *_: Any,
        **__: Any,
    ) -> SamplingResult:
        self.asked.append(name)
        return SamplingResult(self.decision, {**attributes, "by": "sampler"}, trace.TraceState([("a", "b")]))

    def get_description(self) -> str:
        return "Samples"


@pytest.mark.parametrize("decision", list(Decision))
def test_any_sampler_is_asked(decision: Decision) -> None:
    made = Made(Samples(decision))
    ours, theirs = made.ours(), made.theirs()
    assert ours.is_recording() == theirs.is_recording() == (decision is not Decision.DROP)
    for span in (ours, theirs):
        context = span.get_span_context()
        assert context.trace_flags.sampled == (decision is Decision.RECORD_AND_SAMPLE)
        assert context.trace_state == trace.TraceState([("a", "b")])
        span.end(7)
    assert [dict(span.attributes or {}) for span in made.seen()] in ([], [{"a": "b", "by": "sampler"}] * 2)


@pytest.mark.parametrize(
    "sampler",
    [
        ParentBased(ALWAYS_ON),
        ParentBased(ALWAYS_OFF),
        ParentBased(TraceIdRatioBased(0.3)),
        ParentBasedTraceIdRatio(0.7),
        ParentBasedTraceIdRatio(0.0),
        ParentBasedTraceIdRatio(1.0),
    ],
)
def test_what_usual_samplers_say_is_known(sampler: ParentBased) -> None:
    bound = bound_of(sampler)
    assert bound is not None
    for number in range(500):
        trace_id = (number << 64) + number * (1 << 64) // 500
        kept = sampler.should_sample(None, trace_id, "work").decision.is_sampled()  # type: ignore[no-untyped-call]
        assert kept == (trace_id & ((1 << 64) - 1) < bound)


@pytest.mark.parametrize(
    "sampler", [ALWAYS_ON, TraceIdRatioBased(0.5), ParentBased(ALWAYS_ON, remote_parent_not_sampled=ALWAYS_ON)]
)
def test_what_others_say_is_not(sampler: Sampler) -> None:
    assert bound_of(sampler) is None


def test_whoever_does_not_heed_the_parent_is_asked_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Made(ALWAYS_ON)
    assert begin_trace(tracer_of(made, monkeypatch), ABOUT, UNWANTED, 0) is not None
    assert [span.name for span in made.seen()] == ["poll pay"]


class Adds(SpanProcessor):
    """Adds to each span when it begins, as processors that carry baggage do."""

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        span.set_attribute("of", f"{span.name} {span.kind.name} {dict(span.attributes or {})['conductor.task.id']}")


def test_a_task_has_three_spans_of_one_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Samples(Decision.RECORD_AND_SAMPLE)
    made = Made(asked, Adds())
    tracer = tracer_of(made, monkeypatch)
    found = begin_trace(tracer, ABOUT, WANTED, 2.0)
    assert found is not None
    found.begin_execution()
    here = trace.get_current_span()
    here.set_attribute("mine", 1)
    found.end_execution(None)
    with found.report():
        sent = tracing.current_traceparent()
    poll, execution, report = made.seen()
    assert asked.asked == ["poll pay"]  # once for all of them
    assert [span.name for span in (poll, execution, report)] == ["poll pay", "execute pay", "report pay"]
    for span in (poll, execution, report):
        assert span.context is not None
        assert span.parent is not None
        assert f"{span.context.trace_id:032x}" == WANTED[3:35]
        assert f"{span.parent.span_id:016x}" == WANTED[36:52]
        attributes = dict(span.attributes or {})
        assert attributes["conductor.workflow.id"] == "flow-1"
        assert str(attributes["of"]).startswith(span.name)
    assert poll.end_time is not None
    assert poll.start_time is not None
    assert poll.end_time - poll.start_time > 1.9e9
    assert (execution.attributes or {})["mine"] == 1
    assert here.get_span_context() == execution.context
    assert report.context is not None
    assert sent == f"{WANTED[:35]}-{report.context.span_id:016x}-01"


def test_of_what_is_not_wanted_there_is_only_that_it_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Made(ParentBasedTraceIdRatio(0.0))
    tracer = tracer_of(made, monkeypatch)
    seen: set[str] = set()
    for traceparent in (UNWANTED, None, "nonsense"):
        token = tracer.attach(Context())
        assert begin_trace(tracer, ABOUT, traceparent, 0) is None
        with made.sdk.start_as_current_span("own") as own:
            assert not own.is_recording()
        here = tracing.current_traceparent()
        assert here is not None
        assert here[3:35] == f"{own.get_span_context().trace_id:032x}"
        seen.add(here)
        assert here.endswith(("00", "02"))
        assert traceparent != UNWANTED or here == UNWANTED
        tracer.detach(token)
    assert made.seen() == []
    assert len(seen) == 3


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("nobody reads me")


@pytest.mark.parametrize("sdk", [True, False])
def test_an_error_that_cannot_be_read_fails_nothing_else(monkeypatch: pytest.MonkeyPatch, sdk: bool) -> None:
    made = Made()
    tracer = tracer_of(made, monkeypatch)
    if not sdk:
        monkeypatch.setattr(tracer, "_maker", None)
    found = begin_trace(tracer, ABOUT, WANTED, 0)
    assert found is not None
    found.begin_execution()
    found.end_execution(Mute())
    _, execution = made.seen()
    assert execution.status.description == "Mute"


def test_another_opentelemetry_is_used_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is set up may be anything that has OpenTelemetry's API."""
    provider = trace.NoOpTracerProvider()
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    tracer = tracing.Tracer()
    assert begin_trace(tracer, ABOUT, WANTED, 0) is None
    made = Made()
    tracer = tracer_of(made, monkeypatch)
    monkeypatch.setattr(tracer, "_maker", None)
    found = begin_trace(tracer, ABOUT, WANTED, 0)
    assert found is not None
    found.begin_execution()
    assert not isinstance(trace.get_current_span(), LiveSpan)
    found.end_execution(None)
    with found.report():
        pass
    assert [span.name for span in made.seen()] == ["poll pay", "execute pay", "report pay"]


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_a_start_without_a_trace_says_for_all_its_tasks_whether_they_are_wanted(
    monkeypatch: pytest.MonkeyPatch, share: float
) -> None:
    made = Made(ParentBasedTraceIdRatio(share))
    monkeypatch.setattr(tracing, "tracer", tracer_of(made, monkeypatch))
    flow = {"name": "flow", "tasks": [{"name": "work", "taskReferenceName": "work"}]}
    with Coordinator() as coordinator, httpx.Client(base_url=coordinator.url) as api:
        for _ in range(2):  # on one connection, where nothing of the first is left
            assert api.post("/workflow", json={"name": "flow", "workflowDef": flow}).status_code == 200
        tasks = api.get("/tasks/poll/batch/work", params={"count": 2, "timeout": 0}).json()
    given = {task["traceparent"] for task in tasks}
    assert len({traceparent[3:35] for traceparent in given}) == 2
    assert {int(traceparent[-2:], 16) & 1 for traceparent in given} == {int(share)}
    names = ["POST /api/workflow", "POST /api/workflow", "decide and commit", "decide and commit"]
    assert sorted(span.name for span in made.seen()) == (names if share else [])
