"""What traces cost the worker's own process: CPU a task, with traces off, on with few of them kept, and on with all.

Each figure comes from a process of its own, in turns, for OpenTelemetry can be set up once in a process. The spans go
to an exporter that throws them away: what is measured is making them. Asked for: nothing when off, 3 % when on.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Sequence

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, ParentBased, TraceIdRatioBased

from benchmarks._server import coordinator
from benchmarks._work import coroutine, run_worker
from conductor.machine import run_on_loop

TASKS = 5000
ROUNDS = 7
#: Ways, and the share of traces that are kept.
WAYS: dict[str, float | None] = {"off": None, "one in a hundred": 0.01, "all": 1.0}


class _Nowhere(SpanExporter):
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return SpanExportResult.SUCCESS


def _measure(way: str, url: str) -> float:
    share = WAYS[way]
    if share is not None:
        sampler = ParentBased(ALWAYS_ON if share == 1.0 else TraceIdRatioBased(share))
        provider = TracerProvider(sampler=sampler)
        provider.add_span_processor(BatchSpanProcessor(_Nowhere()))
        trace.set_tracer_provider(provider)
    return run_on_loop(run_worker(url, TASKS, coroutine, thread_count=50)).cpu_us


def main() -> None:
    """Print the table."""
    if len(sys.argv) == 3:
        print(_measure(sys.argv[1], sys.argv[2]))
        return
    costs: dict[str, list[float]] = {way: [] for way in WAYS}
    with coordinator() as url:
        for _ in range(ROUNDS):
            for way, found in costs.items():
                command = [sys.executable, "-m", "benchmarks.tracing_cost", way, url]
                done = subprocess.run(command, check=True, capture_output=True, text=True)
                found.append(float(done.stdout))
    off_us = statistics.median(costs["off"])
    print(f"{'traces, a task':20} {'CPU µs':>7} {'least':>6} {'more than off':>14}")
    for way, cpu_us in costs.items():
        median = statistics.median(cpu_us)
        print(f"{way:20} {median:7.0f} {min(cpu_us):6.0f} {(median / off_us - 1) * 100:13.1f}%")


if __name__ == "__main__":
    main()
