"""Durable pydantic-ai agents, with the framework's own function model. Needs the group `agents`."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic_ai import Agent, ModelRetry, RunContext
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from conductor import durable
from conductor.agents.pydantic_ai import ConductorDurability
from conductor.client.http.models.task_def import TaskDef
from conductor.client.worker.worker import Worker
from conductor.client.workflow import ConductorWorkflow
from conductor.client.workflow.task.simple_task import SimpleTask
from tests.unit.agents.calls import Calls

pytestmark = pytest.mark.slow

FLOW = ConductorWorkflow(None, "w") >> SimpleTask("agent", "a")
PLAN = [[("find", "o1")], [("stock", "o1"), ("price", "o1")], []]


def make_agent(calls: Calls, plan: Any = PLAN, **options: Any) -> Agent[None, str]:
    """An agent whose model calls the tools of a plan, and then answers with the results."""

    async def model(messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
        turn = sum(isinstance(message, ModelResponse) for message in messages)
        calls.note(f"model{turn + 1}")
        if wanted := plan[turn]:
            return ModelResponse([ToolCallPart(name, {"order": order}) for name, order in wanted])
        returned = [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
        return ModelResponse([TextPart(" ".join(str(part.content) for part in returned))])

    agent = Agent(FunctionModel(model), name="shop", capabilities=[ConductorDurability(**options)])

    @agent.tool_plain
    async def find(order: str) -> dict[str, Any]:
        calls.note("find")
        return {"id": order}

    @agent.tool_plain
    def stock(order: str) -> int:
        calls.note("stock")
        return 3

    @agent.tool  # type: ignore[arg-type]
    async def price(ctx: RunContext[None], order: str) -> float:
        calls.note("price")
        return 9.5

    return agent


def worker(function: Any, retries: int = 20) -> Worker:
    return Worker("agent", function, task_def=TaskDef(retry_count=retries, retry_delay_seconds=0))


def test_an_agent_continues_after_each_call_without_repeating_one(run_workflow: Any) -> None:
    calls = Calls()
    agent = make_agent(calls)

    async def program() -> str:
        calls.begin()
        return (await agent.run("where is o1?")).output

    run = run_workflow(FLOW, workers=[worker(program)])
    assert run.output == {"result": "{'id': 'o1'} 3 9.5"}
    assert calls == ["model1", "find", "model2", "stock", "price", "model3"]
    assert calls.attempts == len(calls)


async def test_outside_a_task_the_agent_runs_as_usual() -> None:
    calls = Calls(crashes=False)
    assert (await make_agent(calls).run("where is o1?")).output == "{'id': 'o1'} 3 9.5"
    assert len(calls) == 6


def test_a_tool_that_asks_a_person_holds_no_worker(run_workflow: Any) -> None:
    calls = Calls(crashes=False)
    agent = make_agent(calls, [[("find", "o1")], [("ask", "o1")], []])

    @agent.tool_plain(metadata={"conductor": False})
    async def ask(order: str) -> str:
        answer = await durable.wait_for("approval")
        return f"{order} {answer['decision'] if answer else 'nobody'}"

    async def program() -> str:
        calls.begin()
        return (await agent.run("refund o1")).output

    run = run_workflow(FLOW, workers=[worker(program)])
    assert (run.status, calls) == ("RUNNING", ["model1", "find", "model2"])
    assert run.task("a").status != "COMPLETED"
    run.send("approval", decision="yes")
    assert run.output == {"result": "{'id': 'o1'} o1 yes"}
    assert calls == ["model1", "find", "model2", "model3"]


def test_a_tool_may_ask_the_model_to_try_again(run_workflow: Any) -> None:
    calls = Calls()
    agent = make_agent(calls, [[("strict", "o1")], [("strict", "o2")], []])

    @agent.tool_plain
    async def strict(order: str) -> str:
        calls.note(f"strict {order}")
        if order == "o1":
            raise ModelRetry("use o2")
        return order

    async def program() -> str:
        calls.begin()
        return (await agent.run("go")).output

    assert run_workflow(FLOW, workers=[worker(program)]).output["result"].endswith("o2")
    assert calls == ["model1", "strict o1", "model2", "strict o2", "model3"]


def test_tools_and_models_have_the_options_of_steps(run_workflow: Any) -> None:
    calls = Calls(crashes=False)
    agent = make_agent(calls, [[("flaky", "o1")], []], tool_options={"retries": 1, "retry_delay_s": 0})

    @agent.tool_plain(metadata={"conductor": {"retries": 2}})
    async def flaky(order: str) -> str:
        calls.note("flaky")
        if calls.count("flaky") < 3:
            raise ConnectionError(order)
        return order

    async def program() -> str:
        return (await agent.run("go")).output

    assert run_workflow(FLOW, workers=[worker(program, retries=0)]).output == {"result": "o1"}
    assert calls == ["model1", "flaky", "flaky", "flaky", "model2"]


def test_an_agent_without_a_name_is_refused() -> None:
    with pytest.raises(Exception, match="needs to have a unique `name` in order to be used with Conductor"):
        Agent("test", capabilities=[ConductorDurability()])
