"""EVENT and START_WORKFLOW tasks: their effect and their end share one transaction, so the effect happens once."""

from __future__ import annotations

import msgspec

from conductor.coordinator.definitions.event_handlers import publish_event
from conductor.coordinator.store.lookup import find_workflow, workflow_data
from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.system.system_task_result import SystemTaskResult, failed
from conductor.coordinator.workflows.effects import Start, check_start
from conductor.coordinator.workflows.executions import Executions
from conductor.coordinator.workflows.operators import MAX_PRIORITY
from conductor.protocol.json_types import JsonObject

#: The only kind of sink that an EVENT task can publish to: the coordinator itself.
EVENT_SINK = "conductor"

_decode = msgspec.json.Decoder(JsonObject).decode


def run_start_task(executions: Executions, tx: Tx, task: JsonObject) -> SystemTaskResult:
    """Execute an EVENT or a START_WORKFLOW task, and return its result.

    Raises:
        ApiError: The workflow cannot be started.
    """
    task_input = _decode(bytes(task["inputData"]))
    if task["taskType"] == "EVENT":
        return _publish_event(tx, task, task_input)
    return _start_workflow(executions, tx, task, task_input)


def _publish_event(tx: Tx, task: JsonObject, task_input: JsonObject) -> SystemTaskResult:
    sink = task_input.get("sink")
    workflow = find_workflow(tx, task["workflowInstanceId"])
    domains = workflow_data(tx, workflow.pk).task_to_domain
    payload = {
        **task_input,
        "workflowType": task["workflowType"],
        "correlationId": task.get("correlationId"),
        "taskToDomain": _decode(domains) if domains else {},
        "workflowVersion": workflow.version,
        "workflowInstanceId": task["workflowInstanceId"],
    }
    if not isinstance(sink, str) or sink.partition(":")[0] != EVENT_SINK:
        kind = sink.partition(":")[0] if isinstance(sink, str) else sink
        reason = (
            f"Unknown queue type {kind}: the sink of this EVENT is '{sink}', and the coordinator supports only "
            f"{EVENT_SINK} and {EVENT_SINK}:<name>; for other sinks use a SIMPLE task and a worker that publishes"
        )
        return failed(reason, **payload, event_produced=sink)
    name = sink.partition(":")[2] or task["referenceTaskName"]
    event = f"{EVENT_SINK}:{task['workflowType']}:{name}"
    payload["event_produced"] = event
    publish_event(tx, event, payload)
    return SystemTaskResult("IN_PROGRESS" if task_input.get("asyncComplete") is True else "COMPLETED", payload)


def _start_workflow(executions: Executions, tx: Tx, task: JsonObject, task_input: JsonObject) -> SystemTaskResult:
    request = task_input.get("startWorkflow")
    if request is None:
        return failed("Missing 'startWorkflow' in input data.")
    try:
        start = msgspec.convert(request, Start)
    except msgspec.ValidationError as error:
        return failed(f"Error reading StartWorkflowRequest. {error}")
    if not (start.name or "").strip():
        return failed("startWorkflow validation failed. 'name' -> Workflow name cannot be null or empty. ")
    if not 0 <= (start.priority or 0) <= MAX_PRIORITY:
        return failed(f"startWorkflow validation failed. priority: {start.priority} is not from 0 to {MAX_PRIORITY}")
    starter = find_workflow(tx, task["workflowInstanceId"])
    is_literal = executions.has_literal_definition(tx, starter, task["referenceTaskName"], start.workflow_def)
    check_start(start)
    workflow = executions.start(tx, start, starter, is_definition_from_data=not is_literal)
    return SystemTaskResult("COMPLETED", {"workflowId": tx.ids.workflow(workflow)})
