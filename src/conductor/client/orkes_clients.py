"""All clients of one server, from one place."""

from __future__ import annotations

from conductor.client.configuration.configuration import Configuration
from conductor.client.http.async_api_client import AsyncApiClient
from conductor.client.metadata_client import MetadataClient
from conductor.client.schema_client import SchemaClient
from conductor.client.task_client import TaskClient
from conductor.client.workflow_client import WorkflowClient


class OrkesClients:
    """Hands out the clients of a server, which share connections and access token.

    Each is blocking; its attribute `asynchronous` is the same client for async code.

    clients = OrkesClients(Configuration())
    workflow_id = clients.get_workflow_client().start_workflow_by_name("greetings", {"name": "Ada"})
    """

    def __init__(self, configuration: Configuration | None = None) -> None:
        self.configuration = configuration or Configuration()
        self._api_client = AsyncApiClient(self.configuration)

    def get_task_client(self) -> TaskClient:
        """Tasks: poll, report, read."""
        return TaskClient(self._api_client)

    def get_metadata_client(self) -> MetadataClient:
        """Definitions of tasks and workflows."""
        return MetadataClient(self._api_client)

    def get_schema_client(self) -> SchemaClient:
        """Schemas of inputs and outputs."""
        return SchemaClient(self._api_client)

    def get_workflow_client(self) -> WorkflowClient:
        """Executions of workflows."""
        return WorkflowClient(self._api_client)
