"""Spans for OpenTelemetry's SDK that cost a fraction of its own.

A span of the SDK's own has containers that count, cut and lock for attributes, events and links that ours do not have.
These have them only once somebody adds something: your function may, to the span of its execution. Whoever looks at
spans, a processor or an exporter, sees what it would see of the SDK's.

Where they are only sent as OTLP over HTTP, `otlp` writes what is sent, and nothing else is made of them.

Only `tracing` imports this, and only where the SDK is in use.
"""

from __future__ import annotations

import re
import time
import traceback
from collections.abc import Mapping
from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING, Any

from opentelemetry import trace
from opentelemetry.attributes import BoundedAttributes
from opentelemetry.context import Context
from opentelemetry.sdk.trace import Event, ReadableSpan, SpanLimits
from opentelemetry.sdk.trace import Tracer as SdkTracer
from opentelemetry.sdk.trace.sampling import Decision, ParentBased, Sampler, TraceIdRatioBased
from opentelemetry.sdk.util import BoundedList
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, Status, StatusCode, TraceFlags, TraceState

from conductor import otlp

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.util.types import Attributes, AttributeValue

_SAMPLED = int(TraceFlags.SAMPLED)
#: The second bit of W3C's flags: the id of the trace was drawn at random. Older releases of OpenTelemetry have no name
#: for it.
_RANDOM = 0x02
_UNSET = Status(StatusCode.UNSET)
#: The trace that is left out here. A number costs nothing to keep; what it stands for is made if somebody asks.
_left_out: ContextVar[int] = ContextVar("conductor_trace_left_out")
#: What a usual sampler compares with its bound, of a trace that nobody has begun.
ID_LIMIT = TraceIdRatioBased.TRACE_ID_LIMIT
_USUAL = re.compile(
    r"ParentBased\{root:(AlwaysOnSampler|AlwaysOffSampler|TraceIdRatioBased\{(.+?)\})"
    r",remoteParentSampled:AlwaysOnSampler,remoteParentNotSampled:AlwaysOffSampler"
    r",localParentSampled:AlwaysOnSampler,localParentNotSampled:AlwaysOffSampler\}"
)
_BOUNDS = {"AlwaysOnSampler": ID_LIMIT + 1, "AlwaysOffSampler": 0}


def bound_of(sampler: Sampler) -> int | None:
    """Traces below it are kept, for a sampler that does as the parent does and else keeps a share; None for others.

    By its description, which is all that a sampler shows of itself. What it would say is known without asking it.
    """
    usual = _USUAL.fullmatch(sampler.get_description()) if isinstance(sampler, ParentBased) else None  # type: ignore[no-untyped-call]
    if usual is None:
        return None
    return _BOUNDS[usual[1]] if usual[2] is None else TraceIdRatioBased.get_bound_for_rate(float(usual[2]))


class SpanMaker:
    """Makes spans as a tracer of the SDK does: its sampler decides, its processors see them, with its resource."""

    def __init__(self, tracer: SdkTracer, name: str) -> None:
        # Processors may be added to the provider later; that one object hands on to all of them.
        self._processor = tracer.span_processor
        self._sampler = tracer.sampler
        self._bound = bound_of(tracer.sampler)
        self._ids = tracer.id_generator
        is_random = getattr(self._ids, "is_trace_id_random", None)
        self._root_flags = _RANDOM if is_random is not None and is_random() else 0
        #: What is current in the place of a span that is not wanted.
        self.left_out = trace.set_span_in_context(LeftOut(self._root_flags), Context())
        self.resource = tracer.resource
        self.scope = InstrumentationScope(name)
        self.limits: SpanLimits = getattr(tracer, "_span_limits", None) or SpanLimits()
        self._processors: object = None
        self._batches: BatchSpanProcessor | None = None

    def draw(self, has_parent: bool, is_wanted: bool) -> int | None:
        """The trace that somebody begins, or 0 if that is decided when its first span starts; None: it is left out."""
        if self._bound is None:
            return 0
        if has_parent:
            return 0 if is_wanted else None
        trace_id = self._ids.generate_trace_id()
        if trace_id & ID_LIMIT < self._bound:
            return trace_id
        _left_out.set(trace_id)
        return None

    def start(
        self,
        name: str,
        parent: Context | None,
        attributes: Attributes,
        kind: SpanKind,
        start_ns: int,
        trace_id: int = 0,
    ) -> LiveSpan | NonRecordingSpan:
        """A span, if the sampler wants it, or else one that only says that it is not wanted.

        Args:
            trace_id: The trace to begin, if it was drawn: then there is none to belong to.
        """
        above = None if trace_id else trace.get_current_span(parent).get_span_context()
        if above is None or not above.is_valid:
            above, state = None, None
            trace_id, flags = trace_id or self._ids.generate_trace_id(), self._root_flags
            wanted = self._bound is not None and trace_id & ID_LIMIT < self._bound
        else:
            state = above.trace_state
            trace_id, flags = above.trace_id, above.trace_flags & _RANDOM
            wanted = bool(above.trace_flags & _SAMPLED)
        if self._bound is None:
            found = self._sampler.should_sample(parent, trace_id, name, kind, attributes, ())
            wanted, attributes, state = found.decision is not Decision.DROP, found.attributes, found.trace_state
            if found.decision is Decision.RECORD_AND_SAMPLE:
                flags |= _SAMPLED
        elif wanted:
            flags |= _SAMPLED
        elif above is not None:
            return NonRecordingSpan(above)  # as good a parent of what is left out with it, and there already
        span_id = self._ids.generate_span_id()
        if not wanted:
            return NonRecordingSpan(SpanContext(trace_id, span_id, False, TraceFlags(flags), state))
        span = LiveSpan(self, name, trace_id, span_id, flags, state, above, attributes, kind, start_ns)
        if self._outlet() is None:
            self._tell_start(span, parent)
        return span

    def beside(
        self, first: LiveSpan, name: str, parent: Context | None, attributes: Attributes, kind: SpanKind, start_ns: int
    ) -> LiveSpan:
        """Another span of the same trace, about which the sampler was asked with the first one.

        Args:
            parent: What the first is below, too; None: it has begun the trace, and this one is below it.
        """
        span = LiveSpan(
            self,
            name,
            first.trace_id,
            self._ids.generate_span_id(),
            first.flags,
            first.state,
            first.context if parent is None else first.parent,
            attributes,
            kind,
            start_ns,
        )
        if self._outlet() is None:
            self._tell_start(span, trace.set_span_in_context(first) if parent is None else parent)
        return span

    def _tell_start(self, span: LiveSpan, parent: Context | None) -> None:
        self._processor.on_start(span, parent)  # type: ignore[arg-type]  # all that a processor may do with one, it can

    def _outlet(self) -> BatchSpanProcessor | None:
        """What takes spans as they are, if it is all there is; it has no use for those that only begin."""
        found = getattr(self._processor, "_span_processors", None)
        if found is not self._processors:  # the first span, or a processor was added
            self._batches = otlp.batches(self._processor, self.resource, self.scope)
            self._processors = found
        return self._batches

    def ended(self, span: LiveSpan) -> None:
        """Hand on a span that is over: as one of the SDK's, or as it is where that is enough."""
        batches = self._outlet()
        if batches is None:
            self._processor.on_end(span.readable())
        elif span.flags & _SAMPLED:
            batches.on_end(otlp.Ended((span,)))  # type: ignore[arg-type]  # to be queued, and no more


class LeftOut(NonRecordingSpan):
    """Says of what is below it that it is not wanted. One for all: which trace that is stands beside it."""

    def __init__(self, flags: int) -> None:
        self._flags = TraceFlags(flags)

    def get_span_context(self) -> SpanContext:
        trace_id = _left_out.get(1)
        return SpanContext(trace_id, trace_id & ID_LIMIT or 1, False, self._flags)

    def __repr__(self) -> str:
        return f"LeftOut({self.get_span_context()!r})"


class LiveSpan(trace.Span):
    """A span that is under way, to be read like one of the SDK's. What is added to it keeps the provider's limits."""

    # What most spans never change stands here, once for all. No slots: OpenTelemetry's class above has none, so there
    # would be a dictionary beside them.
    #: Made when somebody asks: nobody does, of most.
    _context: SpanContext | None = None
    events: Any = ()
    links: Any = ()
    status = _UNSET
    end_time: int | None = None

    def __init__(
        self,
        maker: SpanMaker,
        name: str,
        trace_id: int,
        span_id: int,
        flags: int,
        state: TraceState | None,
        parent: SpanContext | None,
        attributes: Attributes,
        kind: SpanKind,
        start_ns: int,
    ) -> None:
        self._maker = maker
        self.name = name
        self.trace_id = trace_id
        self.span_id = span_id
        self.flags = flags
        self.state = state
        self.parent = parent
        self.attributes = attributes
        self.kind = kind
        self.start_time = start_ns

    def is_plain(self) -> bool:
        """Whether it has nothing but what every span has, and attributes."""
        return (
            self.status is _UNSET
            and self.events == ()
            and self.links == ()
            and not self.state
            and not (isinstance(self.attributes, BoundedAttributes) and self.attributes.dropped)
        )

    def readable(self) -> ReadableSpan:
        """The same as one of the SDK's."""
        return ReadableSpan(
            self.name,
            self.context,
            self.parent,
            self.resource,
            self.attributes,
            self.events,
            self.links,
            self.kind,
            None,
            self.status,
            self.start_time,
            self.end_time,
            self.instrumentation_scope,
        )

    @property
    def context(self) -> SpanContext:
        if self._context is None:
            self._context = SpanContext(self.trace_id, self.span_id, False, TraceFlags(self.flags), self.state)
        return self._context

    @property
    def resource(self) -> Resource:
        return self._maker.resource

    @property
    def instrumentation_scope(self) -> InstrumentationScope:
        return self._maker.scope

    def get_span_context(self) -> SpanContext:
        return self.context

    def is_recording(self) -> bool:
        return self.end_time is None

    def end(self, end_time: int | None = None) -> None:
        if self.end_time is not None:
            return
        self.end_time = time.time_ns() if end_time is None else end_time
        self._maker.ended(self)

    def set_attribute(self, key: str, value: AttributeValue) -> None:
        self.set_attributes({key: value})

    def set_attributes(self, attributes: Mapping[str, AttributeValue]) -> None:
        if self.end_time is not None:
            return
        limits = self._maker.limits
        if not isinstance(self.attributes, BoundedAttributes):
            self.attributes = BoundedAttributes(
                limits.max_span_attributes, self.attributes, False, limits.max_span_attribute_length
            )
        self.attributes.update(attributes)

    def add_event(self, name: str, attributes: Attributes = None, timestamp: int | None = None) -> None:
        if self.end_time is not None:
            return
        limits = self._maker.limits
        bounded = BoundedAttributes(limits.max_event_attributes, attributes, True, limits.max_attribute_length)
        if self.events == ():
            self.events = BoundedList(limits.max_events)
        self.events.append(Event(name, bounded, timestamp))

    def add_link(self, context: SpanContext, attributes: Attributes = None) -> None:
        if self.end_time is not None or not (context.is_valid or attributes or context.trace_state):
            return
        limits = self._maker.limits
        bounded = BoundedAttributes(limits.max_link_attributes, attributes, True, limits.max_attribute_length)
        if self.links == ():
            self.links = BoundedList(limits.max_links)
        self.links.append(trace.Link(context, bounded))

    def update_name(self, name: str) -> None:
        if self.end_time is None:
            self.name = name

    def set_status(self, status: Status | StatusCode, description: str | None = None) -> None:
        given = status if isinstance(status, Status) else Status(status, description)
        # What was said to be well stays so, and nobody can take a status back.
        if self.end_time is None and self.status.status_code is not StatusCode.OK and not given.is_unset:
            self.status = given

    def record_exception(
        self,
        exception: BaseException,
        attributes: Attributes = None,
        timestamp: int | None = None,
        escaped: bool = False,
    ) -> None:
        kind = type(exception)
        about: dict[str, AttributeValue] = {
            "exception.type": kind.__qualname__
            if kind.__module__ == "builtins"
            else f"{kind.__module__}.{kind.__qualname__}",
            "exception.message": str(exception),
            "exception.stacktrace": "".join(traceback.format_exception(exception)),
            "exception.escaped": str(escaped),
        }
        self.add_event("exception", {**about, **(attributes or {})}, timestamp)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace_back: TracebackType | None
    ) -> None:
        if error is not None and self.is_recording():
            self.record_exception(error, escaped=True)
            self.set_status(Status(StatusCode.ERROR, f"{type(error).__name__}: {error}"))
        super().__exit__(kind, error, trace_back)
