"""A step that puts a text into a vector database."""

from __future__ import annotations

from typing import Any

from conductor.client.workflow.reference import given, said
from conductor.client.workflow.task.llm_tasks.llm_task import LlmTask
from conductor.client.workflow.task.llm_tasks.utils.embedding_model import EmbeddingModel
from conductor.client.workflow.task.task_type import TaskType


class LlmIndexText(LlmTask):
    """Puts a text into a vector database."""

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
        inputs = {"vectorDB": vector_db} | given(
            index=index,
            embedding_model_provider=embedding_model.provider,
            embedding_model=embedding_model.model,
            text=text,
            doc_id=doc_id,
            namespace=namespace,
            url=url,
            chunk_size=chunk_size,
            chunk_overlap=chunk_overlap,
            dimensions=dimensions,
        )
        super().__init__(task_ref_name, TaskType.LLM_INDEX_TEXT, task_name, inputs | said(metadata=metadata))
