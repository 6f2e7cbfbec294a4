"""`make chaos`: see the package docstring. The exit status is 1 if a promise was broken."""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from .disasters import BACKUP_MAX_LOSS_S, MAX_LOSS_S
from .disasters import run as run_disaster
from .durable_kills import run as run_durable_kills
from .kills import run as run_kills
from .run import Plan, run

#: A run counts as stuck after the first value plus the second value for each task.
LIMIT_S, LIMIT_A_TASK_S = 600.0, 0.1
SHOWN = 30


def main() -> int:
    """Run the plan of the command line and print its result."""
    asked = _parse()
    directory = Path(asked.directory or tempfile.mkdtemp(prefix="chaos-"))
    directory.mkdir(parents=True, exist_ok=True)
    again = f"--seed {asked.seed} " + (
        f"--disasters {asked.disasters}" + " --with-backups" * asked.with_backups
        if asked.disasters
        else f"--durable-kills {asked.durable_kills}"
        if asked.durable_kills
        else f"--kills {asked.kills}"
        if asked.kills
        else f"--tasks {asked.tasks}"
    )
    _say(f'files in {directory}; draw the same again with: make chaos ARGS="{again}"')
    if asked.disasters:
        report, problems = _run_disasters(directory, asked)
    elif asked.durable_kills:
        shown = run_durable_kills(directory, asked.durable_kills, asked.seed, _say)
        report, problems = shown.report(), shown.problems()
    elif asked.kills:
        found = run_kills(directory, asked.kills, asked.seed, _say)
        report, problems = found.report(), found.problems
    else:
        limit_s = LIMIT_S + LIMIT_A_TASK_S * asked.tasks
        checks = run(
            Plan(jobs=asked.tasks // 2, seed=asked.seed, limit_s=limit_s, prefetch=asked.prefetch), directory, _say
        )
        report, problems = checks.report(), checks.problems
        if problems:
            checks.keep(directory)
    print(f"\n{report}\n")
    for problem in problems[:SHOWN]:
        print(f"BROKEN: {problem}")
    print(f"{len(problems)} promises broken" if problems else "no promise broken")
    if not problems and not asked.directory:
        shutil.rmtree(directory)
    return 1 if problems else 0


def _run_disasters(directory: Path, asked: argparse.Namespace) -> tuple[str, list[str]]:
    """Lose machines at random moments. Return the report and the broken promises."""
    rng, problems, lines = random.Random(asked.seed), list[str](), list[str]()
    max_loss_s = BACKUP_MAX_LOSS_S if asked.with_backups else MAX_LOSS_S
    for number in range(1, asked.disasters + 1):
        place = directory / str(number)
        place.mkdir()
        found = run_disaster(place, rng, replicate=not asked.with_backups, max_loss_s=max_loss_s)
        lines.append(f"{number}: {found}")
        _say(lines[-1])
        problems += [f"disaster {number}: {problem}" for problem in found.problems]
    return "\n".join(lines), problems


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make chaos ARGS=...", description=__doc__)
    how_much = parser.add_mutually_exclusive_group()
    how_much.add_argument("--tasks", type=int, default=5000, help="how many tasks, without retries (default: 5000)")
    how_much.add_argument("--kills", type=int, help="kill the coordinator so often under load, and do nothing else")
    how_much.add_argument("--durable-kills", type=int, help="kill workers and coordinator so often amid durable steps")
    how_much.add_argument("--disasters", type=int, help="lose the machine so often under load, and restore it")
    parser.add_argument("--with-backups", action="store_true", help="disasters: restore copies, not a replica")
    parser.add_argument(
        "--prefetch", type=int, default=0, help="the workers' option; some functions block the loop then"
    )
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000, help="what chance begins with")
    parser.add_argument("--directory", help="where its files go, and stay (default: a temporary directory)")
    asked = parser.parse_args()
    if asked.tasks < 2 or (asked.kills is not None and asked.kills < 1):
        parser.error("--tasks must be 2 or more, --kills 1 or more")
    return asked


def _say(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {line}", flush=True)


if __name__ == "__main__":
    for name in [name for name in os.environ if name.lower().startswith("conductor")]:
        del os.environ[name]  # the run is about itself, not about the shell it is started from
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _frame: sys.exit(128 + number))  # also then, nothing is left behind
    sys.exit(main())
