"""The cost of the audit trail: starts of workflows with it and without it.

The audit trail has no switch, so the server without it is the same program with one change: the request of a start has
no actor, and the column of the workflow stays empty. Both servers run at the same time. The starts go to them in the
order A B B A, so that other load on the machine affects both. "chance" is the difference between two neighbours of the
same kind.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks._server import Server, server, simple

#: The number of starts per turn, and the number of groups of four turns.
STARTS, GROUPS = 1000, 10
WORKFLOW = "audited"
PROGRAM = "benchmarks.audit_cost"


class _Turn(NamedTuple):
    """The figures of one turn: starts per second, and CPU of the server per start."""

    per_second: float
    cpu_us: float


def _start(running: Server) -> _Turn:
    before = running.family.cpu_s()
    took_s = running.start(WORKFLOW, STARTS)
    return _Turn(STARTS / took_s, (running.family.cpu_s() - before) / STARTS * 1e6)


def _measure() -> Iterator[tuple[_Turn, _Turn, _Turn, _Turn]]:
    """Yield groups of four turns: without, with, with, without."""
    root = str(Path(__file__).parents[1])
    with server(program=PROGRAM, env={"PYTHONPATH": f"{root}/src:{root}"}) as plain, server() as audited:
        for running in (plain, audited):
            running.define(WORKFLOW, simple())
            running.start(WORKFLOW, STARTS)
        recorded = [bool(one.connection.call("GET", "/view/audit?action=start")["entries"]) for one in (plain, audited)]
        if recorded != [False, True]:
            raise RuntimeError(f"only the second server must have an audit trail, but they have {recorded}")
        for _ in range(GROUPS):
            yield _start(plain), _start(audited), _start(audited), _start(plain)


def _show(what: str, ratios: Sequence[float], chance: Sequence[float]) -> None:
    median, (low, _, high) = statistics.median(ratios), statistics.quantiles(ratios, n=4)
    print(f"{what:20} {median:.3f} ({low:.3f} to {high:.3f})  chance {statistics.median(chance):.1%}")


def main() -> None:
    """Print the ratios of starts with the audit trail to starts without it, and the quartiles of the ratios."""
    print(f"{4 * GROUPS * STARTS} starts from eight connections: with the audit trail, against none")
    groups = list(_measure())
    for what, field in (("starts a second", 0), ("CPU of the server", 1)):
        ratios = [(b[field] + c[field]) / (a[field] + d[field]) for a, b, c, d in groups]
        _show(what, ratios, [abs(c[field] / b[field] - 1) for _, b, c, _ in groups])


def _serve_without() -> None:
    """Run the command line with starts that have no actor."""
    from conductor.cli import main as run_command
    from conductor.coordinator.http.request import ApiRequest

    find_actor = vars(ApiRequest)["actor"].fget

    def find_actor_unless_start(request: ApiRequest) -> Any:
        is_start = request.head.path.endswith(WORKFLOW.encode())
        return None if is_start else find_actor(request)

    ApiRequest.actor = property(find_actor_unless_start)  # type: ignore[assignment, method-assign]
    sys.exit(run_command())


if __name__ == "__main__":
    if len(sys.argv) > 1:
        _serve_without()
    else:
        main()
