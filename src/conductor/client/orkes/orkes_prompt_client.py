"""`PromptClient` under its name in conductor-python."""

from conductor.client.prompt_client import PromptClient as OrkesPromptClient

__all__ = ["OrkesPromptClient"]
