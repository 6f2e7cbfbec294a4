"""Durable agents: adapters that record each model request and each tool call of an agent as a step of its task.

Each module needs the extra of its framework, and nothing else imports it:

- `pydantic_ai`: `ConductorDurability`, a capability of pydantic-ai agents.
- `openai_agents`: `ConductorModelProvider` and `DurableModel` for the OpenAI Agents SDK.
"""
