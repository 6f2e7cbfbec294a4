"""A step that reads from a vector database."""

from __future__ import annotations

from conductor.client.workflow.reference import given
from conductor.client.workflow.task.llm_tasks.llm_task import LlmTask
from conductor.client.workflow.task.task_type import TaskType


class LlmQueryEmbeddings(LlmTask):
    """Reads from a vector database what lies near some embeddings."""

    def __init__(
        self,
        task_ref_name: str,
        vector_db: str,
        index: str,
        embeddings: list[float],
        task_name: str | None = None,
        namespace: str | None = None,
    ) -> None:
        inputs = {"vectorDB": vector_db} | given(index=index, embeddings=embeddings, namespace=namespace)
        super().__init__(task_ref_name, TaskType.LLM_GET_EMBEDDINGS, task_name, inputs)
