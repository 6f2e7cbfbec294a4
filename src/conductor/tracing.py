"""Traces, for both halves: spans where OpenTelemetry is set up, and nothing at all where it is not.

A trace goes from the program that starts a workflow through the workflow and its tasks into the spans of the user's own
functions. What carries it is W3C's `traceparent`: a header of the start request, a field of the polled task.

The only file that knows OpenTelemetry, with `spans` for its SDK and `otlp` for what is sent.
`tracer` is None until `set_up` or `use_present` finds something to trace with.
"""

from __future__ import annotations

import importlib
import logging
import os
import re
import sys
import time
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from contextvars import Token

    from opentelemetry.context import Context
    from opentelemetry.trace import Span

    from conductor.spans import SpanMaker

logger = logging.getLogger(__name__)

#: Where traces come from: what the program has set up, or the OTEL_… variables in processes of ours.
AUTO = "auto"
OFF = "off"
#: The header that carries a trace, and the field of a polled task.
TRACEPARENT = "traceparent"
#: Where a plain server carries it: a key of a task's input. No function sees it.
INPUT_KEY = "_traceparent"
#: What our spans are the work of.
NAME = "conductor-worker"
#: So many traceparents are remembered with what they stand for.
PARENTS_KEPT = 256
#: So many spans travel in one request of our set-up, unless OTEL_BSP_… says otherwise. Ours are small: with
#: OpenTelemetry's 512, the requests cost as much as what is in them.
BATCH = 2048
#: How long the end of a process waits for its last spans to be sent.
FLUSH_MS = 5000

_FORM = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_TRACES_EXPORTER")
_SIZES = ("OTEL_BSP_MAX_QUEUE_SIZE", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE")


class TracingError(ValueError):
    """Traces were asked for and cannot be made; the message says why and what to do."""


def check_setting(text: str) -> str:
    """auto, off, or module:function that sets OpenTelemetry up."""
    if text in (AUTO, OFF) or re.fullmatch(r"[\w.]+:\w+", text):
        return text
    raise ValueError(text)


def is_traceparent(text: object) -> bool:
    """Whether this is a traceparent that can be carried on."""
    return isinstance(text, str) and _FORM.fullmatch(text) is not None


def current_traceparent() -> str | None:
    """The traceparent of the span that is under way here; None if there is none."""
    # Looked up, not imported: whoever has a span has imported it, and nobody else pays for it.
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return None
    return _traceparent(trace.get_current_span())


def _traceparent(span: Any) -> str | None:
    context = span.get_span_context()
    if not context.is_valid:
        return None
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"


class Tracer:
    """Makes spans with the provider that is set up in this process."""

    def __init__(self) -> None:
        from opentelemetry import context, trace

        self._context = context
        self._trace = trace
        self._tracer = trace.get_tracer(NAME)
        self._maker = _maker_of(self._tracer)
        self._kinds = {kind.name: kind for kind in trace.SpanKind}
        #: Tasks of one workflow come with one traceparent.
        self._parents = lru_cache(PARENTS_KEPT)(self._read)

    def span(
        self,
        name: str,
        parent: Context | None = None,
        attributes: Mapping[str, str] | None = None,
        *,
        kind: str = "INTERNAL",
        trace_id: int = 0,
    ) -> CurrentSpan:
        """A span around the block, current inside of it. What is raised is noted on it, and raised on."""
        return CurrentSpan(self, self.start(name, parent, attributes, kind=kind, trace_id=trace_id))

    def start(
        self,
        name: str,
        parent: Context | None,
        attributes: Mapping[str, str] | None,
        *,
        kind: str,
        ago_s: float = 0.0,
        trace_id: int = 0,
    ) -> Span:
        """A span that begins now, or began so long ago; whoever asks for it ends it. `trace_id` is what `draw` gave."""
        begun_ns = time.time_ns() - int(ago_s * 1e9) if ago_s else time.time_ns()
        if self._maker is None:
            return self._tracer.start_span(name, parent, self._kinds[kind], attributes, start_time=begun_ns)
        return self._maker.start(name, parent, attributes, self._kinds[kind], begun_ns, trace_id)

    def draw(self, traceparent: object, parent: Context | None) -> int | Token[Context]:
        """The trace that begins here, or 0. A token: it is left out, as what is current says until that is detached.

        Only what is known without asking a sampler; that one has its say when the first span starts.
        """
        if self._maker is None or (parent is None and self._context.get_current()):
            return 0
        # The flags are the last thing in a traceparent, and the lowest bit says that it is sampled.
        found = self._maker.draw(parent is not None, parent is not None and str(traceparent)[-1] in "13579bdf")
        if found is None:
            return self.attach(self._maker.left_out if parent is None else parent)
        return found

    def beside(
        self, first: Any, name: str, parent: Context | None, attributes: Mapping[str, str], *, kind: str
    ) -> Span:
        """One that begins now, of the same trace and as wanted as the first: the sampler is not asked again.

        Args:
            first: What `start` gave with the same parent. If there is none, this one is below it.
        """
        if self._maker is None:
            above = self.context_of(first) if parent is None else parent
            return self._tracer.start_span(name, above, self._kinds[kind], attributes)
        return self._maker.beside(first, name, parent, attributes, self._kinds[kind], time.time_ns())

    def context_of(self, span: Span) -> Context:
        """The context in which a span is the current one."""
        return self._trace.set_span_in_context(span)

    def parent(self, traceparent: object) -> Context | None:
        """The context that a traceparent stands for; None for what is none."""
        return self._parents(traceparent) if isinstance(traceparent, str) else None

    def _read(self, traceparent: str) -> Context | None:
        if not is_traceparent(traceparent):
            return None
        _, trace_id, span_id, flags = traceparent.split("-")
        context = self._trace.SpanContext(
            int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=self._trace.TraceFlags(int(flags, 16))
        )
        return self._trace.set_span_in_context(self._trace.NonRecordingSpan(context))

    def failed(self, span: Span, error: BaseException) -> None:
        """Note on a span what went wrong. An error that cannot say what it is must not become another one."""
        try:
            message = f"{type(error).__name__}: {error}"
            span.record_exception(error)
        except Exception:
            message = type(error).__name__
        span.set_status(self._trace.Status(self._trace.StatusCode.ERROR, message))

    def attach(self, context: Context) -> Token[Context]:
        """Make the span of a context current."""
        return self._context.attach(context)

    def detach(self, token: Token[Context]) -> None:
        """Make the one before it current again."""
        self._context.detach(token)

    def has_span(self) -> bool:
        """Whether a span is under way here that is recorded: others have no spans below them."""
        return self._trace.get_current_span().is_recording()


def _maker_of(tracer: object) -> SpanMaker | None:
    """What makes spans for the SDK at less cost than its own way; None: somebody else's OpenTelemetry is in use."""
    sdk = sys.modules.get("opentelemetry.sdk.trace")
    if sdk is None or not isinstance(tracer, sdk.Tracer):
        return None
    from conductor.spans import SpanMaker

    return SpanMaker(tracer, NAME)


class CurrentSpan:
    """A span that is current inside of a block and ends with it. (OpenTelemetry's own does the same, more slowly.)"""

    __slots__ = ("_span", "_token", "_tracer")

    def __init__(self, tracer: Tracer, span: Span) -> None:
        self._tracer = tracer
        self._span = span

    def __enter__(self) -> Span:
        self._token = self._tracer.attach(self._tracer.context_of(self._span))
        return self._span

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._tracer.detach(self._token)
        if isinstance(error, Exception):
            self._tracer.failed(self._span, error)
        self._span.end()


#: What makes spans in this process; None: nothing does.
tracer: Tracer | None = None


def use_present() -> None:
    """Trace if the program has set OpenTelemetry up; change nothing about it."""
    global tracer
    trace = sys.modules.get("opentelemetry.trace")
    if tracer is None and trace is not None and not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        tracer = Tracer()


def set_up(setting: str) -> None:
    """In a process of ours: trace as the setting and the OTEL_… variables say."""
    if setting == OFF:
        return
    if setting != AUTO:
        _call(setting)
    elif any(os.environ.get(name) for name in _ENDPOINTS) and os.environ.get("OTEL_TRACES_EXPORTER") != "none":
        _set_up_sdk()
    use_present()


def _call(setting: str) -> None:
    module, _, name = setting.partition(":")
    try:
        getattr(importlib.import_module(module), name)()
    except (ImportError, AttributeError) as error:
        raise TracingError(f"CONDUCTOR_TRACING={setting}: {error}; name a function without arguments") from error


def _set_up_sdk() -> None:
    try:
        from opentelemetry import trace
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        # The variables may be there for other programs of the same machine.
        logger.warning("Traces are not sent: %s is not installed (pip install 'conductor-worker[otel]')", error.name)
        return
    if not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        return  # somebody was first
    provider = TracerProvider()
    # One size makes no sense without the other, so both are ours or none.
    batch = None if any(os.environ.get(name) for name in _SIZES) else BATCH
    queue = None if batch is None else 4 * batch
    processor = BatchSpanProcessor(OTLPSpanExporter(), max_queue_size=queue, max_export_batch_size=batch)
    provider.add_span_processor(processor)
    trace.set_tracer_provider(provider)


def flush() -> None:
    """Send what is still here: the process is about to end."""
    if tracer is None:
        return
    from opentelemetry import trace

    force = getattr(trace.get_tracer_provider(), "force_flush", None)
    if force is not None:
        force(FLUSH_MS)
