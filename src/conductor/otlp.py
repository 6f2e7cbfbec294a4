"""Spans as OTLP has them on the wire, written without an object for each of their fields.

OpenTelemetry's exporter makes some ten objects of protobuf for a span, and then bytes of them: 20 µs and more. Nearly
all of our spans are alike: ids, a name, two times, a few texts. Those are written here, in the thread that sends them,
in a seventh of that. Whatever else a span may have, events, links, lists, is left to the exporter's own encoder, and so
are spans that are not ours; they go in the same request. The exporter sends it: its address, headers, certificates,
compression, retries and limits are what they were, and so are the queue and the batches of the processor before it.

That is done where one batch processor of the SDK hands on to one exporter for OTLP over HTTP, both just as they come;
other processors and exporters see spans as ever. Only `spans` imports this.
"""

from __future__ import annotations

import logging
import struct
import sys
from collections.abc import Callable, Sequence
from functools import lru_cache
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any

from opentelemetry.sdk.trace import ReadableSpan, SynchronousMultiSpanProcessor
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanContext, SpanKind, TraceFlags

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import SpanProcessor
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

logger = logging.getLogger(__name__)

_EXPORTER = "opentelemetry.exporter.otlp.proto.http.trace_exporter"
#: What the exporter's `export` must call for us to put something else in its place.
_CALLED = {"encode_spans", "SerializePartialToString"}
#: Longer texts are not written here: what is remembered must not grow with them.
_LONGEST = 128
_LOW = (1 << 64) - 1

# In protobuf a field is a byte for its number and the form of its value, then the value; what has no fixed size begins
# with its length. Of a span we write 1 trace, 2 span, 4 parent, 5 name, 6 kind, 7 start, 8 end, 9 attributes,
# 15 status, 16 flags. The bytes of numbers and forms are packed along with the values.
_TRACE, _SPAN, _PARENT = 0x0A10, 0x1208, 0x2208
_IDS = struct.Struct(">HQQHQ")
_IDS_BELOW = struct.Struct(">HQQHQHQ")
_START, _END = 0x39, 0x41
_TIMES = struct.Struct("<BQBQ")
#: A status that says nothing, and flags that say of the parent whether it is in another process.
_LOCAL, _REMOTE = (b"z\0\x85\x01" + struct.pack("<I", flags) for flags in (0x100, 0x300))


class Ended(tuple[Any]):
    """A span of ours that is over, for a batch processor, which only wants to know that it is sampled."""

    __slots__ = ()
    context = SpanContext(1, 1, False, TraceFlags(TraceFlags.SAMPLED))


@lru_cache(4096)
def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def _field(tag: bytes, value: bytes) -> bytes:
    return tag + _varint(len(value)) + value


@lru_cache(1024)
def _name(name: str, kind: SpanKind) -> bytes:
    return _field(b"*", name.encode()) + b"0" + _varint(kind.value + 1)


def _attribute(key: str, value: bytes) -> bytes:
    return _field(b"J", _field(b"\n", key.encode()) + _field(b"\x12", value))


@lru_cache(4096, typed=True)
def _remembered(key: str, value: object) -> bytes:
    """An attribute: most come again. TypeError: the exporter must write it."""
    if type(value) is str and len(value) <= _LONGEST:
        return _attribute(key, _field(b"\n", value.encode()))
    if type(value) is bool:
        return _attribute(key, b"\x10\1" if value else b"\x10\0")
    if type(value) is int and -1 << 63 <= value < 1 << 63:
        return _attribute(key, b"\x18" + _varint(value & _LOW))
    if type(value) is float and value:  # not zero: there are two of them, which cannot be told apart when remembered
        return _attribute(key, struct.pack("<Bd", 0x21, value))
    raise TypeError(value)


def _written(span: Any) -> bytes | None:
    """A span as a field of OTLP's `ScopeSpans`; None: it has something that the exporter must write."""
    if not span.is_plain() or len(span.name) > _LONGEST:
        return None
    trace_id, parent, attributes = span.trace_id, span.parent, span.attributes or {}
    high, low = trace_id >> 64, trace_id & _LOW
    try:
        about = b"".join(map(_remembered, attributes, attributes.values()))
        if parent is None:
            ids, end = _IDS.pack(_TRACE, high, low, _SPAN, span.span_id), _LOCAL
        else:
            ids = _IDS_BELOW.pack(_TRACE, high, low, _SPAN, span.span_id, _PARENT, parent.span_id)
            end = _REMOTE if parent.is_remote else _LOCAL
        times = _TIMES.pack(_START, span.start_time, _END, span.end_time)
        return _field(b"\x12", b"".join((ids, _name(span.name, span.kind), times, about, end)))
    except (AttributeError, TypeError, ValueError, struct.error):
        return None  # whatever is wrong with it, the exporter has something to say about it


def batches(processor: SpanProcessor, resource: Resource, scope: InstrumentationScope) -> BatchSpanProcessor | None:
    """The processor that takes what has `Ended`, if it is the only one that this one hands on to."""
    try:
        return _found(processor, resource, scope)
    except Exception:  # an OpenTelemetry that we do not know must not fail a task
        logger.debug("Spans are left to OpenTelemetry's encoder", exc_info=True)
        return None


def _found(processor: SpanProcessor, resource: Resource, scope: InstrumentationScope) -> BatchSpanProcessor | None:
    module = sys.modules.get(_EXPORTER)
    processors: tuple[SpanProcessor, ...] = getattr(processor, "_span_processors", ())
    if module is None or type(processor) is not SynchronousMultiSpanProcessor or len(processors) != 1:
        return None
    (found,) = processors
    if type(found) is not BatchSpanProcessor or type(found.span_exporter) is not module.OTLPSpanExporter:
        return None
    return found if _teach(found.span_exporter, resource, scope) else None


def _teach(exporter: SpanExporter, resource: Resource, scope: InstrumentationScope) -> bool:
    """Make an exporter send what has `Ended`, too. False: it is not like those that we know, or not for us.

    Where it keeps what it sends with has changed more than once. What has not is that `export` hands its spans to one
    function, and sends the bytes of what that returns. So this exporter gets an `export` of its own, the same code, in
    which that function is ours. Nobody else's is touched.
    """
    taught = vars(exporter).get("export")
    if taught is not None:  # by us, for another tracer; or by somebody else
        encoder = getattr(getattr(taught, "__func__", None), "__globals__", {}).get("encode_spans")
        return isinstance(encoder, Encoder) and encoder.is_for(resource, scope)
    export = type(exporter).export
    if not isinstance(export, FunctionType) or export.__closure__ or not _CALLED.issubset(export.__code__.co_names):
        return False
    ours = Encoder(export.__globals__["encode_spans"], resource, scope)
    own = FunctionType(export.__code__, {**export.__globals__, "encode_spans": ours}, "export", export.__defaults__)
    exporter.export = MethodType(own, exporter)  # type: ignore[method-assign]
    return True


class Encoder:
    """What an exporter calls to make a request of spans: ours are written here, others in its own way.

    Args:
        theirs: Its own way.
        resource: What our spans come from.
        scope: What they are the work of.
    """

    def __init__(self, theirs: Callable[[Sequence[Any]], Any], resource: Resource, scope: InstrumentationScope) -> None:
        self._theirs = theirs
        self._about = (resource, scope)
        # What stands around our spans is written once, as the exporter writes it.
        example = ReadableSpan(
            "", Ended.context, resource=resource, instrumentation_scope=scope, start_time=0, end_time=0
        )
        (in_resource,) = theirs([example]).resource_spans
        (in_scope,) = in_resource.scope_spans
        del in_scope.spans[:], in_resource.scope_spans[:]
        self._resource: bytes = in_resource.SerializeToString()
        self._scope: bytes = in_scope.SerializeToString()

    def is_for(self, resource: Resource, scope: InstrumentationScope) -> bool:
        """Whether that is what it writes around spans."""
        return self._about == (resource, scope)

    def __call__(self, spans: Sequence[Any]) -> _Request:
        ours: list[bytes] = []
        theirs: list[Any] = []
        for span in spans:
            if type(span) is not Ended:
                theirs.append(span)
                continue
            written = _written(span[0])
            if written is None:
                theirs.append(span[0].readable())
            else:
                ours.append(written)
        body = b""
        if ours:
            body = _field(b"\n", self._resource + _field(b"\x12", self._scope + b"".join(ours)))
        if theirs:
            # Two requests, one after the other, are one with the spans of both.
            body += self._theirs(theirs).SerializePartialToString()
        return _Request(body)


class _Request:
    """Bytes in the form of what an encoder returns."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def SerializePartialToString(self) -> bytes:  # noqa: N802  # protobuf's name
        return self._body
