"""`/metadata/…/tags`: tags of definitions.

Under the names that conductor-python's generated class has; new programs take `conductor.client.orkes_clients`.
"""

from __future__ import annotations

from typing import Any

from conductor.client.http.api.endpoint import GeneratedApi, endpoint
from conductor.client.http.models.tag_object import TagObject


class TagsApi(GeneratedApi):
    """`/metadata/…/tags`: tags of definitions. Each is one blocking call."""

    add_task_tag = endpoint("POST", "/metadata/task/{taskName}/tags", "body", "task_name", returns=Any)
    add_workflow_tag = endpoint("POST", "/metadata/workflow/{name}/tags", "body", "name", returns=Any)
    delete_task_tag = endpoint("DELETE", "/metadata/task/{taskName}/tags", "body", "task_name", returns=Any)
    delete_workflow_tag = endpoint("DELETE", "/metadata/workflow/{name}/tags", "body", "name", returns=Any)
    get_tags1 = endpoint("GET", "/metadata/tags", returns=list[TagObject])
    get_task_tags = endpoint("GET", "/metadata/task/{taskName}/tags", "task_name", returns=list[TagObject])
    get_workflow_tags = endpoint("GET", "/metadata/workflow/{name}/tags", "name", returns=list[TagObject])
    set_task_tags = endpoint("PUT", "/metadata/task/{taskName}/tags", "body", "task_name", returns=Any)
    set_workflow_tags = endpoint("PUT", "/metadata/workflow/{name}/tags", "body", "name", returns=Any)
