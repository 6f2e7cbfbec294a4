"""`/metadata`: definitions of tasks and workflows.

Under the names that conductor-python's generated class has; new programs take `conductor.client.orkes_clients`.
"""

from __future__ import annotations

from typing import Any

from conductor.client.http.api.endpoint import GeneratedApi, endpoint
from conductor.client.http.models.task_def import TaskDef
from conductor.client.http.models.workflow_def import WorkflowDef
from conductor.client.http.models.workflow_tag import WorkflowTag


class MetadataResourceApi(GeneratedApi):
    """`/metadata`: definitions of tasks and workflows. Each is one blocking call."""

    create = endpoint("POST", "/metadata/workflow", "body", query="overwrite", returns=Any)
    create_workflow_metadata = endpoint("POST", "/metadata/tags/workflow/{name}", "body", "name", query="version")
    delete_workflow_metadata = endpoint("DELETE", "/metadata/tags/workflow/{name}", "name", "version")
    get = endpoint("GET", "/metadata/workflow/{name}", "name", query="version", returns=WorkflowDef)
    get_all_workflows = endpoint("GET", "/metadata/workflow", query="access", returns=list[WorkflowDef])
    get_task_def = endpoint("GET", "/metadata/taskdefs/{tasktype}", "tasktype", returns=TaskDef)
    get_task_defs = endpoint("GET", "/metadata/taskdefs", query="access", returns=list[TaskDef])
    get_workflow_metadata = endpoint(
        "GET", "/metadata/tags/workflow/{name}", "name", query="version", returns=WorkflowTag
    )
    register_task_def = endpoint("POST", "/metadata/taskdefs", "body", returns=Any)
    unregister_task_def = endpoint("DELETE", "/metadata/taskdefs/{tasktype}", "tasktype")
    unregister_workflow_def = endpoint("DELETE", "/metadata/workflow/{name}/{version}", "name", "version")
    update1 = endpoint("PUT", "/metadata/workflow", "body", query="overwrite", returns=Any)
    update_task_def = endpoint("PUT", "/metadata/taskdefs", "body", returns=Any)
