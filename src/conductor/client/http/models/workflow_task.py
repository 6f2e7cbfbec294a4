from __future__ import annotations

from conductor.client.http.models.cache_config import CacheConfig
from conductor.client.http.models.model import Definition, OrDefault, sent_default
from conductor.client.http.models.state_change_event import StateChangeEvent
from conductor.client.http.models.sub_workflow_params import SubWorkflowParams
from conductor.client.http.models.task_def import TaskDef
from conductor.protocol.json_types import JsonObject


class WorkflowTask(Definition, kw_only=True):
    """A task of a workflow definition. Workers of the task type `name` execute a SIMPLE task."""

    name: OrDefault[str] = sent_default(str)
    #: Unique within the workflow. Other tasks refer to the output as `${reference.output…}`.
    task_reference_name: OrDefault[str] = sent_default(str)
    type: OrDefault[str] = sent_default("SIMPLE")
    description: str | None = None
    input_parameters: JsonObject | None = None
    start_delay: int | None = None
    #: A failure of this task does not fail the workflow.
    optional: bool | None = None
    #: After a failure the other tasks continue, and the workflow fails at its end.
    permissive: bool | None = None
    #: Overrides the value of the task definition.
    retry_count: int | None = None
    async_complete: bool | None = None
    rate_limited: bool | None = None
    task_definition: TaskDef | None = None
    dynamic_task_name_param: str | None = None
    case_value_param: str | None = None
    case_expression: str | None = None
    script_expression: str | None = None
    evaluator_type: str | None = None
    expression: str | None = None
    decision_cases: dict[str, list[WorkflowTask]] | None = None
    default_case: list[WorkflowTask] | None = None
    fork_tasks: list[list[WorkflowTask]] | None = None
    dynamic_fork_join_tasks_param: str | None = None
    dynamic_fork_tasks_param: str | None = None
    dynamic_fork_tasks_input_param_name: str | None = None
    join_on: list[str] | None = None
    join_status: str | None = None
    join_mode: str | None = None
    default_exclusive_join_task: list[str] | None = None
    loop_condition: str | None = None
    loop_over: list[WorkflowTask] | None = None
    items: str | None = None
    sink: str | None = None
    sub_workflow_param: SubWorkflowParams | None = None
    on_state_change: dict[str, list[StateChangeEvent]] | None = None
    cache_config: CacheConfig | None = None
    metadata: JsonObject | None = None
    workflow_task_type: str | None = None
