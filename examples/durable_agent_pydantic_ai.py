"""A durable pydantic-ai agent with three tools, one of which asks a person.

    pip install '.[all,pydantic-ai]'    # in a checkout
    conductor-worker dev examples/durable_agent_pydantic_ai.py

Without `OPENAI_BASE_URL`, a model in this file plans the calls, so the example needs no network. To use any server that
speaks the OpenAI API, set `OPENAI_BASE_URL`, `OPENAI_API_KEY` and `MODEL`.

Start a workflow, and answer its question:

    conductor-worker workflow start refund --input '{"order": "o-17"}'
    conductor-worker workflow send $ID --message '{"name": "approval", "approved": true}'

Stop it with Ctrl-C.
"""

import os

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models import Model
from pydantic_ai.models.function import AgentInfo, FunctionModel

from conductor import durable, worker_task
from conductor.agents.pydantic_ai import ConductorDurability
from conductor.client.workflow import workflow


def plan(messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
    """Call the three tools one after the other, and then answer. This function replaces a real model."""
    order = str(messages[0].parts[-1].content).rpartition(" ")[2]  # type: ignore[union-attr]
    turn = sum(isinstance(message, ModelResponse) for message in messages)
    if turn < 3:
        return ModelResponse([ToolCallPart(("find_order", "ask_person", "pay_back")[turn], {"order": order})])
    return ModelResponse([TextPart(str(messages[-1].parts[0].content))])  # type: ignore[union-attr]


def choose_model() -> Model | str:
    """Return a model of the server in `OPENAI_BASE_URL`, or `plan` if the variable is not set."""
    return f"openai-chat:{os.environ['MODEL']}" if "OPENAI_BASE_URL" in os.environ else FunctionModel(plan)


agent = Agent(
    choose_model(),
    name="refunds",
    instructions="Find the order, ask a person whether to refund it, and pay it back if the person agrees.",
    capabilities=[ConductorDurability(model_options={"retries": 3, "retry_delay_s": 2})],
)


@agent.tool_plain
def find_order(order: str) -> dict[str, object]:
    """Return an order."""
    return {"order": order, "total": 42}


@agent.tool_plain(metadata={"conductor": False})  # outside a step, because it waits
async def ask_person(order: str) -> str:
    """Ask a person whether to refund an order."""
    answer = await durable.wait_for("approval", timeout_s=7 * 24 * 3600)
    return "approved" if answer and answer.get("approved") else f"nobody approved {order}"


@agent.tool_plain
def pay_back(order: str) -> str:
    """Pay an order back."""
    return f"paid back {order}"


@worker_task(task_definition_name="refund_agent", register_task_def=True)
async def refund_agent(order: str) -> str:
    """Handle a refund. The recorded steps survive the death of this process."""
    return (await agent.run(f"Refund order {order}")).output


with workflow("refund", inputs={"order": str}) as refund:
    result = refund_agent(order=refund.input("order"))
    refund.returns(answer=result)
