"""Every server accepts the same definitions, even if some of their fields make no sense."""

from __future__ import annotations

from typing import Any

import pytest

from tests.acceptance.api import Api, Task
from tests.acceptance.servers.targets import Target

UNKNOWN = "${unknown.output.x}"


def task(ref: str, kind: str = "NOOP", **fields: Any) -> Task:
    return {"name": ref, "taskReferenceName": ref, "type": kind, **fields}


def naming(ref: str = "a") -> Task:
    """A task whose input names a task that the definition does not have."""
    return task(ref, inputParameters={"x": UNKNOWN})


def warnings_of(api: Api, target: Target, *tasks: Task, **fields: Any) -> list[str]:
    """Register a definition, and return the coordinator's warnings. A Conductor server gives none."""
    answer = api.register(*tasks, **fields)
    assert answer.status_code == 200, answer.text
    return [] if target.is_conductor else answer.headers.get_list("conductor-warning")


class TestUnknownNames:
    def test_the_input_of_a_task_at_the_top_is_checked_s03(self, api: Api) -> None:
        answer = api.register(naming())
        assert answer.status_code == 400
        assert "unknown" in answer.json()["validationErrors"][0]["message"]

    @pytest.mark.parametrize(
        "tasks",
        [
            [task("f", "FORK_JOIN", forkTasks=[[naming()]]), task("j", "JOIN", joinOn=["a"])],
            [
                task(
                    "s",
                    "SWITCH",
                    evaluatorType="value-param",
                    expression="v",
                    inputParameters={"v": "1"},
                    decisionCases={"1": [naming()]},
                )
            ],
            [task("l", "DO_WHILE", loopCondition="false", loopOver=[naming()])],
            [
                task(
                    "s",
                    "SUB_WORKFLOW",
                    subWorkflowParam={"name": "inner", "workflowDefinition": {"name": "inner", "tasks": [naming()]}},
                )
            ],
            [task("l", "DO_WHILE", loopCondition="false", items=UNKNOWN, loopOver=[task("a")])],
            [task("s", "SUB_WORKFLOW", subWorkflowParam={"name": UNKNOWN, "version": 1})],
            [task("e", "EVENT", sink=UNKNOWN)],
        ],
        ids=["fork", "switch", "loop", "inline sub-workflow", "items", "name of a sub-workflow", "sink"],
    )
    def test_a_name_elsewhere_is_accepted_s03(self, api: Api, target: Target, tasks: list[Task]) -> None:
        warnings = warnings_of(api, target, *tasks)
        if not target.is_conductor:
            assert ["which is not a task of this workflow" in warning for warning in warnings] == [True]

    def test_a_name_in_an_inline_sub_workflow_is_null_s03(self, api: Api) -> None:
        inner = {"name": "inner", "tasks": [task("v", "SET_VARIABLE", inputParameters={"x": UNKNOWN})]}
        found = api.run(task("s", "SUB_WORKFLOW", subWorkflowParam={"name": "inner", "workflowDefinition": inner}))
        assert found["status"] == "COMPLETED", found
        child = api.workflow(found["tasks"][0]["subWorkflowId"])
        assert child["tasks"][0]["inputData"] == {"x": None}


class TestSchemas:
    SCHEMA = {"name": "odd", "version": 1, "type": "JSON", "data": {"type": "strange", "properties": 5}}

    def test_a_schema_that_cannot_be_used_is_accepted_s09(self, api: Api, target: Target) -> None:
        warnings = warnings_of(api, target, task("a"), inputSchema=self.SCHEMA)
        if not target.is_conductor:
            assert "inputSchema: the input schema cannot be used" in warnings[0]
        answer = api.client.post(f"/workflow/{api.name}", json={})
        # A Conductor server enforces no schemas.
        assert answer.status_code == (200 if target.is_conductor else 400), answer.text
        if not target.is_conductor:
            assert f"the input schema of {api.name} cannot be used: " in answer.json()["message"]

    def test_a_schema_that_is_not_enforced_stops_no_workflow_s09(self, api: Api, target: Target) -> None:
        assert warnings_of(api, target, task("a"), inputSchema=self.SCHEMA, enforceSchema=False) == []
        assert api.client.post(f"/workflow/{api.name}", json={}).status_code == 200

    def test_a_task_with_such_a_schema_fails_with_the_reason_s09(self, api: Api, target: Target) -> None:
        task_def = {"name": "odd_input", "ownerEmail": "a@b.c", "inputSchema": self.SCHEMA, "enforceSchema": True}
        answer = api.client.post("/metadata/taskdefs", json=[task_def])
        assert answer.status_code == 200
        if target.is_conductor:
            return
        assert "the input schema of odd_input cannot be used" in answer.headers["conductor-warning"]
        found = api.run(task("odd_input", "SIMPLE"))
        assert found["status"] == "FAILED"
        assert found["tasks"][0]["status"] == "FAILED_WITH_TERMINAL_ERROR"
        assert "the input schema of odd_input cannot be used: " in found["tasks"][0]["reasonForIncompletion"]

    @pytest.mark.parametrize("schema", [[1], {"type": "WEIRD"}])
    def test_an_object_that_is_not_a_schema_is_refused_s09(self, api: Api, schema: Any) -> None:
        # A Conductor server answers with 500.
        assert api.register(task("a"), inputSchema=schema).status_code in (400, 500)


class TestFieldsWithoutEffect:
    STATES = {"onScheduled": [{"type": "event", "payload": {"a": "b"}}]}

    def test_the_actions_on_a_state_change_are_stored_s10(self, api: Api, target: Target) -> None:
        warnings = warnings_of(api, target, task("a", onStateChange=self.STATES))
        if not target.is_conductor:
            assert warnings == ["tasks[0].onStateChange: onStateChange of NOOP 'a' is stored and has no effect"]
        kept = api.client.get(f"/metadata/workflow/{api.name}").json()["tasks"][0]
        assert kept["onStateChange"] == self.STATES
        found = api.until(
            api.client.post(f"/workflow/{api.name}", json={}).text, lambda one: one["status"] != "RUNNING"
        )
        assert found["tasks"][0]["workflowTask"]["onStateChange"] == self.STATES

    def test_a_cache_is_kept_s10(self, api: Api, target: Target) -> None:
        cache = {"key": "k", "ttlInSecond": 5}
        assert (
            len(warnings_of(api, target, task("a", cacheConfig=cache), cacheConfig=cache))
            == (not target.is_conductor) * 2
        )
