"""The test kit: a clock that tests turn, and a scriptable server on real sockets.

    with ConductorStub() as server:
        server.add_task("greet", {"name": "Ada"})
        ...  # run a worker with Configuration(server.url)
        server.wait_results(1)

In reading order:

- `stub`: `ConductorStub`, all that a test sees of the server.
- `request`: one request as the stub saw it, and the name of its route.
- `fault_script`: what a test tells the stub to do: behaviours, their order, requests that are held back.
- `fault_player`: a request answered as its behaviour says.
- `router`: from a request to the function that answers it.
- `task_routes`, `metadata_routes`, `workflow_routes`: those functions.
- `stub_queue`: the tasks in memory, and their leases.
- `report_rules`: what the stub thinks of a report: Conductor's rules, a coordinator's verdicts.
- `stub_tokens`: access tokens: who gets one, and how long it is good for.
- `stub_errors`: refusals, in the shape that Conductor gives them.
- `listener`, `http11`, `ports`: the socket and its thread, HTTP on it, a port that stays free.
- `wait_until`: waiting for something to become true, without sleeping.
- `fake_clock`: `FakeClock`, a clock that stands still until a test turns it.
- `workflow_run`: a workflow under test, on a coordinator whose time a test turns.
- `pytest_plugin`: all of it as fixtures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from conductor.common.lazy_names import define_lazy_names

if TYPE_CHECKING:
    from conductor.testing.fake_clock import FakeClock as FakeClock
    from conductor.testing.fault_script import Behaviour as Behaviour
    from conductor.testing.fault_script import CloseAfter as CloseAfter
    from conductor.testing.fault_script import Delay as Delay
    from conductor.testing.fault_script import HalfOpen as HalfOpen
    from conductor.testing.fault_script import Judge as Judge
    from conductor.testing.fault_script import Malformed as Malformed
    from conductor.testing.fault_script import Pass as Pass
    from conductor.testing.fault_script import Reset as Reset
    from conductor.testing.fault_script import Status as Status
    from conductor.testing.request import Request as Request
    from conductor.testing.stub import ConductorStub as ConductorStub

#: Name to the module that has it.
_HOMES = {
    "Behaviour": "fault_script",
    "CloseAfter": "fault_script",
    "ConductorStub": "stub",
    "Delay": "fault_script",
    "FakeClock": "fake_clock",
    "HalfOpen": "fault_script",
    "Judge": "fault_script",
    "Malformed": "fault_script",
    "Pass": "fault_script",
    "Request": "request",
    "Reset": "fault_script",
    "Status": "fault_script",
}
__all__ = list(_HOMES)

__getattr__, __dir__ = define_lazy_names(__name__, _HOMES)
