"""A durable agent of the OpenAI Agents SDK with three tools, one of which asks a person.

    pip install '.[all,openai-agents]'    # in a checkout
    conductor-worker dev examples/durable_agent_openai.py

Without `OPENAI_BASE_URL`, a model in this file plans the calls, so the example needs no network. To use any server that
speaks the OpenAI API, set `OPENAI_BASE_URL`, `OPENAI_API_KEY` and `MODEL`.

Start a workflow, and answer its question:

    conductor-worker workflow start refund --input '{"order": "o-17"}'
    conductor-worker workflow send $ID --message '{"name": "approval", "approved": true}'

Stop it with Ctrl-C.
"""

import json
import os
from collections.abc import AsyncIterator
from typing import Any

from agents import (
    Agent,
    Model,
    ModelProvider,
    ModelResponse,
    OpenAIProvider,
    RunConfig,
    Runner,
    Usage,
    function_tool,
)
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from conductor import durable, worker_task
from conductor.agents.openai_agents import ConductorModelProvider
from conductor.client.workflow import workflow


class Plan(Model):
    """A model for this example, without a network: it calls the three tools one after the other, and then answers."""

    async def get_response(self, system_instructions: Any, input: Any, *args: Any, **kwargs: Any) -> ModelResponse:  # noqa: A002, ARG002
        """Return the next tool call, or the result of the last tool as the answer."""
        items = [{"content": input}] if isinstance(input, str) else input
        order = str(items[0]["content"]).rpartition(" ")[2]
        turn = sum(item.get("type") == "function_call" for item in items)
        output: Any
        if turn < 3:
            name = ("find_order", "ask_person", "pay_back")[turn]
            arguments = json.dumps({"order": order})
            output = ResponseFunctionToolCall(
                type="function_call", name=name, call_id=f"call-{turn}", arguments=arguments
            )
        else:
            text = ResponseOutputText(type="output_text", text=items[-1]["output"], annotations=[])
            output = ResponseOutputMessage(
                id="answer", type="message", role="assistant", status="completed", content=[text]
            )
        return ModelResponse(output=[output], usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        """Raise an error, because a durable agent cannot stream."""
        raise NotImplementedError("this model does not stream")


class Plans(ModelProvider):
    """Provides the model `Plan` for every model name."""

    def get_model(self, model_name: str | None) -> Model:  # noqa: ARG002
        """Return the model `Plan`."""
        return Plan()


def choose_provider() -> ModelProvider:
    """Return the models of the server in `OPENAI_BASE_URL`, or `Plan` if the variable is not set."""
    return OpenAIProvider(use_responses=False) if "OPENAI_BASE_URL" in os.environ else Plans()


@function_tool
def find_order(order: str) -> str:
    """Return an order."""
    return json.dumps({"order": order, "total": 42})


@function_tool
async def ask_person(order: str) -> str:
    """Ask a person whether to refund an order."""
    answer = await durable.wait_for("approval", timeout_s=7 * 24 * 3600)
    return "approved" if answer and answer.get("approved") else f"nobody approved {order}"


@function_tool
def pay_back(order: str) -> str:
    """Pay an order back."""
    return f"paid back {order}"


agent = Agent(
    name="refunds",
    model=os.environ.get("MODEL", "plan"),
    instructions="Find the order, ask a person whether to refund it, and pay it back if the person agrees.",
    tools=[find_order, ask_person, pay_back],
)
config = RunConfig(
    model_provider=ConductorModelProvider(choose_provider(), waiting_tools=["ask_person"], retries=3),
    tracing_disabled=True,
)


@worker_task(task_definition_name="refund_agent", register_task_def=True)
async def refund_agent(order: str) -> str:
    """Handle a refund. The recorded steps survive the death of this process."""
    return str((await Runner.run(agent, f"Refund order {order}", run_config=config)).final_output)


with workflow("refund", inputs={"order": str}) as refund:
    result = refund_agent(order=refund.input("order"))
    refund.returns(answer=result)
