"""Durable agents of the OpenAI Agents SDK: each model request and each call of a function tool is a step of the task.

    from agents import Agent, RunConfig, Runner

    from conductor import worker_task
    from conductor.agents.openai_agents import ConductorModelProvider

    agent = Agent(name="support", model="gpt-5", tools=[find_order])
    config = RunConfig(model_provider=ConductorModelProvider())

    @worker_task("answer_ticket")
    async def answer_ticket(text: str) -> str:
        return (await Runner.run(agent, text, run_config=config)).final_output

If the worker dies, the next attempt of the task gets the recorded answers of the model and results of the tools. The
attempt continues after the last recorded step. Outside a task the agent runs as usual. Tools run one after the other,
in the order in which the SDK starts them. If the model of an agent is an object instead of a name, use
`Agent(model=DurableModel(...))`.

A tool in `waiting_tools` runs outside a step, so it may wait: `await durable.wait_for("approval")`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from agents import FunctionTool, Model, ModelProvider, ModelResponse, MultiProvider, UserError
from agents.tool_context import ToolContext
from pydantic import TypeAdapter

from conductor import durable
from conductor.durable.run import DurableRun, current_run

if TYPE_CHECKING:
    from agents.items import TResponseStreamEvent

_response = TypeAdapter(ModelResponse)


class _Attempt:
    """State of one attempt of a task, which the model and its tools share."""

    def __init__(self) -> None:
        #: Tool calls run one after the other.
        self.lock = asyncio.Lock()
        #: The names of tools that run outside a step. Each model request updates the tools that it offers.
        self.waiting_tools: set[str] = set()


_attempts: WeakKeyDictionary[DurableRun, _Attempt] = WeakKeyDictionary()


class DurableModel(Model):
    """Records each request to a model, and each call of a function tool that the model asks for, as a step.

    Args:
        model: The model that is called.
        name: The name of the steps. Agents that run at the same time in one task need different names.
        waiting_tools: The names of tools that run outside a step, because they wait or have steps of their own.
        retries: How often a failed request is sent again.
        retry_delay_s: The seconds between two requests.
    """

    def __init__(
        self,
        model: Model,
        *,
        name: str = "model",
        waiting_tools: Collection[str] = (),
        retries: int = 0,
        retry_delay_s: float = 1.0,
    ) -> None:
        self._model = model
        self._name = name
        self._waiting_tools = frozenset(waiting_tools)
        self._retries = retries
        self._retry_delay_s = retry_delay_s

    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
        """Return the response of the model, or on replay the recorded response."""
        run = current_run()
        if run is None:
            return await self._model.get_response(*args, **kwargs)
        tools = kwargs["tools"] if "tools" in kwargs else args[3]
        names = {tool.name for tool in tools if isinstance(tool, FunctionTool)}
        attempt = _attempts.setdefault(run, _Attempt())
        attempt.waiting_tools = (attempt.waiting_tools - names) | (self._waiting_tools & names)
        for tool in tools:
            if isinstance(tool, FunctionTool):
                _make_durable(tool)

        # The function has no arguments, so that a replay compares only the name and the number of the step.
        async def model_request() -> Any:
            response = await self._model.get_response(*args, **kwargs)
            return _response.dump_python(response, mode="json")

        recorded = await durable.step(
            model_request, name=self._name, retries=self._retries, retry_delay_s=self._retry_delay_s
        )
        return _response.validate_python(recorded)

    def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[TResponseStreamEvent]:
        """Stream the response of the model. Inside a task, this is an error.

        Raises:
            UserError: The agent runs inside a task.
        """
        if current_run() is not None:
            raise UserError(
                "a streamed response cannot be recorded as a durable step; "
                "use Runner.run instead of Runner.run_streamed"
            )
        return self._model.stream_response(*args, **kwargs)

    async def close(self) -> None:
        """Close the model."""
        await self._model.close()


class ConductorModelProvider(ModelProvider):
    """Provides durable models by name, for `RunConfig(model_provider=...)`.

    Args:
        provider: The provider of the models that are called; by default the provider of the SDK.
        options: The other arguments of `DurableModel`.
    """

    def __init__(self, provider: ModelProvider | None = None, **options: Any) -> None:
        self._provider = provider or MultiProvider()
        self._options = options

    def get_model(self, model_name: str | None) -> Model:
        """Return a durable model that calls the model with this name."""
        return DurableModel(
            self._provider.get_model(model_name), **{"name": f"model.{model_name or 'default'}", **self._options}
        )

    async def aclose(self) -> None:
        """Close the provider."""
        await self._provider.aclose()


def _make_durable(tool: FunctionTool) -> None:
    """Let a tool run as a step when it is called inside a task. Other calls are unchanged."""
    invoke = tool.on_invoke_tool
    if isinstance(invoke, _DurableTool):
        return
    tool.on_invoke_tool = _DurableTool(tool.name, invoke)


class _DurableTool:
    """Calls a tool as a step, unless it is a waiting tool.

    The name of the step contains the call id, which is the same on a replay.
    """

    def __init__(self, name: str, invoke: Callable[[ToolContext[Any], str], Awaitable[Any]]) -> None:
        self._name = name
        self._invoke = invoke

    async def __call__(self, context: ToolContext[Any], arguments: str) -> Any:
        run = current_run()
        attempt = None if run is None else _attempts.setdefault(run, _Attempt())
        if attempt is None or self._name in attempt.waiting_tools:
            return await self._invoke(context, arguments)

        async def tool_call(_arguments: str) -> Any:
            return await self._invoke(context, arguments)

        async with attempt.lock:
            return await durable.step(tool_call, arguments, name=f"tool.{self._name}.{context.tool_call_id}")
