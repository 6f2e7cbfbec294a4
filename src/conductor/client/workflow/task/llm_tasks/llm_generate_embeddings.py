"""A step that makes embeddings."""

from __future__ import annotations

from conductor.client.workflow.reference import given
from conductor.client.workflow.task.llm_tasks.llm_task import LlmTask
from conductor.client.workflow.task.task_type import TaskType


class LlmGenerateEmbeddings(LlmTask):
    """Lets a model make the embeddings of a text."""

    def __init__(
        self,
        task_ref_name: str,
        llm_provider: str,
        model: str,
        text: str,
        dimensions: int | None = None,
        task_name: str | None = None,
    ) -> None:
        inputs = given(llm_provider=llm_provider, model=model, text=text, dimensions=dimensions)
        super().__init__(task_ref_name, TaskType.LLM_GENERATE_EMBEDDINGS, task_name, inputs)
