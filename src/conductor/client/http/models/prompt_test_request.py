from typing import Any

from conductor.client.http.models.model import Model


class PromptTemplateTestRequest(Model, kw_only=True):
    """A prompt to test with a language model."""

    llm_provider: str | None = None
    model: str | None = None
    prompt: str | None = None
    prompt_variables: dict[str, Any] | None = None
    stop_words: list[str] | None = None
    temperature: float | None = None
    top_p: float | None = None
