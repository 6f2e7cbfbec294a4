from conductor.client.http.models.model import Model
from conductor.protocol.json_types import JsonObject


class PromptTemplateTestRequest(Model, kw_only=True):
    """A prompt to test with a language model."""

    llm_provider: str | None = None
    model: str | None = None
    prompt: str | None = None
    prompt_variables: JsonObject | None = None
    stop_words: list[str] | None = None
    temperature: float | None = None
    top_p: float | None = None
