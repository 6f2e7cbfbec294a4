"""A step that stores embeddings in a vector database."""

from __future__ import annotations

from typing import Any

from conductor.client.workflow.task.llm_tasks.llm_task import LlmTask
from conductor.client.workflow.task.task_type import TaskType


class LlmStoreEmbeddings(LlmTask):
    """Stores embeddings in a vector database."""

    def __init__(
        self,
        task_ref_name: str,
        vector_db: str,
        index: str,
        embeddings: list[float],
        namespace: str | None = None,
        id: str | None = None,  # noqa: A002
        metadata: dict[str, Any] | None = None,
        embedding_model: str | None = None,
        embedding_model_provider: str | None = None,
        task_name: str | None = None,
    ) -> None:
        super().__init__(TaskType.LLM_STORE_EMBEDDINGS, locals())
