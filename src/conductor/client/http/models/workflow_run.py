"""What executing a workflow and waiting for it gives: the execution."""

from conductor.client.http.models.workflow import Workflow

#: The name that conductor-python has for the answer to `execute_workflow`.
WorkflowRun = Workflow
