"""`WorkflowClient` under its name in conductor-python."""

from conductor.client.workflow_client import WorkflowClient as OrkesWorkflowClient

__all__ = ["OrkesWorkflowClient"]
