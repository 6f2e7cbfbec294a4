"""Durable pydantic-ai agents: each model request and each tool call is a step of the task.

    from pydantic_ai import Agent

    from conductor import worker_task
    from conductor.agents.pydantic_ai import ConductorDurability

    agent = Agent("openai:gpt-5", name="support", capabilities=[ConductorDurability()])

    @worker_task("answer_ticket")
    async def answer_ticket(text: str) -> str:
        return (await agent.run(text)).output

If the worker dies, the next attempt of the task gets the recorded answers of the model and results of the tools. The
attempt continues after the last recorded step. Outside a task the agent runs as usual. Tools run one after the other,
in the order in which the model calls them.

A tool with `metadata={"conductor": False}` runs outside a step, so it may wait: `await durable.wait_for("approval")`.
With `metadata={"conductor": {"retries": 2}}` it has the options of `durable.step`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypedDict
from weakref import WeakKeyDictionary

from pydantic_ai.durable_exec import (
    JSON_CODEC,
    BaseDurabilityCapability,
    DurabilityEngineSpec,
    DurableOperationId,
    JournalCallableOperationBackend,
    RoleBasedOperationConfig,
    ToolsetKind,
)
from pydantic_ai.models import Model
from pydantic_ai.tools import AgentDepsT

from conductor import durable
from conductor.client.context.task_context import get_task_context
from conductor.durable.errors import DurableError
from conductor.durable.run import DurableRun, current_run

#: The number of agent runs that each attempt of a task has begun.
_begun_runs: WeakKeyDictionary[DurableRun, int] = WeakKeyDictionary()


class StepOptions(TypedDict, total=False):
    """The options of a step; see `durable.step`."""

    retries: int
    retry_delay_s: float
    timeout_s: float | None


class _Steps(JournalCallableOperationBackend[StepOptions]):
    """Runs the operations of an agent as steps."""

    async def execute(
        self,
        *,
        operation_id: DurableOperationId,  # noqa: ARG002 - the interface of the framework
        name: str,
        body: Callable[[], Awaitable[object]],
        cache_key: tuple[object, ...],  # noqa: ARG002
        config: StepOptions,
    ) -> object:
        # The function has no arguments, so that a replay compares only the name of the step. Messages as arguments
        # would differ in every attempt, because they contain timestamps.
        async def agent_operation() -> Any:
            return await body()

        return await durable.step(agent_operation, name=name, **config)


@dataclass(init=False, kw_only=True)
class ConductorDurability(BaseDurabilityCapability[AgentDepsT]):
    """Makes an agent durable while it runs inside a task. The agent needs a name.

    Args:
        models: The models that `agent.run(model=...)` may select, each under its name.
        name: A name for the steps; by default the name of the agent. Agents that run at the same time in one task need
            different names.
        model_options: Options of the steps that call a model.
        tool_options: Options of the steps that call a tool, for tools without options of their own.
    """

    engine_spec = DurabilityEngineSpec(
        engine_name="Conductor",
        durable_unit_noun="step",
        durable_container_noun="task",
        codec=JSON_CODEC,
        serialization_failure=lambda error: DurableError(f"the result of a step cannot be stored as JSON: {error}"),
        unsupported_runtime_toolset_kinds=frozenset({"function", "mcp", "dynamic"}),
        sequential_tools_in_durable_context=True,
        tool_config_key="conductor",
    )

    def __init__(
        self,
        *,
        models: Mapping[str, Model] | None = None,
        name: str | None = None,
        model_options: StepOptions | None = None,
        tool_options: StepOptions | None = None,
    ) -> None:
        super().__init__(models=models, event_stream_handler=None, name=name)
        self._model_options: StepOptions = model_options or {}
        self._tool_options: StepOptions = tool_options or {}
        self._backend: _Steps | None = None

    @property
    def in_durable_context(self) -> bool:
        """Whether the caller is inside a task, and not inside a step."""
        return current_run() is not None

    def get_durable_operation_backend(self) -> _Steps:
        """Return the backend that runs the operations of the agent as steps."""
        if self._backend is None:
            resolve = self._build_resolve_tool_config(self._tool_options)
            config = RoleBasedOperationConfig[StepOptions](
                model=self._model_options,
                event={},
                capability={},
                tool=self._tool_options,
                resolve_tool=lambda _operation, tool, name: resolve(tool, name),  # type: ignore[arg-type, return-value]
            )
            self._backend = _Steps(agent_name=self.name, default_model_id=self.default_model_id, config=config)
        return self._backend

    def get_default_run_id(self) -> str | None:
        """Return the id of an agent run, which is the same on replay."""
        run = current_run()
        if run is None:
            return None
        number = _begun_runs[run] = _begun_runs.get(run, 0) + 1
        task = get_task_context().task
        return f"{task.workflow_instance_id}:{task.reference_task_name}:{number}"

    async def get_run_start_time(self, run_id: str) -> datetime | None:  # noqa: ARG002
        """Return the time at which the run began, the same on replay; None outside a task."""
        return await durable.now(name=f"{self.name}__run_start_time") if self.in_durable_context else None

    def _toolset_base_config(self, kind: ToolsetKind) -> StepOptions:  # noqa: ARG002
        return self._tool_options
