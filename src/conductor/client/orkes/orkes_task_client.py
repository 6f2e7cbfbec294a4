"""`TaskClient` under its name in conductor-python."""

from conductor.client.task_client import TaskClient as OrkesTaskClient

__all__ = ["OrkesTaskClient"]
