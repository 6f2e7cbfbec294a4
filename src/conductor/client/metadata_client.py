"""Definitions of tasks and workflows."""

from __future__ import annotations

from typing import Any

from conductor.client.configuration.configuration import Configuration
from conductor.client.http.api.async_metadata_resource_api import AsyncMetadataResourceApi
from conductor.client.http.api.async_resource_api import api_client_of
from conductor.client.http.async_api_client import AsyncApiClient
from conductor.client.http.sync_face import SyncClient, blocking


class AsyncMetadataClient(AsyncMetadataResourceApi):
    """Definitions on a server.

    async with AsyncMetadataClient(Configuration()) as metadata:
        await metadata.register_task_def(TaskDef(name="greet", retry_count=3))
    """

    def __init__(
        self, configuration: Configuration | AsyncApiClient | None = None, *, http_client: Any | None = None
    ) -> None:
        super().__init__(api_client_of(configuration, http_client))


class MetadataClient(SyncClient[AsyncMetadataClient]):
    """Definitions on a server, for code without an event loop.

    with MetadataClient(Configuration()) as metadata:
        metadata.register_task_def(TaskDef(name="greet", retry_count=3))
    """

    def __init__(self, configuration: Configuration | AsyncApiClient | None = None) -> None:
        super().__init__(AsyncMetadataClient(configuration))

    register_task_def = blocking(AsyncMetadataClient.register_task_def)
    register_task_defs = blocking(AsyncMetadataClient.register_task_defs)
    update_task_def = blocking(AsyncMetadataClient.update_task_def)
    get_task_def = blocking(AsyncMetadataClient.get_task_def)
    get_all_task_defs = blocking(AsyncMetadataClient.get_all_task_defs)
    unregister_task_def = blocking(AsyncMetadataClient.unregister_task_def)
    register_workflow_def = blocking(AsyncMetadataClient.register_workflow_def)
    update_workflow_def = blocking(AsyncMetadataClient.update_workflow_def)
    validate_workflow_def = blocking(AsyncMetadataClient.validate_workflow_def)
    get_workflow_def = blocking(AsyncMetadataClient.get_workflow_def)
    get_all_workflow_defs = blocking(AsyncMetadataClient.get_all_workflow_defs)
    unregister_workflow_def = blocking(AsyncMetadataClient.unregister_workflow_def)
    add_workflow_tag = blocking(AsyncMetadataClient.add_workflow_tag)
    delete_workflow_tag = blocking(AsyncMetadataClient.delete_workflow_tag)
    get_workflow_tags = blocking(AsyncMetadataClient.get_workflow_tags)
    set_workflow_tags = blocking(AsyncMetadataClient.set_workflow_tags)
    addTaskTag = blocking(AsyncMetadataClient.addTaskTag)  # noqa: N815
    deleteTaskTag = blocking(AsyncMetadataClient.deleteTaskTag)  # noqa: N815
    getTaskTags = blocking(AsyncMetadataClient.getTaskTags)  # noqa: N815
    setTaskTags = blocking(AsyncMetadataClient.setTaskTags)  # noqa: N815
    getWorkflowRateLimit = blocking(AsyncMetadataClient.getWorkflowRateLimit)  # noqa: N815
    setWorkflowRateLimit = blocking(AsyncMetadataClient.setWorkflowRateLimit)  # noqa: N815
    removeWorkflowRateLimit = blocking(AsyncMetadataClient.removeWorkflowRateLimit)  # noqa: N815
