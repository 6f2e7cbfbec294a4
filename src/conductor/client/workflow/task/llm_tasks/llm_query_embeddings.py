"""A step that reads from a vector database."""

from __future__ import annotations

from conductor.client.workflow.task.llm_tasks.llm_task import LlmTask
from conductor.client.workflow.task.task_type import TaskType


class LlmQueryEmbeddings(LlmTask):
    """Reads entries similar to given embeddings from a vector database."""

    def __init__(
        self,
        task_ref_name: str,
        vector_db: str,
        index: str,
        embeddings: list[float],
        task_name: str | None = None,
        namespace: str | None = None,
    ) -> None:
        super().__init__(TaskType.LLM_GET_EMBEDDINGS, locals())
