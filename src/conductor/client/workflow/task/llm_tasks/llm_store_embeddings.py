"""A step that puts embeddings into a vector database."""

from __future__ import annotations

from typing import Any

from conductor.client.workflow.reference import given, said
from conductor.client.workflow.task.llm_tasks.llm_task import LlmTask
from conductor.client.workflow.task.task_type import TaskType


class LlmStoreEmbeddings(LlmTask):
    """Puts embeddings into a vector database."""

    def __init__(
        self,
        task_ref_name: str,
        vector_db: str,
        index: str,
        embeddings: list[float],
        namespace: str | None = None,
        id: str | None = None,  # noqa: A002 (the name users know)
        metadata: dict[str, Any] | None = None,
        embedding_model: str | None = None,
        embedding_model_provider: str | None = None,
        task_name: str | None = None,
    ) -> None:
        inputs = {"vectorDB": vector_db} | given(
            index=index,
            embeddings=embeddings,
            namespace=namespace,
            id=id,
            embedding_model=embedding_model,
            embedding_model_provider=embedding_model_provider,
        )
        super().__init__(task_ref_name, TaskType.LLM_STORE_EMBEDDINGS, task_name, inputs | said(metadata=metadata))
