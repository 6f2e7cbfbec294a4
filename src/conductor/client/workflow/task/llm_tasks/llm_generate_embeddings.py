"""A step that generates embeddings."""

from __future__ import annotations

from conductor.client.workflow.task.llm_tasks.llm_task import LlmTask
from conductor.client.workflow.task.task_type import TaskType


class LlmGenerateEmbeddings(LlmTask):
    """Generates the embeddings of a text with a model."""

    def __init__(
        self,
        task_ref_name: str,
        llm_provider: str,
        model: str,
        text: str,
        dimensions: int | None = None,
        task_name: str | None = None,
    ) -> None:
        super().__init__(TaskType.LLM_GENERATE_EMBEDDINGS, locals())
