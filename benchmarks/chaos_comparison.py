"""The chaos run with our worker and with conductor-python 2.0.0, one after the other, on the same coordinator.

Both runs have the same seed, so jobs, network faults and kills are the same (`CHAOS_SEED`, `CHAOS_JOBS`).
conductor-python runs in an environment under .cache/. Its workers extend their leases; all other options have their
defaults.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace
from pathlib import Path

from tests.integration.chaos.run import HERE, Plan, run
from tests.integration.other_sdks import conductor_python

#: The time limit of a run, which allows for retries that are tens of seconds apart.
LIMIT_S = 400.0
#: The time over which the jobs are started, and the number of attacks on processes and disks in that time.
SPREAD_S, ATTACKS = 60.0, 15
#: The names of the figures that are printed side by side.
ROWS = (
    "seconds",
    "tasks started",
    "tasks ended",
    "workflows",
    "attacks",
    "executions begun",
    "executions finished",
    "verdicts",
    "reports that all attempts failed",
    "repeated side effects",
    "finished and unheard of",
    "lost",
    "programs that did not end",
)


def main() -> None:
    """Run both kinds of workers and print their figures side by side."""
    jobs, seed = int(os.environ.get("CHAOS_JOBS", "1000")), int(os.environ.get("CHAOS_SEED", "1"))
    # The jobs are spread over time, so that a fast worker is not finished before the last attack.
    ours = Plan(jobs=jobs, seed=seed, limit_s=LIMIT_S, spread_s=SPREAD_S, attacks=ATTACKS)
    command = (str(conductor_python()), str(HERE / "conductor_python_workers.py"), "{url}", "{execution_log}")
    theirs = replace(ours, programs=(("one", command), ("two", command)))
    columns = [_figures(plan) for plan in (ours, theirs)]
    print(f"seed {seed}, {jobs} jobs of two tasks\n{'':>28} {'conductor-worker':<60} conductor-python 2.0.0")
    for row in ROWS:
        print(f"{row:>28} {columns[0][row]!s:<60} {columns[1][row]}")


def _figures(plan: Plan) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as directory:
        return run(plan, Path(directory)).figures()


if __name__ == "__main__":
    main()
