"""Control flow, retries and restarts give the same task lists on every server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.acceptance.rest_driver import Driver, last, shape
from tests.acceptance.server_session import Session

LISTED = {"dynamicForkTasksParam": "tasks", "dynamicForkTasksInputParamName": "ins"}
ACTIVE = ("SCHEDULED", "IN_PROGRESS")


@pytest.fixture
async def driver(session: Session) -> AsyncIterator[Driver]:
    async with Driver(session) as found:
        yield found


async def given_to(driver: Driver, *refs: str) -> list[Any]:
    """Do the tasks `work` of a fork; their inputs by name. In which order a server hands them out is its own affair."""
    done = {task["referenceTaskName"]: task["inputData"] for task in [await driver.do("work") for _ in refs]}
    assert sorted(done) == sorted(refs)
    return [done[ref] for ref in refs]


class TestOperators:
    async def listed(self, driver: Driver) -> None:
        given = {"tasks": "${workflow.input.tasks}", "ins": "${workflow.input.ins}"}
        forking = driver.task("df", "FORK_JOIN_DYNAMIC", inputParameters=given, **LISTED)
        after = driver.simple("last", inputParameters={"j": "${j.output}"})
        await driver.define("flow", forking, driver.task("j", "JOIN"), after)

    async def test_a_dynamic_fork_of_listed_tasks(self, driver: Driver) -> None:
        await driver.types("work", "last")
        await self.listed(driver)
        tasks = [driver.simple(ref, "work", inputParameters={"k": "${workflow.input.k}"}) for ref in ("x1", "x2")]
        workflow = await driver.start("flow", tasks=tasks, ins={"x1": {"n": 1}}, k=7)
        assert await given_to(driver, "x1", "x2") == [{"k": 7, "n": 1}, {"k": 7}]
        asked = await driver.do("last")
        assert asked["inputData"] == {"j": {"x1": {"did": "x1"}, "x2": {"did": "x2"}}}
        found = await driver.ended(workflow, "COMPLETED")
        assert [(one["referenceTaskName"], one["taskType"]) for one in found["tasks"]] == [
            ("df", "FORK"),
            ("x1", driver.session.named("work")),
            ("x2", driver.session.named("work")),
            ("j", "JOIN"),
            ("last", driver.session.named("last")),
        ]
        assert found["tasks"][0]["inputData"]["forkedTasks"] == ["x1", "x2"]
        assert found["tasks"][3]["inputData"] == {"joinOn": ["x1", "x2"]}

    async def test_a_dynamic_fork_of_nothing_goes_on(self, driver: Driver) -> None:
        await self.listed(driver)
        workflow = await driver.start("flow", tasks=[], ins={})
        await driver.do("last")
        found = await driver.ended(workflow, "COMPLETED")
        assert shape(found) == [("df", "COMPLETED", 0), ("j", "COMPLETED", 0), ("last", "COMPLETED", 0)]

    @pytest.mark.parametrize(
        ("given", "reason"),
        [
            ({"tasks": None, "ins": {}}, "Input 'tasks' is invalid. Cannot deserialize a list of Workflow Tasks"),
            ({"tasks": [{"name": "no_reference"}], "ins": {}}, "Cannot deserialize a list of Workflow Tasks"),
            ({"tasks": [], "ins": None}, "is not a map -> expecting a map of K,V  but found null"),
        ],
    )
    async def test_a_dynamic_fork_of_nonsense_ends_the_workflow(self, driver: Driver, given: Any, reason: str) -> None:
        await self.listed(driver)
        found = await driver.ended(await driver.start("flow", **given), "FAILED")
        assert found["tasks"] == []
        assert reason in found["reasonForIncompletion"]

    async def test_a_dynamic_fork_of_one_task_with_many_inputs(self, driver: Driver) -> None:
        name = driver.session.named("work")
        given = {"forkTaskName": name, "forkTaskInputs": [{"a": 1}, 5]}
        await driver.define(
            "flow", driver.task("df", "FORK_JOIN_DYNAMIC", inputParameters=given), driver.task("j", "JOIN")
        )
        workflow = await driver.start("flow")
        inputs = await given_to(driver, f"_{name}_0", f"_{name}_1")
        assert inputs == [{"a": 1, "__index": 0}, {"input": 5, "__index": 1}]
        found = await driver.ended(workflow, "COMPLETED")
        assert sorted(found["output"]) == [f"_{name}_0", f"_{name}_1"]

    async def test_a_dynamic_fork_of_sub_workflows(self, driver: Driver) -> None:
        await driver.define("kid", driver.simple("work", inputParameters={"r": "${workflow.input.region}"}))
        given = {
            "forkTaskWorkflow": driver.session.named("kid"),
            "forkTaskInputs": [{"region": "eu"}, {"region": "us"}],
        }
        await driver.define(
            "flow", driver.task("df", "FORK_JOIN_DYNAMIC", inputParameters=given), driver.task("j", "JOIN")
        )
        workflow = await driver.start("flow")
        assert sorted([(await driver.do("work"))["inputData"]["r"] for _ in range(2)]) == ["eu", "us"]
        found = await driver.ended(workflow, "COMPLETED")
        assert [one["taskType"] for one in found["tasks"]] == ["FORK", "SUB_WORKFLOW", "SUB_WORKFLOW", "JOIN"]
        assert sorted(found["output"]) == ["_df_0", "_df_1"]

    async def test_a_dynamic_task_runs_the_task_that_its_input_names(self, driver: Driver) -> None:
        given = {"what": "${workflow.input.what}", "a": 1}
        await driver.define("flow", driver.task("d", "DYNAMIC", dynamicTaskNameParam="what", inputParameters=given))
        name = driver.session.named("work")
        workflow = await driver.start("flow", what=name)
        assert (await driver.do("work"))["inputData"] == {"what": name, "a": 1}
        (task,) = (await driver.ended(workflow, "COMPLETED"))["tasks"]
        assert (task["taskType"], task["taskDefName"], task["workflowTask"]["type"]) == (name, name, "DYNAMIC")
        nameless = await driver.ended(await driver.start("flow"), "FAILED")
        assert nameless["tasks"] == []
        assert "Cannot map a dynamic task based on the parameter and input" in nameless["reasonForIncompletion"]

    @pytest.mark.parametrize(("value", "joined"), [("a", "a"), ("b", "b"), ("c", "first")])
    async def test_an_exclusive_join_has_the_output_of_the_branch_that_ran(
        self, driver: Driver, value: str, joined: str
    ) -> None:
        chosen = driver.task(
            "s",
            "SWITCH",
            evaluatorType="value-param",
            expression="v",
            inputParameters={"v": "${workflow.input.v}"},
            decisionCases={"a": [driver.simple("a")], "b": [driver.simple("b")]},
            defaultCase=[],
        )
        lists = {"joinOn": ["a", "b"], "defaultExclusiveJoinTask": ["first"]}
        await driver.define("flow", driver.simple("first"), chosen, driver.task("e", "EXCLUSIVE_JOIN", **lists))
        workflow = await driver.start("flow", v=value)
        await driver.do("first")
        if joined != "first":
            await driver.do(joined)
        found = await driver.ended(workflow, "COMPLETED")
        assert (last(found, "e") or {})["outputData"] == {"did": joined}

    async def test_a_join_behind_a_task_that_is_no_fork(self, driver: Driver) -> None:
        await driver.define("flow", driver.simple("a"), driver.task("j", "JOIN", joinOn=["a"]), driver.simple("z"))
        workflow = await driver.start("flow")
        await driver.do("a")
        await driver.do("z")
        found = await driver.ended(workflow, "COMPLETED")
        assert found["tasks"][1]["outputData"] == {"a": {"did": "a"}}

    async def test_a_fork_that_no_join_follows_is_registered_and_fails(self, driver: Driver) -> None:
        forking, _ = driver.fork([driver.simple("a")], [driver.simple("b")], join_on=[])
        await driver.define("flow", forking)
        found = await driver.ended(await driver.start("flow"), "FAILED")
        assert found["tasks"] == []
        assert "not followed by a join task" in found["reasonForIncompletion"]

    async def test_the_script_of_a_join_has_no_effect(self, driver: Driver) -> None:
        forking, joining = driver.fork([driver.simple("a")], [driver.simple("b")], join_on=["a", "b"])
        script = {"joinMode": "SYNC", "evaluatorType": "javascript", "expression": "({x: 1})"}
        await driver.define("flow", forking, {**joining, **script})
        workflow = await driver.start("flow")
        for name in "ab":
            await driver.do(name)
        found = await driver.ended(workflow, "COMPLETED")
        assert found["output"] == {"a": {"did": "a"}, "b": {"did": "b"}}

    async def test_a_loop_through_a_list(self, driver: Driver) -> None:
        each = driver.simple("a", inputParameters={"i": "${l.output.loopIndex}", "x": "${l.output.loopItem}"})
        loop = driver.task("l", "DO_WHILE", items="${workflow.input.list}", loopCondition="true", loopOver=[each])
        await driver.define("flow", loop)
        workflow = await driver.start("flow", list=[10, "b"])
        assert [(await driver.do("a"))["inputData"] for _ in range(2)] == [{"i": 0, "x": 10}, {"i": 1, "x": "b"}]
        found = await driver.ended(workflow, "COMPLETED")
        assert found["tasks"][0]["outputData"] == {
            "iteration": 2,
            "loopIndex": 1,
            "loopItem": "b",
            "1": {"a": {"did": "a__1"}},
            "2": {"a": {"did": "a__2"}},
        }
        nothing = await driver.ended(await driver.start("flow", list=[]), "COMPLETED")
        assert nothing["tasks"][0]["outputData"] == {"iteration": 0}

    async def test_forks_switches_and_sub_workflows_in_a_loop(self, driver: Driver) -> None:
        await driver.define("kid", driver.simple("kid_work"))
        chosen = driver.task(
            "s",
            "SWITCH",
            evaluatorType="value-param",
            expression="v",
            inputParameters={"v": "${l.output.iteration}"},
            decisionCases={"1": [driver.simple("one")]},
            defaultCase=[driver.simple("other")],
        )
        forked = driver.fork([driver.sub("k", "kid")], [driver.simple("b")], join_on=["k", "b"])
        await driver.define(
            "flow", driver.task("l", "DO_WHILE", loopCondition="$.l['iteration'] < 2", loopOver=[*forked, chosen])
        )
        workflow = await driver.start("flow")
        for name in ("kid_work", "b", "one", "kid_work", "b", "other"):
            await driver.do(name)
        found = await driver.ended(workflow, "COMPLETED")
        assert [ref for ref, _, _ in shape(found)] == [
            "l",
            *("fork__1", "k__1", "b__1", "join__1", "s__1", "one__1"),
            *("fork__2", "k__2", "b__2", "join__2", "s__2", "other__2"),
        ]

    async def test_a_loop_in_a_loop(self, driver: Driver) -> None:
        """Conductor 3.32.3 takes it and fails in the inner condition: Cannot read property 'iteration' of undefined."""
        inner = driver.task("i", "DO_WHILE", loopCondition="$.i['iteration'] < 2", loopOver=[driver.simple("a")])
        await driver.define(
            "flow", driver.task("o", "DO_WHILE", loopCondition="$.o['iteration'] < 2", loopOver=[inner])
        )
        workflow = await driver.start("flow")
        await driver.do("a")
        if driver.session.target.is_conductor:
            found = await driver.ended(workflow, "FAILED")
            assert "Unable to evaluate condition $.i['iteration'] < 2" in found["reasonForIncompletion"]
            return
        assert [(await driver.do("a"))["referenceTaskName"] for _ in range(3)] == ["a__1__2", "a__2__1", "a__2__2"]
        found = await driver.ended(workflow, "COMPLETED")
        assert [ref for ref, _, _ in shape(found)] == ["o", "i__1", "a__1__1", "a__1__2", "i__2", "a__2__1", "a__2__2"]

    async def test_a_sub_workflow_task_names_its_workflow(self, driver: Driver) -> None:
        await driver.define("kid", driver.simple("work"), version=1)
        await driver.define("kid", driver.simple("work"), version=2)
        keyed = {"name": driver.session.named("kid"), "idempotencyKey": "k-${workflow.input.n}"}
        await driver.define("flow", driver.task("s", "SUB_WORKFLOW", subWorkflowParam=keyed))
        workflow = await driver.start("flow", n=4)
        task = await driver.task_is(workflow, "s", "IN_PROGRESS")
        assert (task["inputData"]["subWorkflowVersion"], task["inputData"]["idempotencyKey"]) == (2, "k-4")
        assert task["workflowTask"]["subWorkflowParam"]["version"] == 2
        definition = (await driver.workflow(workflow))["workflowDefinition"]
        assert definition["tasks"][0]["subWorkflowParam"]["version"] == 2

    async def test_a_wait_shows_how_long_it_waits(self, driver: Driver) -> None:
        await driver.define("flow", driver.task("w", "WAIT", inputParameters={"duration": "3600 seconds"}))
        task = await driver.task_is(await driver.start("flow"), "w", "IN_PROGRESS")
        assert task["callbackAfterSeconds"] == 3600

    async def test_a_failure_workflow_runs_in_the_named_version(self, driver: Driver) -> None:
        await driver.types("work")
        await driver.define("cleanup", driver.simple("one"), version=1)
        await driver.define("cleanup", driver.simple("two"), version=2)
        named = {"failureWorkflow": driver.session.named("cleanup"), "failureWorkflowVersion": 1}
        await driver.define("flow", driver.simple("work"), **named)
        workflow = await driver.start("flow")
        await driver.do("work", "FAILED")
        await driver.ended(workflow, "FAILED")
        await driver.do("one")


class Family:
    """A fork of two sub-workflows and a task. F fails in `f`; C has done `a` and is cancelled in `b`; so is `sib`."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.parent = self.failed = self.cancelled = ""

    async def fail(self) -> dict[str, Any]:
        """Bring it to its failure; the parent as it was just before."""
        driver = self.driver
        await driver.types("f", "a", "b", "sib")
        await driver.define("F", driver.simple("f"))
        await driver.define("C", driver.simple("a"), driver.simple("b"))
        branches = [driver.sub("subF", "F")], [driver.sub("subC", "C")], [driver.simple("sib")]
        await driver.define("P", *driver.fork(*branches, join_on=["subF", "subC", "sib"]))
        self.parent = await driver.start("P")
        self.failed = (await driver.task_is(self.parent, "subF", "IN_PROGRESS"))["subWorkflowId"]
        self.cancelled = (await driver.task_is(self.parent, "subC", "IN_PROGRESS"))["subWorkflowId"]
        await driver.do("a")
        await driver.task_is(self.cancelled, "b", "SCHEDULED")
        before = await driver.workflow(self.parent)
        await driver.do("f", "FAILED")
        await driver.ended(self.parent, "FAILED")
        await driver.ended(self.failed, "FAILED")
        await driver.ended(self.cancelled, "TERMINATED")
        return before

    async def check_goes_on(self, before: dict[str, Any]) -> None:
        """All are running again, in the tasks and the sub-workflows that they had."""
        driver = self.driver
        for ref in ("subF", "subC", "join"):
            await driver.task_is(self.parent, ref, "IN_PROGRESS")
        await driver.task_is(self.parent, "sib", *ACTIVE)
        found = await driver.workflow(self.parent)
        assert found["status"] == "RUNNING"
        assert [one["taskId"] for one in found["tasks"]] == [one["taskId"] for one in before["tasks"]]
        assert (last(found, "subF") or {})["subWorkflowId"] == self.failed
        assert (last(found, "subC") or {})["subWorkflowId"] == self.cancelled
        await driver.when(self.cancelled, lambda one: one["status"] == "RUNNING", "C to go on")

    async def check_done_once(self) -> None:
        for name in ("f", "b", "sib"):
            await self.driver.do(name)
        for workflow in (self.failed, self.cancelled, self.parent):
            await self.driver.ended(workflow, "COMPLETED")
        assert [ref for ref, _, _ in shape(await self.driver.workflow(self.cancelled))].count("a") == 1


class TestRecovery:
    @pytest.mark.parametrize("how", ["of the child", "of the child in bulk", "of the parent"])
    async def test_a_retry_goes_on_in_place(self, driver: Driver, how: str) -> None:
        family = Family(driver)
        before = await family.fail()
        if how == "of the child":
            await driver.post(f"/workflow/{family.failed}/retry", 204)
        elif how == "of the child in bulk":
            await driver.post("/workflow/bulk/retry", 200, json=[family.failed])
        else:
            resume = {"resumeSubworkflowTasks": "true"}
            await driver.post(f"/workflow/{family.parent}/retry", 204, params=resume)
        await family.check_goes_on(before)
        assert shape(await driver.workflow(family.failed)) == [("f", "FAILED", 0), ("f", "SCHEDULED", 1)]
        await family.check_done_once()

    async def test_a_retry_without_the_flag_begins_the_children_anew(self, driver: Driver) -> None:
        await driver.types("f")
        await driver.define("F", driver.simple("f"))
        await driver.define("P", driver.sub("s", "F"))
        parent = await driver.start("P")
        await driver.do("f", "FAILED")
        first = (await driver.ended(parent, "FAILED"))["tasks"][0]
        await driver.post(f"/workflow/{parent}/retry", 204)
        await driver.do("f")
        found = await driver.ended(parent, "COMPLETED")
        assert shape(found) == [("s", "FAILED", 0), ("s", "COMPLETED", 1)]
        assert (found["tasks"][0]["taskId"], found["tasks"][0]["retried"]) == (first["taskId"], True)
        assert found["tasks"][1]["subWorkflowId"] != first["subWorkflowId"]

    @pytest.mark.parametrize("through_parent", [False, True])
    async def test_a_rerun_of_a_childs_task_keeps_its_id(self, driver: Driver, through_parent: bool) -> None:
        family = Family(driver)
        before = await family.fail()
        failed = (await driver.workflow(family.failed))["tasks"][0]["taskId"]
        asked = {"reRunFromWorkflowId": family.failed, "reRunFromTaskId": failed}
        target = family.parent if through_parent else family.failed
        answer = await driver.post(f"/workflow/{target}/rerun", 200, json=asked)
        assert answer.text == target
        await family.check_goes_on(before)
        (task,) = (await driver.workflow(family.failed))["tasks"]
        assert (task["taskId"], task["status"], task["retryCount"]) == (failed, "SCHEDULED", 0)
        await family.check_done_once()

    async def test_a_rerun_with_another_input_and_correlation_id(self, driver: Driver) -> None:
        await driver.define("flow", driver.simple("a"), driver.simple("b"), driver.simple("c"))
        workflow = await driver.start("flow")
        for name in "abc":
            await driver.do(name)
        before = await driver.ended(workflow, "COMPLETED")
        asked = {"reRunFromTaskId": before["tasks"][1]["taskId"], "taskInput": {"x": 2}, "correlationId": "new"}
        await driver.post(f"/workflow/{workflow}/rerun", 200, json=asked)
        task = await driver.do("b")
        assert (task["taskId"], task["inputData"]) == (before["tasks"][1]["taskId"], {"x": 2})
        await driver.do("c")
        found = await driver.ended(workflow, "COMPLETED")
        assert found["correlationId"] == "new"
        assert [ref for ref, _, _ in shape(found)] == ["a", "b", "c"]
        assert found["tasks"][0]["taskId"] == before["tasks"][0]["taskId"]

    async def test_a_rerun_from_the_beginning_and_a_restart_on_the_latest_definition(self, driver: Driver) -> None:
        await driver.define("flow", driver.simple("a"), version=1)
        workflow = await driver.start("flow")
        first = await driver.do("a")
        await driver.ended(workflow, "COMPLETED")
        await driver.post(f"/workflow/{workflow}/rerun", 200, json={"workflowInput": {"n": 2}})
        second = await driver.do("a")
        assert second["taskId"] != first["taskId"]
        found = await driver.ended(workflow, "COMPLETED")
        assert (found["input"], shape(found)) == ({"n": 2}, [("a", "COMPLETED", 0)])
        await driver.define("flow", driver.simple("z"), version=2)
        await driver.post(f"/workflow/{workflow}/restart", 204, params={"useLatestDefinitions": "true"})
        await driver.do("z")
        found = await driver.ended(workflow, "COMPLETED")
        assert (found["workflowVersion"], shape(found)) == (2, [("z", "COMPLETED", 0)])

    async def test_a_wait_is_rerun_under_its_id(self, driver: Driver) -> None:
        await driver.define("flow", driver.task("w", "WAIT", inputParameters={"duration": "3600 seconds"}))
        workflow = await driver.start("flow")
        task = await driver.task_is(workflow, "w", "IN_PROGRESS")
        await driver.http.delete(f"/workflow/{workflow}")
        await driver.ended(workflow, "TERMINATED")
        await driver.post(f"/workflow/{workflow}/rerun", 200, json={"reRunFromTaskId": task["taskId"]})
        again = await driver.task_is(workflow, "w", *ACTIVE)
        assert (again["taskId"], again["callbackAfterSeconds"]) == (task["taskId"], 3600)
