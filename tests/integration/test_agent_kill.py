"""Agents in worker processes that are killed after each model request and each tool call. Needs the group `agents`."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from conductor.coordinator import Coordinator
from tests.integration.program import Program

#: Begins both programs. `begin` is called at the start of each operation. It kills the process in which a second
#: operation begins, so that each process completes one operation.
COMMON = """
from conductor import durable
from conductor.client.http.models.task_def import TaskDef

done_here = []

def begin(name):
    if done_here:
        os.kill(os.getpid(), signal.SIGKILL)
    done_here.append(name)
    with open("calls", "a") as calls:
        calls.write(name + "\\n")

def found(order):
    begin("find " + order)
    return "found-" + order

def counted(order):
    begin("stock " + order)
    return "3"

def serve(program):
    worker = Worker("agent", program, poison_limit=100)
    with TaskHandler(workers=[worker], scan_for_annotated_workers=False) as handler:
        handler.start_processes()
        handler.join_processes()

PLAN = [("find", "o1"), ("stock", "o1"), ("ask", "o1")]
"""

PYDANTIC_AI = """
from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel
from conductor.agents.pydantic_ai import ConductorDurability

def model(messages, info):
    turn = sum(isinstance(message, ModelResponse) for message in messages)
    begin(f"model{turn + 1}")
    if turn < len(PLAN):
        name, order = PLAN[turn]
        return ModelResponse([ToolCallPart(name, {"order": order})])
    return ModelResponse([TextPart(messages[-1].parts[0].content)])

agent = Agent(FunctionModel(model), name="shop", capabilities=[ConductorDurability()])

@agent.tool_plain
def find(order: str) -> str:
    return found(order)

@agent.tool_plain
def stock(order: str) -> str:
    return counted(order)

@agent.tool_plain(metadata={"conductor": False})
async def ask(order: str) -> str:
    answer = await durable.wait_for("approval")
    return answer["decision"]

async def program() -> str:
    return (await agent.run("refund o1")).output
"""

OPENAI_AGENTS = """
import json
from agents import Agent, Model, ModelResponse, Runner, Usage, function_tool, set_tracing_disabled
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
from conductor.agents.openai_agents import DurableModel

set_tracing_disabled(True)

class Planned(Model):
    async def get_response(self, system_instructions, input, *args, **kwargs):
        items = [] if isinstance(input, str) else input
        turn = sum(item.get("type") == "function_call" for item in items)
        begin(f"model{turn + 1}")
        if turn < len(PLAN):
            name, order = PLAN[turn]
            output = ResponseFunctionToolCall(
                type="function_call", name=name, call_id=f"c{turn}", arguments=json.dumps({"order": order})
            )
        else:
            text = ResponseOutputText(type="output_text", text=items[-1]["output"], annotations=[])
            output = ResponseOutputMessage(
                id="m", type="message", role="assistant", status="completed", content=[text]
            )
        return ModelResponse(output=[output], usage=Usage(), response_id=None)

    def stream_response(self, *args, **kwargs):
        raise NotImplementedError

@function_tool
def find(order: str) -> str:
    return found(order)

@function_tool
def stock(order: str) -> str:
    return counted(order)

@function_tool
async def ask(order: str) -> str:
    answer = await durable.wait_for("approval")
    return answer["decision"]

agent = Agent(name="shop", model=DurableModel(Planned(), waiting_tools=["ask"]), tools=[find, stock, ask])

async def program() -> str:
    return (await Runner.run(agent, "refund o1")).final_output
"""

SERVE = """
if __name__ == "__main__":
    serve(program)
"""

CALLS = ["model1", "find o1", "model2", "stock o1", "model3", "model4"]


@pytest.mark.slow
@pytest.mark.parametrize("script", [PYDANTIC_AI, OPENAI_AGENTS], ids=["pydantic-ai", "openai-agents"])
def test_an_agent_that_is_killed_after_each_call_repeats_none(script: str, tmp_path: Path) -> None:
    with Coordinator() as coordinator, httpx.Client(base_url=coordinator.url, timeout=30) as api:
        task_def = {"name": "agent", "retryCount": 20, "retryDelaySeconds": 0, "responseTimeoutSeconds": 3600}
        assert api.post("/metadata/taskdefs", json=[task_def]).status_code == 200
        definition = {
            "name": "flow",
            "tasks": [{"name": "agent", "taskReferenceName": "a", "type": "SIMPLE"}],
        }
        workflow_id = api.post("/workflow", json={"name": "flow", "workflowDef": definition}).text
        calls = tmp_path / "calls"

        def made() -> list[str]:
            return calls.read_text().splitlines() if calls.exists() else []

        with Program(tmp_path, COMMON + script + SERVE, server=coordinator.url) as program:
            program.wait_until(lambda: len(made()) == len(CALLS) - 1)
            # The tool waits for the message. The worker has returned the task, so no worker holds it.
            program.wait_until(lambda: api.get(f"/workflow/{workflow_id}").json()["tasks"][-1]["status"] == "SCHEDULED")
            assert made() == CALLS[:-1]
            answer = api.post(f"/workflow/{workflow_id}/messages", json={"name": "approval", "decision": "yes"})
            assert answer.status_code == 200
            program.wait_until(lambda: api.get(f"/workflow/{workflow_id}").json()["status"] != "RUNNING")
        found = api.get(f"/workflow/{workflow_id}").json()
        assert (found["status"], found["output"]) == ("COMPLETED", {"result": "yes"})
        assert made() == CALLS
