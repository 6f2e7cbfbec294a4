"""A step that searches a vector database by embeddings."""

from __future__ import annotations

from conductor.client.workflow.task.llm_tasks.llm_task import LlmTask
from conductor.client.workflow.task.task_type import TaskType


class LlmSearchEmbeddings(LlmTask):
    """Searches a vector database for entries similar to given embeddings."""

    def __init__(
        self,
        task_ref_name: str,
        vector_db: str,
        index: str,
        embeddings: list[float],
        namespace: str | None = None,
        max_results: int = 1,
        dimensions: int | None = None,
        embedding_model: str | None = None,
        embedding_model_provider: str | None = None,
        task_name: str | None = None,
    ) -> None:
        super().__init__(TaskType.LLM_SEARCH_EMBEDDINGS, locals())
