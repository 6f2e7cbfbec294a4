"""EVENT and START_WORKFLOW: what they do is done in the transaction that ends them, so it is done once."""

from __future__ import annotations

from typing import Any

import msgspec

from conductor.coordinator.core import Core
from conductor.coordinator.store.lookup import find_workflow, workflow_data
from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.system.system_task_result import SystemTaskResult, failed
from conductor.coordinator.workflows.effects import Start, check_start
from conductor.coordinator.workflows.operators import MAX_PRIORITY

#: Where events can go: to the coordinator itself.
EVENT_SINK = "conductor"

_decode = msgspec.json.Decoder(dict[str, Any]).decode


def run_start_task(core: Core, tx: Tx, task: dict[str, Any]) -> SystemTaskResult:
    """Do a task of one of these types. Raises ApiError if it cannot be done."""
    given = _decode(bytes(task["inputData"]))
    if task["taskType"] == "EVENT":
        return _publish(core, tx, task, given)
    return _start(core, tx, task, given)


def _publish(core: Core, tx: Tx, task: dict[str, Any], given: dict[str, Any]) -> SystemTaskResult:
    sink = given.get("sink")
    workflow = find_workflow(tx, task["workflowInstanceId"])
    domains = workflow_data(tx, workflow.pk).task_to_domain
    payload = {
        **given,
        "workflowType": task["workflowType"],
        "correlationId": task.get("correlationId"),
        "taskToDomain": _decode(domains) if domains else {},
        "workflowVersion": workflow.version,
        "workflowInstanceId": task["workflowInstanceId"],
    }
    if not isinstance(sink, str) or sink.partition(":")[0] != EVENT_SINK:
        kind = sink.partition(":")[0] if isinstance(sink, str) else sink
        reason = (
            f"Unknown queue type {kind}: the sink of this EVENT is '{sink}', and the coordinator has {EVENT_SINK} and "
            f"{EVENT_SINK}:<name> alone; for others use a SIMPLE task and a worker that does it"
        )
        return failed(reason, **payload, event_produced=sink)
    name = sink.partition(":")[2] or task["referenceTaskName"]
    produced = f"{EVENT_SINK}:{task['workflowType']}:{name}"
    payload["event_produced"] = produced
    core.publish_event(tx, produced, payload)
    return SystemTaskResult("IN_PROGRESS" if given.get("asyncComplete") is True else "COMPLETED", payload)


def _start(core: Core, tx: Tx, task: dict[str, Any], given: dict[str, Any]) -> SystemTaskResult:
    asked = given.get("startWorkflow")
    if asked is None:
        return failed("Missing 'startWorkflow' in input data.")
    try:
        start = msgspec.convert(asked, Start)
    except msgspec.ValidationError as error:
        return failed(f"Error reading StartWorkflowRequest. {error}")
    if not (start.name or "").strip():
        return failed("startWorkflow validation failed. 'name' -> Workflow name cannot be null or empty. ")
    if not 0 <= (start.priority or 0) <= MAX_PRIORITY:
        return failed(f"startWorkflow validation failed. priority: {start.priority} is not from 0 to {MAX_PRIORITY}")
    check_start(start)
    started = core.executions.start(tx, start, find_workflow(tx, task["workflowInstanceId"]))
    return SystemTaskResult("COMPLETED", {"workflowId": tx.ids.workflow(started)})
