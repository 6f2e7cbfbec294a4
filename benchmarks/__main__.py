"""Run the whole suite of benchmarks, or the named benchmarks.

make bench                                  the suite: five rounds of all contestants
make bench ARGS=--quick                     a smaller suite: two rounds, under two minutes on a quiet machine
make bench ARGS="throughput pickup"         the named parts of the suite
make bench ARGS=--publish                   the suite; its figures are written into README.md and docs/
make bench ARGS=path                        a benchmark that is not part of the suite
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import shlex
import sys
import time
import traceback

import benchmarks
from benchmarks._figures import Figures
from benchmarks._publish import BUSY, about, keep, report
from benchmarks._rivals import contestants
from benchmarks._run import Run

#: The parts of the suite, in the order of their figures in the printed table.
SUITE = ("throughput", "counts", "starts", "pickup", "shapes", "growth", "idle", "memory")
ROUNDS, QUICK_ROUNDS = 5, 2


def main(words: list[str]) -> int:
    """Run the benchmarks that the arguments name. Return the exit status 0, or exit with 2 if a name is unknown."""
    known = sorted(m.name for m in pkgutil.iter_modules(benchmarks.__path__) if not m.name.startswith("_"))
    others = [name for name in known if name not in (*SUITE, "programs")]
    parser = argparse.ArgumentParser(
        prog="make bench", description=f"The suite: {', '.join(SUITE)}. Others, on request: {', '.join(others)}."
    )
    parser.add_argument("names", nargs="*", metavar="name", help="what to measure; the whole suite if none is named")
    parser.add_argument("--quick", action="store_true", help="two small rounds")
    parser.add_argument("--rounds", type=int, help=f"{ROUNDS} unless told otherwise")
    parser.add_argument("--publish", action="store_true", help="put the figures into README.md and docs/")
    asked = parser.parse_args(words)
    if unknown := [name for name in asked.names if name not in (*SUITE, *others)]:
        parser.error(f"there is no benchmark {', '.join(unknown)}; there are: {', '.join((*SUITE, *others))}")
    for name in [name for name in asked.names if name in others]:
        print(f"\n== {name}")
        importlib.import_module(f"benchmarks.{name}").main()
    parts = [name for name in SUITE if name in asked.names or not asked.names]
    if parts:
        rounds = asked.rounds or (QUICK_ROUNDS if asked.quick else ROUNDS)
        _run(parts, rounds, quick=asked.quick, publish=asked.publish, words=words)
    return 0


def _run(parts: list[str], rounds: int, *, quick: bool, publish: bool, words: list[str]) -> None:
    figures = Figures()
    facts = about("make bench" + (f" ARGS={shlex.quote(' '.join(words))}" if words else ""), rounds)
    if facts["load before"] > BUSY:
        print(f"the machine is busy (load {facts['load before']}): compare ratios, and believe no absolute figure")
    run = Run(figures, contestants(figures.skipped), rounds, quick)
    for name, why in figures.skipped.items():
        print(f"left out: {name}: {why}")
    began = time.monotonic()
    for part in parts:
        print(f"== {part} ({time.monotonic() - began:.0f} s)", flush=True)
        try:
            importlib.import_module(f"benchmarks.{part}").measure(run)
        except Exception as error:  # a part that fails must not discard the figures of the other parts
            traceback.print_exc()
            figures.skipped[part] = f"it failed: {error}"
    facts["seconds"] = round(time.monotonic() - began)
    print("\n" + report(facts, figures))
    keep(facts, figures, publish=publish)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
