"""The cost of tracing: throughput and CPU of a worker with tracing, compared with the same worker without tracing.

One process drains many short queues, without traces and with them in the order A B B A. Each queue with traces is
compared with its neighbour without, so that other load on the machine affects both. "chance" is the difference between
two neighbours without traces. Sending the last spans is included. Each way to trace has a process of its own, because
OpenTelemetry can be set up once per process.

The tasks do nothing, use a millisecond of CPU, or pause for five milliseconds in ten slots. The exporter drops the
spans, or sends them as OTLP to a socket that ignores them. The last table is about the spans of the coordinator: it has
the workflow starts per second, and the CPU of the coordinator's process.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, ParentBased, TraceIdRatioBased

from benchmarks._processes import environment
from benchmarks._server import TASK, server, simple
from benchmarks._work import coroutine, run_worker
from conductor.common.machine import run_event_loop
from conductor.telemetry import tracing

#: The number of queues with tracing, which is also the number of queues without.
PAIRS = 20
OFF, SENT = "off", "all, sent as OTLP"
#: The measured ways to trace, each with the share of traces that the sampler keeps.
WAYS = {"one in a hundred": 0.01, "all": 1.0, SENT: 1.0}
STARTS, START_ROUNDS = 1000, 10


class _Nowhere(SpanExporter):
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return SpanExportResult.SUCCESS


class _Sink(ThreadingHTTPServer):
    """Receives OTLP requests and ignores them, so that the cost of a collector is not measured."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Taker)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True).start()


class _Taker(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


async def _computes(n: int) -> dict[str, int]:
    over = time.thread_time() + 0.001
    while time.thread_time() < over:
        pass
    return {"n": n}


async def _pauses(n: int) -> dict[str, int]:
    await asyncio.sleep(0.005)
    return {"n": n}


class _Work(NamedTuple):
    call: Any
    slots: int
    tasks: int


WORK = {
    "nothing, 50 slots": _Work(coroutine, 50, 600),
    "1 ms of CPU, 50 slots": _Work(_computes, 50, 200),
    "a pause of 5 ms, 10 slots": _Work(_pauses, 10, 300),
}


class _Queue(NamedTuple):
    """The figures of a drained queue: with or without tracing, tasks per second, and CPU per task."""

    traced: bool
    per_second: float
    cpu_us: float


def _set_up(way: str) -> None:
    if way == SENT:
        tracing.set_up(tracing.AUTO)
        return
    sampler = ParentBased(ALWAYS_ON if WAYS[way] == 1.0 else TraceIdRatioBased(WAYS[way]))
    provider = TracerProvider(sampler=sampler)
    provider.add_span_processor(BatchSpanProcessor(_Nowhere()))
    trace.set_tracer_provider(provider)


def _measure(way: str, work: _Work, url: str) -> Iterator[_Queue]:
    """Drain queues with and without tracing in this process."""
    _set_up(way)
    tracer = tracing.Tracer()
    present, tracing.use_program_provider = tracing.use_program_provider, lambda: None
    try:
        for number in range(2 * PAIRS):
            traced = number % 4 in (1, 2)
            tracing.tracer = tracer if traced else None
            cost = run_event_loop(run_worker(url, work.tasks, work.call, thread_count=work.slots))
            wall, cpu = time.perf_counter(), time.process_time()
            tracing.flush()
            more_us = [
                (now - then) / work.tasks * 1e6
                for now, then in ((time.perf_counter(), wall), (time.process_time(), cpu))
            ]
            yield _Queue(traced, 1e6 / (cost.wall_us + more_us[0]), cost.cpu_us + more_us[1])
    finally:
        tracing.use_program_provider = present


def _said(ratios: list[float]) -> str:
    low, middle, high = statistics.quantiles(ratios, n=4)
    return f"{middle:+6.1%} (half: {low:+6.1%} to {high:+6.1%})"


def _show(way: str, queues: list[_Queue]) -> None:
    """Print the ratio of each queue with tracing to its neighbour without tracing."""
    pairs = [sorted(queues[at : at + 2]) for at in range(0, len(queues) - 1, 2)]
    rates = [on.per_second / off.per_second - 1 for off, on in pairs]
    cpu = [on.cpu_us - off.cpu_us for off, on in pairs]
    alike = [(queues[at], queues[at + 1]) for at in range(3, len(queues) - 1, 4)]
    chance = [abs(one.per_second / other.per_second - 1) for one, other in alike]
    off = statistics.median(one.cpu_us for one in queues if not one.traced)
    cost = f"CPU {off:5.0f} {statistics.median(cpu):+5.0f} µs"
    print(f"{way:18} {_said(rates)}  {cost}  chance {statistics.median(chance):.1%}")


def _drain(sink: _Sink) -> None:
    for name in WORK:
        print(f"\na worker, {name}: tasks a second with traces, against none")
        with server() as running:
            for way in WAYS:
                command = [sys.executable, "-m", "benchmarks.tracing_cost", way, name, running.url]
                more = {"OTEL_EXPORTER_OTLP_ENDPOINT": sink.url} if way == SENT else {}
                done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment(more))
                _show(way, [_Queue(*one) for one in json.loads(done.stdout)])


def _start(sink: _Sink) -> None:
    """Compare workflow starts on a coordinator with tracing and on one without, which run at the same time."""
    print("\nthe coordinator: workflows started a second from eight connections, with traces, against none")
    for way in ("one in a hundred", SENT):
        share = {"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": str(WAYS[way])}
        with server() as plain, server(env={"OTEL_EXPORTER_OTLP_ENDPOINT": sink.url, **share}) as traced:
            queues = []
            for running in (plain, traced):
                running.define("traced", simple(task=TASK))
                running.start("traced", STARTS)
            for number in range(2 * START_ROUNDS):
                is_traced = number % 4 in (1, 2)
                running = traced if is_traced else plain
                before = running.family.cpu_s()
                took_s = running.start("traced", STARTS)
                cpu_us = (running.family.cpu_s() - before) / STARTS * 1e6
                queues.append(_Queue(is_traced, STARTS / took_s, cpu_us))
            _show(way, queues)


def main() -> None:
    """Print the tables."""
    if len(sys.argv) == 4 and sys.argv[1] in WAYS:
        print(json.dumps(list(_measure(sys.argv[1], WORK[sys.argv[2]], sys.argv[3]))))
        return
    sink = _Sink()
    _drain(sink)
    _start(sink)


if __name__ == "__main__":
    main()
