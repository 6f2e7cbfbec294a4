"""The answer to `execute_workflow`, under its name in conductor-python."""

from conductor.client.http.models.workflow import Workflow

#: The name in conductor-python for the answer to `execute_workflow`.
WorkflowRun = Workflow
