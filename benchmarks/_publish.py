"""Write the figures of a run as text, JSON and a plot to .cache/bench, and with --publish into the documentation."""

from __future__ import annotations

import datetime
import json
import os
import platform
import shutil
import subprocess
from pathlib import Path
from typing import Any

from benchmarks._figures import Figures, number
from benchmarks._processes import PROGRAMS
from benchmarks._rivals import CONDUCTOR_PYTHON, DRAMATIQ, HUEY, OURS
from benchmarks.starts import BULK
from benchmarks.starts import PART as STARTS
from benchmarks.starts import RATE as START_RATE
from benchmarks.throughput import PART as THROUGHPUT
from benchmarks.throughput import RATE, SERVER_CPU, WORKER_CPU
from conductor.version import __version__
from tests.integration.other_sdks import CACHE, ROOT, Unavailable, environment

PLACE = CACHE / "bench"
PLOT_PACKAGES = ("matplotlib==3.11.2",)
#: If the load average before the run is higher than this, the published figures say that the machine was busy.
BUSY = (os.cpu_count() or 1) / 4
#: The markers around the generated part of a page.
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"


def about(command: str, rounds: int) -> dict[str, Any]:
    """Return the date, command, version and machine of a run, which are printed with its figures."""
    kernel = ".".join(platform.release().split(".")[:2])
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "command": command,
        "version": __version__,
        "machine": f"{os.cpu_count()} cores ({_processor()}), {_memory_gb():.0f} GB",
        "system": f"{platform.system()} {kernel}, Python {platform.python_version()}",
        "rounds": rounds,
        "load before": round(os.getloadavg()[0], 2),
    }


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    names = [line for line in cpuinfo.read_text().splitlines() if "model name" in line] if cpuinfo.exists() else []
    return names[0].partition(":")[2].strip() if names else platform.machine()


def _memory_gb() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9


def report(facts: dict[str, Any], figures: Figures) -> str:
    """Return the facts and the table of figures as text."""
    lines = [f"{name}: {value}" for name, value in facts.items()]
    return "\n".join([*lines, "", figures.table()]) + "\n"


def keep(facts: dict[str, Any], figures: Figures, *, publish: bool) -> None:
    """Write the figures to .cache/bench. If `publish` is true, also write them into the documentation."""
    PLACE.mkdir(parents=True, exist_ok=True)
    text, data, plot = PLACE / "benchmarks.txt", PLACE / "benchmarks.json", PLACE / "benchmarks.png"
    text.write_text(report(facts, figures))
    data.write_text(json.dumps({**facts, "skipped": figures.skipped, "figures": figures.as_json()}, indent=1) + "\n")
    plotted = _plot(data, plot)
    print(f"\nwritten: {', '.join(str(path.relative_to(ROOT)) for path in (text, data, plot) if path.exists())}")
    if publish:
        (ROOT / "docs" / "images").mkdir(exist_ok=True)
        shutil.copy(data, ROOT / "docs" / "benchmarks.json")
        if plotted:
            shutil.copy(plot, ROOT / "docs" / "images" / "benchmarks.png")
        _fill(ROOT / "docs" / "benchmarks.md", f"```text\n{report(facts, figures)}```")
        _fill(ROOT / "README.md", _short(facts, figures))
        print(
            "README.md, docs/benchmarks.md, docs/benchmarks.json and docs/images/benchmarks.png have these figures now"
        )


def _plot(data: Path, plot: Path) -> bool:
    plot.unlink(missing_ok=True)
    try:
        python = environment("plot", *PLOT_PACKAGES)
    except Unavailable as error:
        print(f"no plot: {error}")
        return False
    subprocess.run([str(python), str(PROGRAMS / "plot.py"), str(data), str(plot)], check=True)
    return True


def _fill(page: Path, content: str) -> None:
    text = page.read_text()
    before, _, rest = text.partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        raise RuntimeError(f"{page} has no place for figures: {BEGIN} … {END}")
    page.write_text(f"{before}{BEGIN}\n{content}\n{END}{after}")


def _short(facts: dict[str, Any], figures: Figures) -> str:
    """Return the small table of the README: throughput and CPU per task, and the rate of bulk starts."""
    columns = (
        (RATE, "tasks per second (× dramatiq)"),
        (WORKER_CPU, "worker CPU per task, µs"),
        (SERVER_CPU, "server CPU per task, µs"),
    )
    rows = [f"| | {' | '.join(title for _, title in columns)} |", f"|---|{'--:|' * len(columns)}"]
    for who in (*OURS, DRAMATIQ, HUEY, CONDUCTOR_PYTHON):
        rate, *costs = (figures.median(THROUGHPUT, measure, who) for measure, _ in columns)
        cells = [_with_ratio(figures, THROUGHPUT, RATE, who) if rate is not None else "–"]
        cells += ["–" if value is None else number(value) for value in costs]
        rows.append(f"| {who.replace('ours', 'conductor-worker')} | {' | '.join(cells)} |")
    where = f"{facts['date']}, {facts['machine']}, {facts['system']}"
    if facts["load before"] > BUSY:
        where += f", busy with other work (load {facts['load before']})"
    bulk = f"Bulk starts per second: {_with_ratio(figures, STARTS, START_RATE, BULK)}. "
    return "\n".join([*rows, "", f"{bulk}{where}; medians of {facts['rounds']} rounds of `{facts['command']}`."])


def _with_ratio(figures: Figures, part: str, measure: str, who: str) -> str:
    value, ratio = figures.median(part, measure, who), figures.ratio(part, measure, who, DRAMATIQ)
    if value is None:
        return "–"
    return number(value) + (f" ({ratio:.2f} ×)" if ratio is not None and who != DRAMATIQ else "")
