"""Plots a run: `python plot.py benchmarks.json benchmarks.png`, where matplotlib is installed."""

import json
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

OURS, OTHERS = "#0b7285", "#adb5bd"


def main(data, picture):
    run = json.loads(Path(data).read_text(encoding="utf-8"))
    lines = {(line["part"], line["measure"], line["who"]): line for line in run["figures"]}
    figure, panels = plt.subplots(2, 2, figsize=(11, 7), layout="constrained")
    _bars(panels[0][0], lines, "throughput", "tasks a second", "No-op tasks a second (more is better)")
    _stacks(panels[0][1], lines)
    _bars(panels[1][0], lines, "pickup from idle", "p50", "Pickup from idle, p50 in ms (less is better)")
    _growth(panels[1][1], lines)
    figure.suptitle(
        f"conductor-worker {run['version']} · {run['machine']} · {run['date']} · medians of {run['rounds']} rounds, "
        "lowest to highest",
        fontsize=9,
    )
    figure.savefig(picture, dpi=110)


def _of(lines, part, measure):
    return [line for key, line in lines.items() if key[:2] == (part, measure)]


def _colour(line):
    return OURS if line["who"].startswith("ours") else OTHERS


def _nothing(panel):
    """Write "not measured" into the panel of a part that this run did not measure, without axes."""
    panel.set_axis_off()
    panel.text(0.5, 0.5, "not measured", ha="center", color="grey", transform=panel.transAxes)


def _bars(panel, lines, part, measure, title):
    found = _of(lines, part, measure)[::-1]
    panel.set_title(title, fontsize=9)
    if not found:
        _nothing(panel)
        return
    medians = [line["median"] for line in found]
    spread = [
        [line["median"] - line["lowest"] for line in found],
        [line["highest"] - line["median"] for line in found],
    ]
    bars = panel.barh([line["who"] for line in found], medians, xerr=spread, color=[_colour(line) for line in found])
    panel.bar_label(bars, fmt="{:,.4g}", padding=6, fontsize=8)
    panel.margins(x=0.2)
    panel.tick_params(labelsize=8)


def _stacks(panel, lines):
    worker = _of(lines, "throughput", "CPU of the worker")[::-1]
    panel.set_title("CPU of a task, µs: worker + server (less is better)", fontsize=9)
    if not worker:
        _nothing(panel)
        return
    names = [line["who"] for line in worker]
    own = [line["median"] for line in worker]
    server = [lines["throughput", "CPU of the server", name]["median"] for name in names]
    panel.barh(names, own, color=[_colour(line) for line in worker], label="worker")
    panel.barh(names, server, left=own, color=[_colour(line) for line in worker], alpha=0.5, label="server")
    # The axis ends at 1.5 times the second longest bar, so that one very long bar does not make the others invisible.
    totals = [a + b for a, b in zip(own, server, strict=True)]
    room = 1.5 * sorted(totals)[-2:][0]
    for row, (a, b) in enumerate(zip(own, server, strict=True)):
        panel.text(min(a + b, room * 0.7), row, f" {a:,.0f} + {b:,.0f}", va="center", fontsize=8)
    panel.set_xlim(0, room)
    panel.tick_params(labelsize=8)


def _growth(panel, lines):
    measure = "CPU of the server, poll and report one by one"
    found = _of(lines, "growth", measure)
    panel.set_title("Server CPU of a task, × that on an empty file", fontsize=9)
    if not found:
        _nothing(panel)
        return
    for kind, style in (("finished", "o-"), ("queued", "s--")):
        of_kind = [line for line in found if kind in line["who"]]
        points = [(int(line["who"].split()[0].replace(",", "")), line["ratio"]) for line in of_kind]
        panel.plot([x for x, _ in points], [y for _, y in points], style, label=kind, color=OURS, alpha=0.8)
    panel.set_xscale("log")
    panel.set_ylim(0, max(1.6, 1.2 * max(line["ratio"] for line in found)))
    panel.axhline(1, color=OTHERS, linewidth=1)
    panel.legend(fontsize=8)
    panel.tick_params(labelsize=8)


if __name__ == "__main__":
    main(*sys.argv[1:])
