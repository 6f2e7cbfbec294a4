"""A step that stores a text in a vector database."""

from __future__ import annotations

from typing import Any

from conductor.client.workflow.task.llm_tasks.llm_task import LlmTask
from conductor.client.workflow.task.llm_tasks.utils.embedding_model import EmbeddingModel
from conductor.client.workflow.task.task_type import TaskType


class LlmIndexText(LlmTask):
    """Stores the embeddings of a text in a vector database."""

    def __init__(
        self,
        task_ref_name: str,
        vector_db: str,
        index: str,
        embedding_model: EmbeddingModel,
        text: str,
        doc_id: str,
        namespace: str | None = None,
        task_name: str | None = None,
        metadata: dict[str, Any] | None = None,
        url: str | None = None,
        chunk_size: int | None = None,
        chunk_overlap: int | None = None,
        dimensions: int | None = None,
    ) -> None:
        super().__init__(TaskType.LLM_INDEX_TEXT, locals())
