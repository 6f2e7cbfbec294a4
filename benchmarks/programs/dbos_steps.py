"""20 steps in a row under DBOS on SQLite. Prints the milliseconds per step."""

from __future__ import annotations

import sys
import time

from dbos import DBOS

DBOS(config={"name": "steps", "system_database_url": "sqlite:///dbos.sqlite"})


@DBOS.step()
def noop(number: int) -> int:
    """Do nothing."""
    return number


@DBOS.workflow()
def program(steps: int) -> float:
    """Return the milliseconds per step."""
    began = time.perf_counter()
    for number in range(steps):
        noop(number)
    return (time.perf_counter() - began) / steps * 1000


DBOS.launch()
program(2)  # warm
print(program(int(sys.argv[1])))
DBOS.destroy()
