"""Durable agents of the OpenAI Agents SDK, with a model in this file. Needs the group `agents`."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from agents import (
    Agent,
    FunctionTool,
    Model,
    ModelProvider,
    ModelResponse,
    RunConfig,
    Runner,
    Usage,
    UserError,
    function_tool,
    set_tracing_disabled,
)
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from conductor import durable
from conductor.agents.openai_agents import ConductorModelProvider, DurableModel
from conductor.client.http.models.task_def import TaskDef
from conductor.client.worker.worker import Worker
from conductor.client.workflow import ConductorWorkflow
from conductor.client.workflow.task.simple_task import SimpleTask
from tests.unit.agents.calls import Calls

pytestmark = pytest.mark.slow

FLOW = ConductorWorkflow(None, "w") >> SimpleTask("agent", "a")
PLAN = [[("find", "o1")], [("stock", "o1"), ("stock", "o2"), ("price", "o1")], []]


@pytest.fixture(autouse=True)
def no_tracing() -> None:
    set_tracing_disabled(True)


class PlannedModel(Model):
    """Calls the tools of a plan, and then answers with their results."""

    def __init__(self, calls: Calls, plan: Any) -> None:
        self.calls, self.plan = calls, plan

    async def get_response(self, system_instructions: Any, input: Any, *args: Any, **kwargs: Any) -> ModelResponse:  # noqa: A002
        items = [] if isinstance(input, str) else input
        asked = [item for item in items if item.get("type") == "function_call"]
        returned = [str(item["output"]) for item in items if item.get("type") == "function_call_output"]
        turn, left = 0, len(asked)
        while left:
            left -= len(self.plan[turn])
            turn += 1
        self.calls.note(f"model{turn + 1}")
        output: list[Any] = [
            ResponseFunctionToolCall(
                type="function_call", name=name, call_id=f"c{turn}-{place}", arguments=json.dumps({"order": order})
            )
            for place, (name, order) in enumerate(self.plan[turn])
        ]
        if not output:
            text = ResponseOutputText(type="output_text", text=" ".join(returned), annotations=[])
            output = [
                ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[text])
            ]
        return ModelResponse(output=output, usage=Usage(requests=1, input_tokens=5), response_id=None)

    async def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        raise NotImplementedError
        yield


class Provider(ModelProvider):
    def __init__(self, model: Model) -> None:
        self.model = model

    def get_model(self, model_name: str | None) -> Model:
        return self.model


def make_tools(calls: Calls) -> list[Any]:
    @function_tool
    async def find(order: str) -> str:
        calls.note(f"find {order}")
        return f"found-{order}"

    @function_tool
    def stock(order: str) -> int:
        calls.note(f"stock {order}")
        return 3

    @function_tool(failure_error_function=None)
    async def price(order: str) -> float:
        calls.note(f"price {order}")
        return 9.5

    return [find, stock, price]


def worker(function: Any, retries: int = 20) -> Worker:
    return Worker("agent", function, task_def=TaskDef(retry_count=retries, retry_delay_seconds=0))


@pytest.mark.parametrize("by_name", [True, False])
def test_an_agent_continues_after_each_call_without_repeating_one(run_workflow: Any, by_name: bool) -> None:
    calls = Calls()
    model = PlannedModel(calls, PLAN)
    agent = Agent(name="shop", model="planned" if by_name else DurableModel(model), tools=make_tools(calls))
    config = RunConfig(model_provider=ConductorModelProvider(Provider(model)))

    async def program() -> str:
        calls.begin()
        result = await Runner.run(agent, "where is o1?", run_config=config)
        assert result.context_wrapper.usage.input_tokens == 15
        return str(result.final_output)

    run = run_workflow(FLOW, workers=[worker(program)])
    assert run.output == {"result": "found-o1 3 3 9.5"}
    assert calls == ["model1", "find o1", "model2", "stock o1", "stock o2", "price o1", "model3"]
    assert calls.attempts == len(calls)
    names = [step.name for step in run.steps("a")]
    prefix = "model.planned" if by_name else "model"
    assert names == [prefix, "tool.find.c0-0", prefix, "tool.stock.c1-0", "tool.stock.c1-1", "tool.price.c1-2", prefix]


async def test_outside_a_task_the_agent_runs_as_usual() -> None:
    calls = Calls(crashes=False)
    agent = Agent(name="shop", model=DurableModel(PlannedModel(calls, PLAN)), tools=make_tools(calls))
    assert (await Runner.run(agent, "where is o1?")).final_output == "found-o1 3 3 9.5"
    assert len(calls) == 7


def test_a_tool_that_asks_a_person_holds_no_worker(run_workflow: Any) -> None:
    calls = Calls(crashes=False)

    @function_tool
    async def ask(order: str) -> str:
        answer = await durable.wait_for("approval")
        return f"{order} {answer['decision'] if answer else 'nobody'}"

    model = DurableModel(PlannedModel(calls, [[("find", "o1")], [("ask", "o1")], []]), waiting_tools=["ask"])
    agent = Agent(name="shop", model=model, tools=[*make_tools(calls), ask])

    async def program() -> str:
        return str((await Runner.run(agent, "refund o1")).final_output)

    run = run_workflow(FLOW, workers=[worker(program)])
    assert (run.status, calls) == ("RUNNING", ["model1", "find o1", "model2"])
    run.send("approval", decision="yes")
    assert run.output == {"result": "found-o1 o1 yes"}
    assert calls == ["model1", "find o1", "model2", "model3"]


def test_a_tool_waits_for_one_model_although_another_model_has_used_it(run_workflow: Any) -> None:
    calls = Calls(crashes=False)

    @function_tool
    async def ask(order: str) -> str:
        return "waited" if await durable.wait_for("approval", timeout_s=0) is None else "answered"

    plan = [[("ask", "o1")], []]
    waits = DurableModel(PlannedModel(calls, plan), name="waits", waiting_tools=["ask"])
    records = DurableModel(PlannedModel(calls, [[]]), name="records")

    async def program() -> str:
        for model in (records, waits):
            result = await Runner.run(Agent(name="shop", model=model, tools=[ask]), "refund o1")
        return str(result.final_output)

    assert run_workflow(FLOW, workers=[worker(program)]).skip_sleeps().output == {"result": "waited"}


def test_the_tools_of_an_agent_that_gets_a_handoff_are_steps_too(run_workflow: Any) -> None:
    calls = Calls()
    second = Agent(
        name="second", model=DurableModel(PlannedModel(calls, [[], [("find", "o1")], []])), tools=make_tools(calls)
    )
    first = Agent(
        name="first", model=DurableModel(PlannedModel(calls, [[("transfer_to_second", "o1")]])), handoffs=[second]
    )

    async def program() -> str:
        calls.begin()
        return str((await Runner.run(first, "go")).final_output)

    second.model._model.plan = [[("transfer", "o1")], [("find", "o1")], []]  # type: ignore[union-attr]
    run = run_workflow(FLOW, workers=[worker(program)])
    assert "found-o1" in run.output["result"]
    assert calls == ["model1", "model2", "find o1", "model3"]


def test_streaming_is_refused_inside_a_task_only(run_workflow: Any) -> None:
    agent = Agent(name="shop", model=DurableModel(PlannedModel(Calls(), PLAN)))

    async def program() -> str:
        result = Runner.run_streamed(agent, "go")
        with pytest.raises(UserError, match="use Runner.run instead of Runner.run_streamed"):
            async for _ in result.stream_events():
                pass
        return "refused"

    assert run_workflow(FLOW, workers=[worker(program)]).output == {"result": "refused"}


async def test_a_tool_keeps_working_outside_a_task_after_it_ran_inside(run_workflow: Any) -> None:
    calls = Calls(crashes=False)
    tools = make_tools(calls)
    agent = Agent(name="shop", model=DurableModel(PlannedModel(calls, PLAN)), tools=tools)

    async def program() -> str:
        return str((await Runner.run(agent, "go")).final_output)

    run_workflow(FLOW, workers=[worker(program)])
    assert all(isinstance(tool, FunctionTool) for tool in tools)
    assert (await Runner.run(agent, "go")).final_output == "found-o1 3 3 9.5"
