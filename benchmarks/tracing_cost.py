"""What traces cost: how fast a queue is drained with them, as a share of how fast it is without, and CPU a task.

In each round every way has its turn, in another order each time, and each rate is divided by that of the same round
without traces. Without them there are two turns a round: how far those differ is what chance does. Each figure comes
from a process of its own, for OpenTelemetry can be set up once in a process.

The work is nothing at all, a millisecond of CPU, and a pause of five milliseconds in ten slots. Spans are thrown away
when they are made, or sent as OTLP to a socket that takes them. Asked for: 3 % of throughput when on, nothing when off.
The last table is the coordinator's own spans: starts of workflows, and CPU of its process.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, ParentBased, TraceIdRatioBased

from benchmarks._processes import environment
from benchmarks._server import TASK, server, simple
from benchmarks._work import coroutine, run_worker
from conductor import tracing
from conductor.machine import run_on_loop

ROUNDS = 7
OFF, AGAIN, SENT = "off", "off, again", "all, sent as OTLP"
#: Ways, and the share of traces that are kept.
WAYS: dict[str, float | None] = {OFF: None, AGAIN: None, "one in a hundred": 0.01, "all": 1.0, SENT: 1.0}
STARTS = 6000


class _Nowhere(SpanExporter):
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return SpanExportResult.SUCCESS


class _Sink(ThreadingHTTPServer):
    """Takes what is sent as OTLP, and does nothing with it: a collector's own cost is not asked for."""

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
    "nothing, 50 slots": _Work(coroutine, 50, 8000),
    "1 ms of CPU, 50 slots": _Work(_computes, 50, 2500),
    "a pause of 5 ms, 10 slots": _Work(_pauses, 10, 2500),
}


def _measure(way: str, work: _Work, url: str) -> str:
    """Tasks a second, and µs of CPU a task, in this process."""
    share = WAYS[way]
    if way == SENT:
        tracing.set_up(tracing.AUTO)
    elif share is not None:
        sampler = ParentBased(ALWAYS_ON if share == 1.0 else TraceIdRatioBased(share))
        provider = TracerProvider(sampler=sampler)
        provider.add_span_processor(BatchSpanProcessor(_Nowhere()))
        trace.set_tracer_provider(provider)
    cost = run_on_loop(run_worker(url, work.tasks, work.call, thread_count=work.slots))
    return f"{cost.per_second} {cost.cpu_us}"


class _Table:
    """Rates and CPU of each way, round by round."""

    def __init__(self, title: str, unit: str) -> None:
        self._title = title
        self._unit = unit
        self._found: dict[str, list[tuple[float, float]]] = {}

    def add(self, way: str, per_second: float, cpu_us: float) -> None:
        self._found.setdefault(way, []).append((per_second, cpu_us))

    def show(self) -> None:
        off = self._found[OFF]
        print(f"\n{self._title}")
        print(f"{'traces':20}{self._unit:>9}  {'of off (half of the rounds)':36}{'CPU µs':>7}{'more':>7}")
        least = statistics.median(cpu for _, cpu in off)
        for way in WAYS:
            if way not in self._found:
                continue
            rates, costs = zip(*self._found[way], strict=True)
            ratios = [rate / without for rate, (without, _) in zip(rates, off, strict=True)]
            low, middle, high = statistics.quantiles(ratios, n=4)
            cpu = statistics.median(costs)
            said = f"{middle - 1:+.1%} ({low - 1:+.1%} to {high - 1:+.1%})"
            print(f"{way:20}{statistics.median(rates):9.0f}  {said:36}{cpu:7.0f}{cpu - least:+7.0f}")


def _turns(number: int, ways: list[str]) -> list[str]:
    """Everybody is first once, and every other round goes backwards."""
    at = number % len(ways)
    turned = ways[at:] + ways[:at]
    return turned if number % 2 == 0 else turned[::-1]


def _drain(sink: _Sink) -> None:
    for name in WORK:
        table = _Table(f"a worker, {name}", "tasks/s")
        with server() as running:
            for number in range(ROUNDS):
                for way in _turns(number, list(WAYS)):
                    command = [sys.executable, "-m", "benchmarks.tracing_cost", way, name, running.url]
                    more = {"OTEL_EXPORTER_OTLP_ENDPOINT": sink.url} if way == SENT else {}
                    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment(more))
                    table.add(way, *map(float, done.stdout.split()))
        table.show()


def _start(sink: _Sink) -> None:
    table = _Table("the coordinator, workflows started from eight connections", "starts/s")
    for number in range(ROUNDS):
        for way in _turns(number, [OFF, AGAIN, "one in a hundred", SENT]):
            share = {"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": str(WAYS[way])}
            more = {"OTEL_EXPORTER_OTLP_ENDPOINT": sink.url, **share} if WAYS[way] else {}
            with server(env=more) as running:
                running.define("traced", simple(task=TASK))
                running.start("traced", STARTS // 10)
                before = running.family.cpu_s()
                took_s = running.start("traced", STARTS)
                table.add(way, STARTS / took_s, (running.family.cpu_s() - before) / STARTS * 1e6)
    table.show()


def main() -> None:
    """Print the tables."""
    if len(sys.argv) == 4 and sys.argv[1] in WAYS:
        print(_measure(sys.argv[1], WORK[sys.argv[2]], sys.argv[3]))
        return
    sink = _Sink()
    _drain(sink)
    _start(sink)


if __name__ == "__main__":
    main()
