"""A step that searches a vector database by text."""

from __future__ import annotations

from conductor.client.workflow.task.llm_tasks.llm_task import LlmTask
from conductor.client.workflow.task.task_type import TaskType


class LlmSearchIndex(LlmTask):
    """Searches a vector database for entries similar to a text."""

    def __init__(
        self,
        task_ref_name: str,
        vector_db: str,
        namespace: str,
        index: str,
        embedding_model_provider: str,
        embedding_model: str,
        query: str,
        task_name: str | None = None,
        max_results: int = 1,
        dimensions: int | None = None,
    ) -> None:
        super().__init__(TaskType.LLM_SEARCH_INDEX, locals())
