"""A step that searches a vector database by words."""

from __future__ import annotations

from conductor.client.workflow.reference import given
from conductor.client.workflow.task.llm_tasks.llm_task import LlmTask
from conductor.client.workflow.task.task_type import TaskType


class LlmSearchIndex(LlmTask):
    """Searches a vector database for what lies nearest to a text."""

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
        inputs = {"vectorDB": vector_db} | given(
            namespace=namespace,
            index=index,
            embedding_model_provider=embedding_model_provider,
            embedding_model=embedding_model,
            query=query,
            max_results=max_results,
            dimensions=dimensions,
        )
        super().__init__(task_ref_name, TaskType.LLM_SEARCH_INDEX, task_name, inputs)
