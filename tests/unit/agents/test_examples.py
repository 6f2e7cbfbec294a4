"""The examples of durable agents, as they stand in `examples/`. Needs the group `agents`."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["durable_agent_pydantic_ai.py", "durable_agent_openai.py"])
def test_an_example_waits_for_a_person_and_pays_back(
    name: str, run_workflow: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    found = runpy.run_path(str(EXAMPLES / name))
    run = run_workflow(found["refund"], input={"order": "o-17"}, workers=[found["refund_agent"]])
    assert run.status == "RUNNING"
    run.send("approval", approved=True)
    assert run.output == {"answer": "paid back o-17"}
