"""What the figures of a run are held against: limits that were set before they were measured."""

from __future__ import annotations

from benchmarks import counts, growth, memory, pickup, shapes, starts, throughput
from benchmarks._figures import Asked, Figures
from benchmarks._rivals import DRAMATIQ, HUEY, OURS_ASYNC, OURS_DEF


def asked(figures: Figures) -> list[Asked]:
    """Every limit beside what this run has measured; a part that was left out measures nothing."""
    return [*_throughput(figures), *_starts_and_pickup(figures), *_size(figures)]


def _throughput(figures: Figures) -> list[Asked]:
    part, rate = throughput.PART, throughput.RATE

    def median(measure: str, who: str) -> float | None:
        return figures.median(part, measure, who)

    return [
        Asked("async def ×50: × dramatiq + Redis", 3, True, figures.ratio(part, rate, OURS_ASYNC, DRAMATIQ)),
        Asked("async def ×50: × huey + Redis, two processes", 2, True, figures.ratio(part, rate, OURS_ASYNC, HUEY)),
        Asked("async def ×50: tasks/s (aim)", 10_000, True, median(rate, OURS_ASYNC)),
        Asked("def ×10: × dramatiq + Redis", 1.5, True, figures.ratio(part, rate, OURS_DEF, DRAMATIQ)),
        Asked("server CPU of a task, batches of 50, µs", 120, False, median(throughput.SERVER_CPU, OURS_ASYNC)),
        Asked("server CPU of a task, batches of 10, µs", 200, False, median(throughput.SERVER_CPU, OURS_DEF)),
        Asked("worker CPU of a task, async def, µs", 90, False, median(throughput.WORKER_CPU, OURS_ASYNC)),
        Asked("worker CPU of a task, def, µs", 170, False, median(throughput.WORKER_CPU, OURS_DEF)),
        Asked("wall time / larger CPU, async def", 1.15, False, median(throughput.WALL, OURS_ASYNC)),
        Asked("wall time / larger CPU, def", 1.15, False, median(throughput.WALL, OURS_DEF)),
    ]


def _starts_and_pickup(figures: Figures) -> list[Asked]:
    def start(measure: str, who: str) -> float | None:
        return figures.median(starts.PART, measure, who)

    def statements(of: str) -> float | None:
        return figures.median(counts.PART, counts.STATEMENTS, of)

    alone_us = start(starts.LATENCY, starts.ALONE)
    rows = [
        Asked("server CPU of a start, µs", 150, False, start(starts.CPU, starts.TOGETHER)),
        Asked("SQL statements of a start", 5, False, statements(counts.START)),
        Asked("SQL statements of a report", 5, False, statements(counts.REPORT)),
        Asked("starts/s from 8 connections", 4000, True, start(starts.RATE, starts.TOGETHER)),
        Asked("one start at a time, median, ms", 0.7, False, None if alone_us is None else alone_us / 1000),
    ]
    for measure, limit_ms in ((pickup.HALF, 2.0), (pickup.MOST, 5.0)):
        for who in (OURS_ASYNC, OURS_DEF):
            median = figures.median(pickup.PART, measure, who)
            rows.append(Asked(f"pickup from idle, {measure}, {who}, ms", limit_ms, False, median))
    for who in (OURS_ASYNC, OURS_DEF):
        line = figures.lines.get((pickup.PART, pickup.WORST, who))
        worst = None if line is None else max(line.samples)
        rows.append(Asked(f"pickup from idle, worst of all samples, {who}, ms", 25, False, worst))
    return rows


def _size(figures: Figures) -> list[Asked]:
    names = [
        shape.name for shape in shapes.shapes(quick=False) if shape.like_a_single_one and shape.name != shapes.SINGLE
    ]
    running = figures.median(memory.PART, memory.MEMORY, memory.running_name(memory.RUNNING))
    finished = figures.median(growth.PART, growth.MEMORY, f"{growth.SIZES[-1]:,} finished")
    rows = [
        Asked(
            f"CPU of a task, {name}: × that of {shapes.SINGLE}",
            1.5,
            False,
            figures.ratio(shapes.PART, shapes.SERVER_CPU, name, shapes.SINGLE),
        )
        for name in names
    ]
    return [
        *rows,
        Asked(f"memory with {memory.RUNNING:,} running workflows, MB", 200, False, running),
        Asked(f"memory with {growth.SIZES[-1]:,} finished, MB", 80, False, finished),
    ]
