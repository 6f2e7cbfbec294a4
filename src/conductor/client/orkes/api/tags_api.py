from conductor.client.http.api.generated_api import GeneratedApi, generated
from conductor.client.http.models.tag_object import TagObject


class TagsApi(GeneratedApi):
    """Tags of task definitions and workflow definitions."""

    add_task_tag = generated("POST", "/metadata/task/{taskName}/tags", "body, task_name")
    add_workflow_tag = generated("POST", "/metadata/workflow/{name}/tags", "body, name")
    delete_task_tag = generated("DELETE", "/metadata/task/{taskName}/tags", "body, task_name")
    delete_workflow_tag = generated("DELETE", "/metadata/workflow/{name}/tags", "body, name")
    get_tags1 = generated("GET", "/metadata/tags", returns=list[TagObject])
    get_task_tags = generated("GET", "/metadata/task/{taskName}/tags", "task_name", returns=list[TagObject])
    get_workflow_tags = generated("GET", "/metadata/workflow/{name}/tags", "name", returns=list[TagObject])
    set_task_tags = generated("PUT", "/metadata/task/{taskName}/tags", "body, task_name")
    set_workflow_tags = generated("PUT", "/metadata/workflow/{name}/tags", "body, name")
