"""What we write as OTLP, beside what OpenTelemetry's own encoder makes of the same spans."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.exporter.otlp.proto.http import trace_exporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1 import trace_pb2
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanLimits, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace import Tracer as SdkTracer
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanContext, SpanKind, StatusCode, TraceFlags, TraceState

from conductor import otlp
from conductor.spans import LiveSpan, SpanMaker

RESOURCE = Resource({"service.name": "shop", "args": ("a", "b"), "n": 1}, "https://example.org/schema")


class Asked:
    """OpenTelemetry's encoder, and what it was asked to write."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def __call__(self, spans: Sequence[ReadableSpan]) -> ExportTraceServiceRequest:
        self.names += [span.name for span in spans]
        return encode_spans(spans)


def maker_of(provider: TracerProvider) -> SpanMaker:
    tracer = provider.get_tracer("ours")
    assert isinstance(tracer, SdkTracer)
    return SpanMaker(tracer, "ours")


MAKER = maker_of(TracerProvider(resource=RESOURCE, span_limits=SpanLimits(max_attributes=6, max_events=2)))


def decoded(body: bytes) -> list[trace_pb2.Span]:
    """The spans of a request, in some order; what stands around them is checked on the way."""
    (expected,) = encode_spans(
        [ReadableSpan("", otlp.Ended.context, resource=RESOURCE, instrumentation_scope=MAKER.scope)]
    ).resource_spans
    found: list[trace_pb2.Span] = []
    for in_resource in ExportTraceServiceRequest.FromString(body).resource_spans:
        assert in_resource.resource == expected.resource
        assert in_resource.schema_url == expected.schema_url
        for in_scope in in_resource.scope_spans:
            assert in_scope.scope == expected.scope_spans[0].scope
            found += in_scope.spans
    return sorted(found, key=trace_pb2.Span.SerializeToString)


def to_the_byte(spans: list[trace_pb2.Span]) -> list[bytes]:
    """The same for what is equal and not the same: zero and minus zero."""
    return [span.SerializeToString(deterministic=True) for span in spans]


ids = st.integers(1, 2**64 - 1)
traces = st.integers(1, 2**128 - 1)
#: Also what is no text at all: a half of a pair.
texts = st.text(st.characters(exclude_categories=[])) | st.text(st.characters(exclude_categories=["Cs"]), min_size=130)
whole_texts = st.text(st.characters(exclude_categories=["Cs"]))
numbers = st.floats(allow_nan=False) | st.sampled_from([0.0, -0.0, 1.0])
values = st.one_of(
    texts,
    st.booleans(),
    st.integers(-(2**64), 2**64) | st.sampled_from([0, 1, -1, 127, 128, 2**63 - 1, 2**63, -(2**63)]),
    numbers,
    st.lists(texts),
    st.lists(st.integers(-5, 5)),
    st.lists(st.booleans()),
    st.lists(numbers),
)
attributes = st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), values, max_size=8)
times = st.integers(0, 2**64 - 1)
states = st.sampled_from([None, TraceState(), TraceState([("a", "b"), ("c", "d")])])
contexts = st.builds(SpanContext, traces, ids, st.booleans(), st.builds(TraceFlags, st.sampled_from([1, 3])), states)


@st.composite
def ended(draw: st.DrawFn) -> LiveSpan:
    """A span of ours, with anything that somebody may add to it; most have little."""
    span = LiveSpan(
        MAKER,
        draw(whole_texts),
        draw(traces),
        draw(ids),
        1,
        draw(states),
        draw(st.none() | contexts),
        draw(st.none() | st.dictionaries(st.sampled_from(["a", "b", "ü"]), whole_texts)),
        draw(st.sampled_from(SpanKind)),
        draw(times),
    )
    more: dict[str, Callable[[], None]] = {
        "attributes": lambda: span.set_attributes(draw(attributes)),
        "event": lambda: span.add_event(draw(whole_texts), draw(attributes), draw(st.integers(0, 2**63))),
        "link": lambda: span.add_link(draw(contexts), draw(attributes)),
        "error": lambda: span.set_status(StatusCode.ERROR, draw(st.none() | whole_texts)),
        "well": lambda: span.set_status(StatusCode.OK),
        "name": lambda: span.update_name(draw(whole_texts)),
    }
    for what in draw(st.lists(st.sampled_from(sorted(more)), max_size=4)):
        more[what]()
    span.end(draw(times))
    return span


ZEROS = [LiveSpan(MAKER, "zero", 1, 2, 1, None, None, {"a": zero}, SpanKind.CLIENT, 5) for zero in (0.0, -0.0)]
for zero in ZEROS:
    zero.end(6)


@pytest.mark.filterwarnings("ignore::UserWarning")
@example(ZEROS, [])
@given(st.lists(ended(), max_size=4), st.lists(ended(), max_size=2))
def test_a_collector_reads_what_it_reads_of_their_encoder(ours: list[LiveSpan], others: list[LiveSpan]) -> None:
    theirs = [span.readable() for span in others]
    encoder = otlp.Encoder(encode_spans, MAKER.resource, MAKER.scope)
    mixed: list[Any] = [*(otlp.Ended((span,)) for span in ours), *theirs]
    body = encoder(mixed).SerializePartialToString()
    expected = encode_spans([*(span.readable() for span in ours), *theirs]).SerializePartialToString()
    assert decoded(body) == decoded(expected)
    assert to_the_byte(decoded(body)) == to_the_byte(decoded(expected))


def plain(attributes: Any = None) -> LiveSpan:
    parent = SpanContext(7, 8, True, TraceFlags(1))
    return LiveSpan(MAKER, "work", 7, 9, 1, None, parent, attributes, SpanKind.CONSUMER, 5)


@pytest.mark.parametrize("attributes", [None, *({"a": one} for one in (True, False, 1, -1, 2**63 - 1, 2.5, "é" * 100))])
def test_what_is_usual_is_written_by_us(attributes: Any) -> None:
    asked = Asked()
    encoder = otlp.Encoder(asked, MAKER.resource, MAKER.scope)
    asked.names.clear()
    span = plain(attributes)
    span.end(6)
    body = encoder([otlp.Ended((span,))]).SerializePartialToString()
    assert asked.names == []
    (expected,) = decoded(encode_spans([span.readable()]).SerializePartialToString())
    assert decoded(body) == [expected]
    assert expected.SerializeToString() in body  # the same to the byte


@pytest.mark.parametrize(
    "use",
    [
        lambda span: span.add_event("paid"),
        lambda span: span.update_name("work" * 100),
        lambda span: span.set_status(StatusCode.ERROR),
        lambda span: span.set_attribute("many", [1, 2]),
        lambda span: span.set_attribute("long", "x" * 1000),
        lambda span: span.set_attributes({str(number): number for number in range(9)}),
    ],
)
def test_what_is_not_is_left_to_the_exporter(use: Callable[[LiveSpan], None]) -> None:
    asked = Asked()
    encoder = otlp.Encoder(asked, MAKER.resource, MAKER.scope)
    asked.names.clear()
    span = plain()
    use(span)
    span.end(6)
    body = encoder([otlp.Ended((span,))]).SerializePartialToString()
    assert asked.names == [span.name]
    assert decoded(body) == decoded(encode_spans([span.readable()]).SerializePartialToString())


class OtherExporter(OTLPSpanExporter):
    """Somebody's own, which may do anything with spans."""


class OtherProcessor(BatchSpanProcessor):
    """The same of a processor."""


def sends(exporter: SpanExporter) -> BatchSpanProcessor:
    return BatchSpanProcessor(exporter)


def exporter() -> OTLPSpanExporter:
    return OTLPSpanExporter("http://127.0.0.1:9/v1/traces")


def provider_with(*processors: SpanProcessor, resource: Resource = RESOURCE) -> TracerProvider:
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    for processor in processors:
        provider.add_span_processor(processor)
    return provider


def found_by_us(provider: TracerProvider) -> BatchSpanProcessor | None:
    maker = maker_of(provider)
    return otlp.batches(provider.get_tracer("ours").span_processor, maker.resource, maker.scope)  # type: ignore[attr-defined]


def test_the_usual_set_up_is_known() -> None:
    processor = sends(exporter())
    provider = provider_with(processor)
    for _ in range(2):  # another tracer of the same provider
        assert found_by_us(provider) is processor


@pytest.mark.parametrize(
    "processors",
    [
        list,
        lambda: [SimpleSpanProcessor(exporter())],
        lambda: [sends(InMemorySpanExporter())],
        lambda: [sends(OtherExporter("http://127.0.0.1:9/v1/traces"))],
        lambda: [OtherProcessor(exporter())],
        lambda: [sends(exporter()), SimpleSpanProcessor(InMemorySpanExporter())],
    ],
)
def test_any_other_gets_spans_as_ever(processors: Callable[[], list[SpanProcessor]]) -> None:
    assert found_by_us(provider_with(*processors())) is None


def test_an_exporter_is_left_alone_that_is_not_for_us_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two providers of one exporter have each their resource; and what somebody else has put there stays."""
    shared, changed = exporter(), exporter()
    assert found_by_us(provider_with(sends(shared))) is not None
    assert found_by_us(provider_with(sends(shared), resource=Resource({"service.name": "other"}))) is None
    monkeypatch.setattr(changed, "export", lambda spans: SpanExportResult.SUCCESS)
    assert found_by_us(provider_with(sends(changed))) is None


def test_an_exporter_that_works_in_another_way_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def export(self: OTLPSpanExporter, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return SpanExportResult.SUCCESS

    monkeypatch.setattr(OTLPSpanExporter, "export", export)
    assert found_by_us(provider_with(sends(exporter()))) is None


def test_an_encoder_that_cannot_be_used_fails_no_span(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_exporter, "encode_spans", lambda spans: 1 / 0)
    assert found_by_us(provider_with(sends(exporter()))) is None


class Remembers(SpanProcessor):
    """Who began and who ended."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        self.seen.append(f"{span.name} began")

    def on_end(self, span: ReadableSpan) -> None:
        assert isinstance(span, ReadableSpan)
        self.seen.append(f"{span.name} ended")


def test_a_processor_that_is_added_later_sees_all_from_then_on() -> None:
    kept = InMemorySpanExporter()
    # A batch processor and an exporter as they come, but none that sends anything.
    provider = provider_with(sends(kept))
    maker, late = maker_of(provider), Remembers()
    for name in ("first", "second"):
        maker.start(name, Context(), None, SpanKind.INTERNAL, 5).end()
        if name == "first":
            provider.add_span_processor(late)
    provider.force_flush()
    assert late.seen == ["second began", "second ended"]
    assert [span.name for span in kept.get_finished_spans()] == ["first", "second"]
