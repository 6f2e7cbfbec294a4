"""System tasks and sub-workflows that are chosen at run time, on every server."""

from __future__ import annotations

from typing import Any

import pytest

from tests.acceptance.api import Api, Task
from tests.acceptance.servers.targets import Target

SCRIPT = {"evaluatorType": "javascript", "expression": "1 + 1"}
QUERY = {"queryExpression": ".a", "a": 3}
LISTED = {"dynamicForkTasksParam": "tasks", "dynamicForkTasksInputParamName": "inputs"}


def task(ref: str, kind: str, **fields: Any) -> Task:
    return {"name": ref, "taskReferenceName": ref, "type": kind, **fields}


JOIN = task("j", "JOIN", joinOn=[])


def alike(**given: Any) -> list[Task]:
    """A dynamic fork of one task with many inputs, and its JOIN."""
    return [task("f", "FORK_JOIN_DYNAMIC", inputParameters=given), JOIN]


def listed(*tasks: Task, **inputs: Any) -> list[Task]:
    """A dynamic fork of listed tasks, and its JOIN."""
    return [task("f", "FORK_JOIN_DYNAMIC", inputParameters={"tasks": list(tasks), "inputs": inputs}, **LISTED), JOIN]


def done(workflow: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(one["taskType"], one["referenceTaskName"], one["status"]) for one in workflow["tasks"]]


class TestNamedAtRunTime:
    @pytest.mark.parametrize(
        ("kind", "given", "output"),
        [
            ("INLINE", SCRIPT, {"result": 2}),
            ("LAMBDA", {"scriptExpression": "return 3"}, {"result": 3}),
            ("JSON_JQ_TRANSFORM", QUERY, {"result": 3, "resultList": [3]}),
            ("NOOP", {"a": 1}, {}),
            ("SET_VARIABLE", {"a": 1}, {}),
        ],
    )
    def test_a_task_named_at_run_time_runs_in_every_style_s05(
        self, api: Api, kind: str, given: dict[str, Any], output: dict[str, Any]
    ) -> None:
        old = {"dynamicTasks": [{"taskName": kind, "referenceName": "x", "input": given}]}
        for ref, tasks in {
            f"_{kind}_0": alike(forkTaskName=kind, forkTaskInputs=[given]),
            "x": listed({"name": kind, "taskReferenceName": "x"}, x=given),
            "x ": [task("f", "FORK_JOIN_DYNAMIC", inputParameters={"all": old}, dynamicForkJoinTasksParam="all"), JOIN],
            "d": [task("d", "DYNAMIC", dynamicTaskNameParam="kind", inputParameters={"kind": kind, **given})],
        }.items():
            found = api.run(*tasks)
            assert found["status"] == "COMPLETED", found
            (made,) = [one for one in found["tasks"] if one["referenceTaskName"] == ref.strip()]
            assert (made["taskType"], made["taskDefName"], made["status"]) == (kind, kind, "COMPLETED")
            assert made["outputData"] == output

    def test_a_dynamic_fork_runs_http_calls_s05(self, api: Api, target: Target) -> None:
        uri = f"{target.url}/metadata/taskdefs"
        found = api.run(*alike(forkTaskName="HTTP", forkTaskInputs=[{"uri": uri, "method": "GET"}] * 2))
        assert done(found) == [
            ("FORK", "f", "COMPLETED"),
            ("HTTP", "_HTTP_0", "COMPLETED"),
            ("HTTP", "_HTTP_1", "COMPLETED"),
            ("JOIN", "j", "COMPLETED"),
        ]
        assert found["output"]["_HTTP_1"]["response"]["statusCode"] == 200

    def test_a_task_named_at_run_time_may_be_an_event_s05(self, api: Api) -> None:
        found = api.run(*alike(forkTaskName="EVENT", forkTaskInputs=[{"sink": "conductor"}]))
        assert found["output"]["_EVENT_0"]["event_produced"] == f"conductor:{api.name}:_EVENT_0"

    def test_a_failed_start_is_not_tried_again_s05(self, api: Api) -> None:
        found = api.run(*alike(forkTaskName="START_WORKFLOW", forkTaskInputs=[{"startWorkflow": {"name": "nobody"}}]))
        assert (found["status"], done(found)[1]) == ("FAILED", ("START_WORKFLOW", "_START_WORKFLOW_0", "FAILED"))

    def test_a_task_named_at_run_time_may_end_the_workflow_s05(self, api: Api) -> None:
        given = {"kind": "TERMINATE", "terminationStatus": "COMPLETED", "workflowOutput": {"a": 1}}
        decide, never = task("d", "DYNAMIC", dynamicTaskNameParam="kind", inputParameters=given), task("h", "HUMAN")
        found = api.run(decide, never)
        assert (found["status"], found["output"], len(found["tasks"])) == ("COMPLETED", {"a": 1}, 1)

    def test_a_task_that_waits_for_people_s05(self, api: Api) -> None:
        waits = task("d", "DYNAMIC", dynamicTaskNameParam="kind", inputParameters={"kind": "HUMAN"})
        workflow_id = api.start(waits, task("after", "NOOP"))
        api.until(workflow_id, lambda one: one["tasks"] and one["tasks"][0]["status"] == "IN_PROGRESS")
        assert api.client.post(f"/tasks/{workflow_id}/d/COMPLETED", json={"by": "hand"}).status_code == 200
        found = api.until(workflow_id, lambda one: one["status"] != "RUNNING")
        assert done(found) == [("HUMAN", "d", "COMPLETED"), ("NOOP", "after", "COMPLETED")]

    @pytest.mark.targets("coordinator")
    @pytest.mark.parametrize("kind", ["SWITCH", "JOIN", "SUB_WORKFLOW"])
    def test_a_task_type_that_needs_more_than_a_name_fails_with_the_reason_s05(self, api: Api, kind: str) -> None:
        # A Conductor server completes such a SWITCH without a choice and leaves the others SCHEDULED forever.
        found = api.run(task("d", "DYNAMIC", dynamicTaskNameParam="kind", inputParameters={"kind": kind}))
        assert found["status"] == "FAILED"
        assert f"the DYNAMIC task d cannot be a {kind}: " in found["reasonForIncompletion"]

    def test_a_listed_sub_workflow_needs_no_name_s10(self, api: Api) -> None:
        inner = {"name": "inner", "tasks": [task("i", "INLINE", inputParameters=SCRIPT)]}
        branch = {
            "taskReferenceName": "x",
            "type": "SUB_WORKFLOW",
            "subWorkflowParam": {"name": "inner", "workflowDefinition": inner},
        }
        found = api.run(*listed(branch, x={"b": 1}))
        assert found["status"] == "COMPLETED", found
        assert found["tasks"][1]["taskDefName"] == "SUB_WORKFLOW"
        assert found["output"]["x"]["result"] == 2


class TestSubWorkflows:
    def test_a_child_of_an_inline_definition_is_marked_s10(self, api: Api) -> None:
        inner = {"name": "inner", "tasks": [task("n", "NOOP")]}
        param = {"name": "inner", "workflowDefinition": inner}
        found = api.run(task("s", "SUB_WORKFLOW", subWorkflowParam=param, inputParameters={"a": 1}))
        child = api.workflow(found["tasks"][0]["subWorkflowId"])
        assert child["input"] == {"a": 1, "_systemMetadata": {"dynamic": True}}

    def test_a_child_of_a_registered_definition_is_not_s10(self, api: Api) -> None:
        assert api.register(task("n", "NOOP")).status_code == 200
        param = {"name": api.name, "version": 1}
        found = api.run(task("s", "SUB_WORKFLOW", subWorkflowParam=param, inputParameters={"a": 1}))
        assert api.workflow(found["tasks"][0]["subWorkflowId"])["input"] == {"a": 1}

    def test_an_unknown_workflow_fails_the_task_s10(self, api: Api) -> None:
        found = api.run(task("s", "SUB_WORKFLOW", subWorkflowParam={"name": "not_there", "version": 1}))
        (failed,) = found["tasks"]
        assert (found["status"], failed["status"]) == ("FAILED", "FAILED")
        assert failed["reasonForIncompletion"] == "No such workflow defined. name=not_there, version=1"

    def test_an_unknown_workflow_is_tried_again_s10(self, api: Api) -> None:
        again = task("s", "SUB_WORKFLOW", retryCount=1, subWorkflowParam={"name": "not_there", "version": 1})
        found = api.until(api.start(again), lambda one: len(one["tasks"]) == 2)
        assert [(one["status"], one["retryCount"]) for one in found["tasks"]] == [("FAILED", 0), ("SCHEDULED", 1)]


def test_an_event_says_the_domains_of_its_workflow_s10(api: Api) -> None:
    assert api.register(task("e", "EVENT", sink="conductor")).status_code == 200
    for domains in ({}, {"*": "blue"}):
        started = api.client.post("/workflow", json={"name": api.name, "taskToDomain": domains}).text
        found = api.until(started, lambda one: one["status"] != "RUNNING")
        assert found["tasks"][0]["outputData"]["taskToDomain"] == domains
