"""The test kit: a clock that tests turn, and a scriptable server on real sockets.

with ConductorStub() as server:
    server.add_task("greet", {"name": "Ada"})
    ...  # run a worker with Configuration(server.url)
    server.wait_results(1)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from conductor.lazy import lazily

if TYPE_CHECKING:
    from conductor.testing.behaviours import Behaviour as Behaviour
    from conductor.testing.behaviours import CloseAfter as CloseAfter
    from conductor.testing.behaviours import Delay as Delay
    from conductor.testing.behaviours import HalfOpen as HalfOpen
    from conductor.testing.behaviours import Judge as Judge
    from conductor.testing.behaviours import Malformed as Malformed
    from conductor.testing.behaviours import Pass as Pass
    from conductor.testing.behaviours import Reset as Reset
    from conductor.testing.behaviours import Status as Status
    from conductor.testing.fake_clock import FakeClock as FakeClock
    from conductor.testing.request import Request as Request
    from conductor.testing.stub import ConductorStub as ConductorStub

#: Name to the module that has it.
_HOMES = {
    "Behaviour": "behaviours",
    "CloseAfter": "behaviours",
    "ConductorStub": "stub",
    "Delay": "behaviours",
    "FakeClock": "fake_clock",
    "HalfOpen": "behaviours",
    "Judge": "behaviours",
    "Malformed": "behaviours",
    "Pass": "behaviours",
    "Request": "request",
    "Reset": "behaviours",
    "Status": "behaviours",
}
__all__ = list(_HOMES)

__getattr__, __dir__ = lazily(__name__, _HOMES)
