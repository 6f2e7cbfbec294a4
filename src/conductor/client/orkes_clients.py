"""All clients of one server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from conductor.client.configuration.configuration import Configuration
from conductor.client.http.async_api_client import AsyncApiClient
from conductor.client.metadata_client import MetadataClient
from conductor.client.schema_client import SchemaClient
from conductor.client.task_client import TaskClient
from conductor.client.workflow_client import WorkflowClient

if TYPE_CHECKING:
    from conductor.client.authorization_client import AuthorizationClient
    from conductor.client.event.event_client import EventClient
    from conductor.client.integration_client import IntegrationClient
    from conductor.client.prompt_client import PromptClient
    from conductor.client.scheduler_client import SchedulerClient
    from conductor.client.secret_client import SecretClient
    from conductor.client.workflow.executor.workflow_executor import WorkflowExecutor


class OrkesClients:
    """Creates the clients of a server, which share connections and access token.

    The clients are blocking. The attribute `asynchronous` of a client is the same client for async code.

    Args:
        configuration: The server; read from the environment by default.
        metrics_collector: A `MetricsCollector` that counts the requests.

    Example:
        clients = OrkesClients(Configuration())
        workflow_id = clients.get_workflow_client().start_workflow_by_name("greetings", {"name": "Ada"})
    """

    def __init__(self, configuration: Configuration | None = None, metrics_collector: Any | None = None) -> None:
        self.configuration = configuration or Configuration()
        self.metrics_collector = metrics_collector
        self._api_client = AsyncApiClient(self.configuration, metrics_collector=metrics_collector)

    def get_task_client(self) -> TaskClient:
        """Return the client for tasks."""
        return TaskClient(self._api_client)

    def get_metadata_client(self) -> MetadataClient:
        """Return the client for task definitions and workflow definitions."""
        return MetadataClient(self._api_client)

    def get_schema_client(self) -> SchemaClient:
        """Return the client for schemas of inputs and outputs."""
        return SchemaClient(self._api_client)

    def get_workflow_client(self) -> WorkflowClient:
        """Return the client for workflows."""
        return WorkflowClient(self._api_client)

    # The other clients are imported on first use, because few programs need them.

    def get_workflow_executor(self) -> WorkflowExecutor:
        """Return the executor that registers and starts a `ConductorWorkflow`."""
        from conductor.client.workflow.executor.workflow_executor import WorkflowExecutor

        return WorkflowExecutor(self._api_client, self.metrics_collector)

    def get_scheduler_client(self) -> SchedulerClient:
        """Return the client for schedules of workflows."""
        from conductor.client.scheduler_client import SchedulerClient

        return SchedulerClient(self._api_client)

    def get_secret_client(self) -> SecretClient:
        """Return the client for secrets."""
        from conductor.client.secret_client import SecretClient

        return SecretClient(self._api_client)

    def get_event_client(self) -> EventClient:
        """Return the client for event queues of other systems."""
        from conductor.client.event.event_client import EventClient

        return EventClient(self._api_client)

    def get_authorization_client(self) -> AuthorizationClient:
        """Return the client for users, groups, applications and permissions."""
        from conductor.client.authorization_client import AuthorizationClient

        return AuthorizationClient(self._api_client)

    def get_integration_client(self) -> IntegrationClient:
        """Return the client for language models and other services."""
        from conductor.client.integration_client import IntegrationClient

        return IntegrationClient(self._api_client)

    def get_prompt_client(self) -> PromptClient:
        """Return the client for prompts."""
        from conductor.client.prompt_client import PromptClient

        return PromptClient(self._api_client)

    def get_agent_client(self) -> NoReturn:
        """Raise NotImplementedError: agents are not part of this package."""
        raise NotImplementedError(
            "agents (/api/agent) are not part of conductor-worker; write the tools of an agent as ordinary workers"
        )


#: The newer name in conductor-python.
ConductorClients = OrkesClients
