"""A step that stores a document in a vector database."""

from __future__ import annotations

from typing import Any

from conductor.client.workflow.task.llm_tasks.llm_task import LlmTask
from conductor.client.workflow.task.llm_tasks.utils.embedding_model import EmbeddingModel
from conductor.client.workflow.task.task_type import TaskType


class LlmIndexDocument(LlmTask):
    """Fetches a document and stores the embeddings of its chunks in a vector database."""

    def __init__(
        self,
        task_ref_name: str,
        vector_db: str,
        namespace: str,
        embedding_model: EmbeddingModel,
        index: str,
        url: str,
        media_type: str,
        chunk_size: int | None = None,
        chunk_overlap: int | None = None,
        doc_id: str | None = None,
        task_name: str | None = None,
        metadata: dict[str, Any] | None = None,
        dimensions: int | None = None,
    ) -> None:
        super().__init__(TaskType.LLM_INDEX_TEXT, locals())
