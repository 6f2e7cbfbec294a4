"""Run the benchmarks: all of them, or those named."""

from __future__ import annotations

import importlib
import pkgutil
import sys

import benchmarks

#: Not run without being asked for: they take minutes, or fetch another package.
ON_REQUEST = {"chaos_comparison", "coordinator_scale", "compared"}


def main(names: list[str]) -> int:
    known = sorted(m.name for m in pkgutil.iter_modules(benchmarks.__path__) if not m.name.startswith("_"))
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"there is no benchmark {', '.join(unknown)}; there are: {', '.join(known)}")
        return 2
    for name in names or [name for name in known if name not in ON_REQUEST]:
        print(f"\n== {name}")
        importlib.import_module(f"benchmarks.{name}").main()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
