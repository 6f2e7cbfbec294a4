"""Traces with OpenTelemetry, for workers, clients and the coordinator.

A trace goes from the program that starts a workflow through the workflow and its tasks into the spans of the user's own
functions. W3C's `traceparent` carries it: as a header of the start request and as a field of the polled task.

Spans are started and ended with OpenTelemetry's public API. The provider of the process determines the sampler, the
span processors and the exporters. `tracer` is None, and tracing costs one comparison per task and request, until
`set_up` or `use_program_provider` finds a provider. `client/automator/task_trace.py` starts the spans of a task.
"""

from __future__ import annotations

import importlib
import logging
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from contextvars import Token

    from opentelemetry.context import Context
    from opentelemetry.trace import Span

logger = logging.getLogger(__name__)

#: Use the program's own provider or, in processes of this package, the one that the OTEL_… variables describe.
AUTO = "auto"
OFF = "off"
#: The name of the HTTP header and of the field of a polled task.
TRACEPARENT = "traceparent"
#: The input key that carries the traceparent on Conductor servers. It is removed before a worker function runs.
INPUT_KEY = "_traceparent"
#: The instrumentation scope of the spans.
INSTRUMENTATION_NAME = "conductor-worker"
#: A process that ends waits this long for its last spans to be sent.
FLUSH_TIMEOUT_MS = 5000

_TRACEPARENT_PATTERN = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_EXPORTER_VARIABLES = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_TRACES_EXPORTER")

#: The names of OpenTelemetry's `SpanKind`, for modules that must not import OpenTelemetry.
SpanKindName = Literal["INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER"]


class TracingError(ValueError):
    """Tracing was requested and cannot be set up. The message says why and what to do."""


def check_setting(text: str) -> str:
    """Return a valid setting: auto, off, or a module:function that sets up OpenTelemetry.

    Raises:
        ValueError: The setting is not valid.
    """
    if text in (AUTO, OFF) or re.fullmatch(r"[\w.]+:\w+", text):
        return text
    raise ValueError(text)


def is_traceparent(text: object) -> bool:
    """Return whether this is a valid traceparent of W3C's version 00."""
    return isinstance(text, str) and _TRACEPARENT_PATTERN.fullmatch(text) is not None


def read_trace_id(traceparent: str) -> str:
    """Return the trace id of a valid traceparent."""
    return traceparent.split("-")[1]


def current_traceparent() -> str | None:
    """Return the traceparent of the current span; None without one."""
    # Do not import OpenTelemetry here, because programs without spans do not need it. A program with a span has
    # imported it.
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return None
    context = trace.get_current_span().get_span_context()
    if not context.is_valid:
        return None
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"


class Tracer:
    """Starts spans with the OpenTelemetry provider of this process.

    The class exists so that OpenTelemetry is imported only where it is used.
    """

    def __init__(self) -> None:
        from opentelemetry import context, trace
        from opentelemetry.trace.propagation import tracecontext

        self._context = context
        self._trace = trace
        self._tracer = trace.get_tracer(INSTRUMENTATION_NAME)
        self._propagator = tracecontext.TraceContextTextMapPropagator()

    def start_span(
        self,
        name: str,
        parent: Context | None,
        attributes: Mapping[str, str],
        *,
        kind: SpanKindName,
        seconds_ago: float = 0.0,
    ) -> Span:
        """Start a span that is not current. The caller ends it.

        Args:
            name: The name of the span.
            parent: The context with the parent span; None for the current context.
            attributes: The attributes that the sampler sees.
            kind: The name of the span's kind.
            seconds_ago: How long ago the span began.
        """
        start_ns = time.time_ns() - int(seconds_ago * 1e9)
        return self._tracer.start_span(name, parent, self._trace.SpanKind[kind], attributes, start_time=start_ns)

    def start_current_span(
        self,
        name: str,
        parent: Context | None = None,
        attributes: Mapping[str, str] | None = None,
        *,
        kind: SpanKindName = "INTERNAL",
    ) -> AbstractContextManager[Span]:
        """Start a span that is current inside the block. An error is recorded on the span and raised again."""
        return self._tracer.start_as_current_span(name, parent, self._trace.SpanKind[kind], attributes)

    @contextmanager
    def start_request_span(
        self,
        name: str,
        parent: Context | None = None,
        attributes: Mapping[str, str] | None = None,
        *,
        kind: SpanKindName = "INTERNAL",
    ) -> Iterator[Span]:
        """Start a span of the server that is current inside the block, for one request or a part of it.

        An error with a `status` below 500 is an answer to the client, so the span has the status but has not failed.
        """
        with self._tracer.start_as_current_span(
            name,
            parent,
            self._trace.SpanKind[kind],
            attributes,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                yield span
            except Exception as error:
                status = getattr(error, "status", 500)
                span.set_attribute("http.response.status_code", status)
                if status >= 500:
                    self.record_error(span, error)
                raise

    def read_parent(self, traceparent: object) -> Context | None:
        """Return a context with the remote span of a traceparent; None if the traceparent is not valid."""
        if not is_traceparent(traceparent):
            return None
        return self._propagator.extract({TRACEPARENT: str(traceparent)})

    def record_error(self, span: Span, error: BaseException) -> None:
        """Record an error of a user's function. An error whose text cannot be read is recorded by its type."""
        try:
            message = f"{type(error).__name__}: {error}"
            span.record_exception(error)
        except Exception:
            message = type(error).__name__
        span.set_status(self._trace.Status(self._trace.StatusCode.ERROR, message))

    def add_to_context(self, span: Span) -> Context:
        """Return the current context with this span as the current one."""
        return self._trace.set_span_in_context(span)

    def attach(self, span: Span) -> Token[Context]:
        """Make a span current. Return the token for `detach`."""
        return self._context.attach(self.add_to_context(span))

    def detach(self, token: Token[Context]) -> None:
        """Make the previous span current again."""
        self._context.detach(token)

    def is_recording(self) -> bool:
        """Return whether the current span is recorded."""
        return self._trace.get_current_span().is_recording()


#: Starts the spans of this process; None while no provider is set up.
tracer: Tracer | None = None


def use_program_provider() -> None:
    """Turn tracing on if the program has set up an OpenTelemetry provider. Does not change the provider."""
    global tracer
    trace = sys.modules.get("opentelemetry.trace")
    if tracer is None and trace is not None and not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        tracer = Tracer()


def set_up(setting: str) -> None:
    """Set tracing up in a process of this package.

    Args:
        setting: `auto` follows the OTEL_… variables, `off` does nothing, `module:function` is called.

    Raises:
        TracingError: The function of the setting cannot be imported or called.
    """
    if setting == OFF:
        return
    if setting != AUTO:
        _call_function(setting)
    elif any(os.environ.get(name) for name in _EXPORTER_VARIABLES) and os.environ.get("OTEL_TRACES_EXPORTER") != "none":
        _set_up_sdk()
    use_program_provider()


def _call_function(setting: str) -> None:
    module, _, name = setting.partition(":")
    try:
        getattr(importlib.import_module(module), name)()
    except (ImportError, AttributeError) as error:
        raise TracingError(f"CONDUCTOR_TRACING={setting}: {error}; set it to a function without arguments") from error


def _set_up_sdk() -> None:
    """Set up a provider that sends spans as OTLP over HTTP, unless there is a provider already."""
    try:
        from opentelemetry import trace
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        # A warning, not an error: the variables may be meant for other programs of the same machine.
        logger.warning("Traces are not sent: %s is not installed (pip install 'conductor-worker[otel]')", error.name)
        return
    if not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        return
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)


def flush() -> None:
    """Send the spans that are still queued, because the process is about to end."""
    if tracer is None:
        return
    from opentelemetry import trace

    force_flush = getattr(trace.get_tracer_provider(), "force_flush", None)
    if force_flush is not None:
        force_flush(FLUSH_TIMEOUT_MS)
