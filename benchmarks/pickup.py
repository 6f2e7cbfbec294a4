"""The time from sending one task to the first line of its function, while the worker is idle.

For this package, the benchmark starts a workflow; for other libraries, it sends a message. The time includes the
request to the server.
"""

from __future__ import annotations

from benchmarks._rivals import CONDUCTOR_PYTHON, DRAMATIQ, Contestant, Stage
from benchmarks._run import Run

PART = "pickup from idle"
HALF, MOST, WORST = "p50", "p95", "worst"
#: The number of samples of all rounds together.
SAMPLES = 500
QUICK_SAMPLES = 60
WARM_UP = 5
#: The pause between two samples, after which all processes are idle again.
PAUSE_S = 0.02


def measure(run: Run) -> None:
    """Take an equal part of the samples in each round."""
    wanted = (QUICK_SAMPLES if run.quick else SAMPLES) // run.few
    for contestant in run.turns(run.few):
        count = max(5, wanted // 10) if contestant.name == CONDUCTOR_PYTHON else wanted
        with contestant.stage() as stage, stage.worker():
            _add(run, contestant, _samples(stage, count))


def _samples(stage: Stage, count: int) -> list[float]:
    if stage.coordinator is not None:
        stage.coordinator.until_polled()
    return sorted(us / 1000 for us in stage.pickups_us(WARM_UP + count, PAUSE_S)[WARM_UP:])


def _add(run: Run, contestant: Contestant, sorted_ms: list[float]) -> None:
    last = len(sorted_ms) - 1
    for measure_name, at in ((HALF, last // 2), (MOST, round(last * 0.95)), (WORST, last)):
        run.figures.add(PART, measure_name, contestant.name, sorted_ms[at], "ms", base=DRAMATIQ)
