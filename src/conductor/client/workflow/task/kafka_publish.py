"""A step that sends a message to Kafka."""

from __future__ import annotations

from conductor.client.workflow.task.kafka_publish_input import KafkaPublishInput
from conductor.client.workflow.task.task import TaskInterface
from conductor.client.workflow.task.task_type import TaskType


class KafkaPublishTask(TaskInterface):
    """Sends a message to a Kafka topic."""

    def __init__(self, task_ref_name: str, kafka_publish_input: KafkaPublishInput | None = None) -> None:
        message = None if kafka_publish_input is None else kafka_publish_input.to_dict()
        super().__init__(task_ref_name, TaskType.KAFKA_PUBLISH, input_parameters={"kafka_request": message})
