"""A step that puts a document into a vector database."""

from __future__ import annotations

from typing import Any

from conductor.client.workflow.reference import given, said
from conductor.client.workflow.task.llm_tasks.llm_task import LlmTask
from conductor.client.workflow.task.llm_tasks.utils.embedding_model import EmbeddingModel
from conductor.client.workflow.task.task_type import TaskType


class LlmIndexDocument(LlmTask):
    """Fetches a document and puts it into a vector database, in chunks."""

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
        inputs = {"vectorDB": vector_db} | given(
            namespace=namespace,
            index=index,
            embedding_model_provider=embedding_model.provider,
            embedding_model=embedding_model.model,
            url=url,
            media_type=media_type,
            chunk_size=chunk_size,
            chunk_overlap=chunk_overlap,
            doc_id=doc_id,
            dimensions=dimensions,
        )
        super().__init__(task_ref_name, TaskType.LLM_INDEX_TEXT, task_name, inputs | said(metadata=metadata))
