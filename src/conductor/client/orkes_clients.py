"""All clients of one server, from one place."""

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
    """Hands out the clients of a server, which share connections and access token.

    Each is blocking; its attribute `asynchronous` is the same client for async code. `metrics_collector` counts the
    requests, where it can.

    clients = OrkesClients(Configuration())
    workflow_id = clients.get_workflow_client().start_workflow_by_name("greetings", {"name": "Ada"})
    """

    def __init__(self, configuration: Configuration | None = None, metrics_collector: Any | None = None) -> None:
        self.configuration = configuration or Configuration()
        self.metrics_collector = metrics_collector
        self._api_client = AsyncApiClient(self.configuration, metrics_collector=metrics_collector)

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

    # The rest is loaded when it is first asked for: most programs need none of it.

    def get_workflow_executor(self) -> WorkflowExecutor:
        """What a `ConductorWorkflow` is registered and started with."""
        from conductor.client.workflow.executor.workflow_executor import WorkflowExecutor

        return WorkflowExecutor(self._api_client, self.metrics_collector)

    def get_scheduler_client(self) -> SchedulerClient:
        """Workflows started by the clock."""
        from conductor.client.scheduler_client import SchedulerClient

        return SchedulerClient(self._api_client)

    def get_secret_client(self) -> SecretClient:
        """Secrets that definitions may use."""
        from conductor.client.secret_client import SecretClient

        return SecretClient(self._api_client)

    def get_event_client(self) -> EventClient:
        """Queues that a server sends events to and takes them from."""
        from conductor.client.event.event_client import EventClient

        return EventClient(self._api_client)

    def get_authorization_client(self) -> AuthorizationClient:
        """Users, groups, applications and their rights."""
        from conductor.client.authorization_client import AuthorizationClient

        return AuthorizationClient(self._api_client)

    def get_integration_client(self) -> IntegrationClient:
        """Models and other services that a server can use."""
        from conductor.client.integration_client import IntegrationClient

        return IntegrationClient(self._api_client)

    def get_prompt_client(self) -> PromptClient:
        """Prompts that a server keeps."""
        from conductor.client.prompt_client import PromptClient

        return PromptClient(self._api_client)

    def get_agent_client(self) -> NoReturn:
        """Agents are not part of this package: NotImplementedError."""
        raise NotImplementedError(
            "agents (/api/agent) are not part of conductor-worker; their tools are ordinary workers, which are"
        )


#: The same under its newer name in conductor-python.
ConductorClients = OrkesClients
