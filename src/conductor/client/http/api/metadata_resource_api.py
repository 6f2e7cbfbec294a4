from conductor.client.http.api.generated_api import GeneratedApi, generated
from conductor.client.http.models.task_def import TaskDef
from conductor.client.http.models.workflow_def import WorkflowDef
from conductor.client.http.models.workflow_tag import WorkflowTag


class MetadataResourceApi(GeneratedApi):
    """Task definitions and workflow definitions."""

    create = generated("POST", "/metadata/workflow", "body, *, overwrite")
    create_workflow_metadata = generated("POST", "/metadata/tags/workflow/{name}", "body, name, *, version")
    delete_workflow_metadata = generated("DELETE", "/metadata/tags/workflow/{name}", "name, version")
    get = generated("GET", "/metadata/workflow/{name}", "name, *, version", returns=WorkflowDef)
    get_all_workflows = generated("GET", "/metadata/workflow", "*, access", returns=list[WorkflowDef])
    get_task_def = generated("GET", "/metadata/taskdefs/{tasktype}", "tasktype", returns=TaskDef)
    get_task_defs = generated("GET", "/metadata/taskdefs", "*, access", returns=list[TaskDef])
    get_workflow_metadata = generated("GET", "/metadata/tags/workflow/{name}", "name, *, version", returns=WorkflowTag)
    register_task_def = generated("POST", "/metadata/taskdefs", "body")
    unregister_task_def = generated("DELETE", "/metadata/taskdefs/{tasktype}", "tasktype")
    unregister_workflow_def = generated("DELETE", "/metadata/workflow/{name}/{version}", "name, version")
    update1 = generated("PUT", "/metadata/workflow", "body, *, overwrite")
    update_task_def = generated("PUT", "/metadata/taskdefs", "body")
