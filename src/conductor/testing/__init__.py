"""The test kit: a clock that the test advances, and a scriptable Conductor server on real sockets.

    with ConductorStub() as server:
        server.add_task("greet", {"name": "Ada"})
        ...  # run a worker with Configuration(server.url)
        server.wait_results(1)

In reading order:

- `stub`: `ConductorStub`, the class through which a test uses the server.
- `request`: one request as the stub received it, and the name of its route.
- `fault_script`: the behaviours that a test can script, their order, and gates that hold requests back.
- `fault_player`: answers one request with its scripted behaviour.
- `router`: maps a request to its handler; answers and errors in Conductor's format.
- `task_routes`, `metadata_routes`, `workflow_routes`, `stub_tokens`: the handlers.
- `stub_queue`: the tasks in memory, and their leases.
- `report_rules`: accepts or rejects reports, by Conductor's rules or with the coordinator's verdicts.
- `listener`, `http11`, `ports`: the socket and its thread, HTTP/1.1, and a port that stays free.
- `wait_until`: waiting for a condition without sleeping.
- `fake_clock`: `FakeClock`, a clock that stands still until a test advances it.
- `workflow_run`: a workflow under test, on a coordinator with a `FakeClock`.
- `replay`: checks that a function with durable steps can be replayed, and kills workers between two steps.
- `pytest_plugin`: the fixtures.
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
    from conductor.testing.replay import WorkerKiller as WorkerKiller
    from conductor.testing.replay import check_replay as check_replay
    from conductor.testing.request import Request as Request
    from conductor.testing.stub import ConductorStub as ConductorStub
    from conductor.testing.workflow_run import WorkflowBench as WorkflowBench
    from conductor.testing.workflow_run import WorkflowRun as WorkflowRun

#: The module that defines each public name.
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
    "WorkerKiller": "replay",
    "WorkflowBench": "workflow_run",
    "WorkflowRun": "workflow_run",
    "check_replay": "replay",
}
__all__ = list(_HOMES)

__getattr__, __dir__ = define_lazy_names(__name__, _HOMES)
