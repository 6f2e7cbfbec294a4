"""Every operator of control and every recovery, played by hand: the same task lists on every server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.acceptance.played_workflow import Play, last, shape
from tests.acceptance.server_session import Bench

LISTED = {"dynamicForkTasksParam": "tasks", "dynamicForkTasksInputParamName": "ins"}
ACTIVE = ("SCHEDULED", "IN_PROGRESS")


@pytest.fixture
async def play(bench: Bench) -> AsyncIterator[Play]:
    async with Play(bench) as found:
        yield found


async def given_to(play: Play, *refs: str) -> list[Any]:
    """Do the tasks `work` of a fork; their inputs by name. In which order a server hands them out is its own affair."""
    done = {task["referenceTaskName"]: task["inputData"] for task in [await play.do("work") for _ in refs]}
    assert sorted(done) == sorted(refs)
    return [done[ref] for ref in refs]


class TestOperators:
    async def listed(self, play: Play) -> None:
        given = {"tasks": "${workflow.input.tasks}", "ins": "${workflow.input.ins}"}
        forking = play.task("df", "FORK_JOIN_DYNAMIC", inputParameters=given, **LISTED)
        after = play.simple("last", inputParameters={"j": "${j.output}"})
        await play.define("flow", forking, play.task("j", "JOIN"), after)

    async def test_a_dynamic_fork_of_listed_tasks(self, play: Play) -> None:
        await play.types("work", "last")
        await self.listed(play)
        tasks = [play.simple(ref, "work", inputParameters={"k": "${workflow.input.k}"}) for ref in ("x1", "x2")]
        workflow = await play.start("flow", tasks=tasks, ins={"x1": {"n": 1}}, k=7)
        assert await given_to(play, "x1", "x2") == [{"k": 7, "n": 1}, {"k": 7}]
        asked = await play.do("last")
        assert asked["inputData"] == {"j": {"x1": {"did": "x1"}, "x2": {"did": "x2"}}}
        found = await play.ended(workflow, "COMPLETED")
        assert [(one["referenceTaskName"], one["taskType"]) for one in found["tasks"]] == [
            ("df", "FORK"),
            ("x1", play.bench.named("work")),
            ("x2", play.bench.named("work")),
            ("j", "JOIN"),
            ("last", play.bench.named("last")),
        ]
        assert found["tasks"][0]["inputData"]["forkedTasks"] == ["x1", "x2"]
        assert found["tasks"][3]["inputData"] == {"joinOn": ["x1", "x2"]}

    async def test_a_dynamic_fork_of_nothing_goes_on(self, play: Play) -> None:
        await self.listed(play)
        workflow = await play.start("flow", tasks=[], ins={})
        await play.do("last")
        found = await play.ended(workflow, "COMPLETED")
        assert shape(found) == [("df", "COMPLETED", 0), ("j", "COMPLETED", 0), ("last", "COMPLETED", 0)]

    @pytest.mark.parametrize(
        ("given", "reason"),
        [
            ({"tasks": None, "ins": {}}, "Input 'tasks' is invalid. Cannot deserialize a list of Workflow Tasks"),
            ({"tasks": [{"name": "no_reference"}], "ins": {}}, "Cannot deserialize a list of Workflow Tasks"),
            ({"tasks": [], "ins": None}, "is not a map -> expecting a map of K,V  but found null"),
        ],
    )
    async def test_a_dynamic_fork_of_nonsense_ends_the_workflow(self, play: Play, given: Any, reason: str) -> None:
        await self.listed(play)
        found = await play.ended(await play.start("flow", **given), "FAILED")
        assert found["tasks"] == []
        assert reason in found["reasonForIncompletion"]

    async def test_a_dynamic_fork_of_one_task_with_many_inputs(self, play: Play) -> None:
        name = play.bench.named("work")
        given = {"forkTaskName": name, "forkTaskInputs": [{"a": 1}, 5]}
        await play.define("flow", play.task("df", "FORK_JOIN_DYNAMIC", inputParameters=given), play.task("j", "JOIN"))
        workflow = await play.start("flow")
        inputs = await given_to(play, f"_{name}_0", f"_{name}_1")
        assert inputs == [{"a": 1, "__index": 0}, {"input": 5, "__index": 1}]
        found = await play.ended(workflow, "COMPLETED")
        assert sorted(found["output"]) == [f"_{name}_0", f"_{name}_1"]

    async def test_a_dynamic_fork_of_sub_workflows(self, play: Play) -> None:
        await play.define("kid", play.simple("work", inputParameters={"r": "${workflow.input.region}"}))
        given = {"forkTaskWorkflow": play.bench.named("kid"), "forkTaskInputs": [{"region": "eu"}, {"region": "us"}]}
        await play.define("flow", play.task("df", "FORK_JOIN_DYNAMIC", inputParameters=given), play.task("j", "JOIN"))
        workflow = await play.start("flow")
        assert sorted([(await play.do("work"))["inputData"]["r"] for _ in range(2)]) == ["eu", "us"]
        found = await play.ended(workflow, "COMPLETED")
        assert [one["taskType"] for one in found["tasks"]] == ["FORK", "SUB_WORKFLOW", "SUB_WORKFLOW", "JOIN"]
        assert sorted(found["output"]) == ["_df_0", "_df_1"]

    async def test_a_dynamic_task(self, play: Play) -> None:
        given = {"what": "${workflow.input.what}", "a": 1}
        await play.define("flow", play.task("d", "DYNAMIC", dynamicTaskNameParam="what", inputParameters=given))
        name = play.bench.named("work")
        workflow = await play.start("flow", what=name)
        assert (await play.do("work"))["inputData"] == {"what": name, "a": 1}
        (task,) = (await play.ended(workflow, "COMPLETED"))["tasks"]
        assert (task["taskType"], task["taskDefName"], task["workflowTask"]["type"]) == (name, name, "DYNAMIC")
        nameless = await play.ended(await play.start("flow"), "FAILED")
        assert nameless["tasks"] == []
        assert "Cannot map a dynamic task based on the parameter and input" in nameless["reasonForIncompletion"]

    @pytest.mark.parametrize(("value", "joined"), [("a", "a"), ("b", "b"), ("c", "first")])
    async def test_an_exclusive_join(self, play: Play, value: str, joined: str) -> None:
        chosen = play.task(
            "s",
            "SWITCH",
            evaluatorType="value-param",
            expression="v",
            inputParameters={"v": "${workflow.input.v}"},
            decisionCases={"a": [play.simple("a")], "b": [play.simple("b")]},
            defaultCase=[],
        )
        lists = {"joinOn": ["a", "b"], "defaultExclusiveJoinTask": ["first"]}
        await play.define("flow", play.simple("first"), chosen, play.task("e", "EXCLUSIVE_JOIN", **lists))
        workflow = await play.start("flow", v=value)
        await play.do("first")
        if joined != "first":
            await play.do(joined)
        found = await play.ended(workflow, "COMPLETED")
        assert (last(found, "e") or {})["outputData"] == {"did": joined}

    async def test_a_join_behind_a_task_that_is_no_fork(self, play: Play) -> None:
        await play.define("flow", play.simple("a"), play.task("j", "JOIN", joinOn=["a"]), play.simple("z"))
        workflow = await play.start("flow")
        await play.do("a")
        await play.do("z")
        found = await play.ended(workflow, "COMPLETED")
        assert found["tasks"][1]["outputData"] == {"a": {"did": "a"}}

    async def test_a_fork_that_no_join_follows_is_registered_and_fails(self, play: Play) -> None:
        forking, _ = play.fork([play.simple("a")], [play.simple("b")], join_on=[])
        await play.define("flow", forking)
        found = await play.ended(await play.start("flow"), "FAILED")
        assert found["tasks"] == []
        assert "not followed by a join task" in found["reasonForIncompletion"]

    async def test_the_script_of_a_join_has_no_effect(self, play: Play) -> None:
        forking, joining = play.fork([play.simple("a")], [play.simple("b")], join_on=["a", "b"])
        script = {"joinMode": "SYNC", "evaluatorType": "javascript", "expression": "({x: 1})"}
        await play.define("flow", forking, {**joining, **script})
        workflow = await play.start("flow")
        for name in "ab":
            await play.do(name)
        found = await play.ended(workflow, "COMPLETED")
        assert found["output"] == {"a": {"did": "a"}, "b": {"did": "b"}}

    async def test_a_loop_through_a_list(self, play: Play) -> None:
        each = play.simple("a", inputParameters={"i": "${l.output.loopIndex}", "x": "${l.output.loopItem}"})
        loop = play.task("l", "DO_WHILE", items="${workflow.input.list}", loopCondition="true", loopOver=[each])
        await play.define("flow", loop)
        workflow = await play.start("flow", list=[10, "b"])
        assert [(await play.do("a"))["inputData"] for _ in range(2)] == [{"i": 0, "x": 10}, {"i": 1, "x": "b"}]
        found = await play.ended(workflow, "COMPLETED")
        assert found["tasks"][0]["outputData"] == {
            "iteration": 2,
            "loopIndex": 1,
            "loopItem": "b",
            "1": {"a": {"did": "a__1"}},
            "2": {"a": {"did": "a__2"}},
        }
        nothing = await play.ended(await play.start("flow", list=[]), "COMPLETED")
        assert nothing["tasks"][0]["outputData"] == {"iteration": 0}

    async def test_forks_switches_and_sub_workflows_in_a_loop(self, play: Play) -> None:
        await play.define("kid", play.simple("kid_work"))
        chosen = play.task(
            "s",
            "SWITCH",
            evaluatorType="value-param",
            expression="v",
            inputParameters={"v": "${l.output.iteration}"},
            decisionCases={"1": [play.simple("one")]},
            defaultCase=[play.simple("other")],
        )
        forked = play.fork([play.sub("k", "kid")], [play.simple("b")], join_on=["k", "b"])
        await play.define(
            "flow", play.task("l", "DO_WHILE", loopCondition="$.l['iteration'] < 2", loopOver=[*forked, chosen])
        )
        workflow = await play.start("flow")
        for name in ("kid_work", "b", "one", "kid_work", "b", "other"):
            await play.do(name)
        found = await play.ended(workflow, "COMPLETED")
        assert [ref for ref, _, _ in shape(found)] == [
            "l",
            *("fork__1", "k__1", "b__1", "join__1", "s__1", "one__1"),
            *("fork__2", "k__2", "b__2", "join__2", "s__2", "other__2"),
        ]

    async def test_a_loop_in_a_loop(self, play: Play) -> None:
        """Conductor 3.32.3 takes it and fails in the inner condition: Cannot read property 'iteration' of undefined."""
        inner = play.task("i", "DO_WHILE", loopCondition="$.i['iteration'] < 2", loopOver=[play.simple("a")])
        await play.define("flow", play.task("o", "DO_WHILE", loopCondition="$.o['iteration'] < 2", loopOver=[inner]))
        workflow = await play.start("flow")
        await play.do("a")
        if play.bench.target.plain:
            found = await play.ended(workflow, "FAILED")
            assert "Unable to evaluate condition $.i['iteration'] < 2" in found["reasonForIncompletion"]
            return
        assert [(await play.do("a"))["referenceTaskName"] for _ in range(3)] == ["a__1__2", "a__2__1", "a__2__2"]
        found = await play.ended(workflow, "COMPLETED")
        assert [ref for ref, _, _ in shape(found)] == ["o", "i__1", "a__1__1", "a__1__2", "i__2", "a__2__1", "a__2__2"]

    async def test_what_a_sub_workflow_task_says_of_its_workflow(self, play: Play) -> None:
        await play.define("kid", play.simple("work"), version=1)
        await play.define("kid", play.simple("work"), version=2)
        keyed = {"name": play.bench.named("kid"), "idempotencyKey": "k-${workflow.input.n}"}
        await play.define("flow", play.task("s", "SUB_WORKFLOW", subWorkflowParam=keyed))
        workflow = await play.start("flow", n=4)
        task = await play.task_is(workflow, "s", "IN_PROGRESS")
        assert (task["inputData"]["subWorkflowVersion"], task["inputData"]["idempotencyKey"]) == (2, "k-4")
        assert task["workflowTask"]["subWorkflowParam"]["version"] == 2
        definition = (await play.workflow(workflow))["workflowDefinition"]
        assert definition["tasks"][0]["subWorkflowParam"]["version"] == 2

    async def test_a_wait_shows_how_long_it_waits(self, play: Play) -> None:
        await play.define("flow", play.task("w", "WAIT", inputParameters={"duration": "3600 seconds"}))
        task = await play.task_is(await play.start("flow"), "w", "IN_PROGRESS")
        assert task["callbackAfterSeconds"] == 3600

    async def test_the_version_of_a_failure_workflow(self, play: Play) -> None:
        await play.types("work")
        await play.define("cleanup", play.simple("one"), version=1)
        await play.define("cleanup", play.simple("two"), version=2)
        named = {"failureWorkflow": play.bench.named("cleanup"), "failureWorkflowVersion": 1}
        await play.define("flow", play.simple("work"), **named)
        workflow = await play.start("flow")
        await play.do("work", "FAILED")
        await play.ended(workflow, "FAILED")
        await play.do("one")


class Family:
    """A fork of two sub-workflows and a task. F fails in `f`; C has done `a` and is cancelled in `b`; so is `sib`."""

    def __init__(self, play: Play) -> None:
        self.play = play
        self.parent = self.failed = self.cancelled = ""

    async def fail(self) -> dict[str, Any]:
        """Bring it to its failure; the parent as it was just before."""
        play = self.play
        await play.types("f", "a", "b", "sib")
        await play.define("F", play.simple("f"))
        await play.define("C", play.simple("a"), play.simple("b"))
        branches = [play.sub("subF", "F")], [play.sub("subC", "C")], [play.simple("sib")]
        await play.define("P", *play.fork(*branches, join_on=["subF", "subC", "sib"]))
        self.parent = await play.start("P")
        self.failed = (await play.task_is(self.parent, "subF", "IN_PROGRESS"))["subWorkflowId"]
        self.cancelled = (await play.task_is(self.parent, "subC", "IN_PROGRESS"))["subWorkflowId"]
        await play.do("a")
        await play.task_is(self.cancelled, "b", "SCHEDULED")
        before = await play.workflow(self.parent)
        await play.do("f", "FAILED")
        await play.ended(self.parent, "FAILED")
        await play.ended(self.failed, "FAILED")
        await play.ended(self.cancelled, "TERMINATED")
        return before

    async def check_goes_on(self, before: dict[str, Any]) -> None:
        """All are running again, in the tasks and the sub-workflows that they had."""
        play = self.play
        for ref in ("subF", "subC", "join"):
            await play.task_is(self.parent, ref, "IN_PROGRESS")
        await play.task_is(self.parent, "sib", *ACTIVE)
        found = await play.workflow(self.parent)
        assert found["status"] == "RUNNING"
        assert [one["taskId"] for one in found["tasks"]] == [one["taskId"] for one in before["tasks"]]
        assert (last(found, "subF") or {})["subWorkflowId"] == self.failed
        assert (last(found, "subC") or {})["subWorkflowId"] == self.cancelled
        await play.when(self.cancelled, lambda one: one["status"] == "RUNNING", "C to go on")

    async def check_done_once(self) -> None:
        for name in ("f", "b", "sib"):
            await self.play.do(name)
        for workflow in (self.failed, self.cancelled, self.parent):
            await self.play.ended(workflow, "COMPLETED")
        assert [ref for ref, _, _ in shape(await self.play.workflow(self.cancelled))].count("a") == 1


class TestRecovery:
    @pytest.mark.parametrize("how", ["of the child", "of the child in bulk", "of the parent"])
    async def test_a_retry_goes_on_in_place(self, play: Play, how: str) -> None:
        family = Family(play)
        before = await family.fail()
        if how == "of the child":
            await play.post(f"/workflow/{family.failed}/retry", 204)
        elif how == "of the child in bulk":
            await play.post("/workflow/bulk/retry", 200, json=[family.failed])
        else:
            resume = {"resumeSubworkflowTasks": "true"}
            await play.post(f"/workflow/{family.parent}/retry", 204, params=resume)
        await family.check_goes_on(before)
        assert shape(await play.workflow(family.failed)) == [("f", "FAILED", 0), ("f", "SCHEDULED", 1)]
        await family.check_done_once()

    async def test_a_retry_without_the_flag_begins_the_children_anew(self, play: Play) -> None:
        await play.types("f")
        await play.define("F", play.simple("f"))
        await play.define("P", play.sub("s", "F"))
        parent = await play.start("P")
        await play.do("f", "FAILED")
        first = (await play.ended(parent, "FAILED"))["tasks"][0]
        await play.post(f"/workflow/{parent}/retry", 204)
        await play.do("f")
        found = await play.ended(parent, "COMPLETED")
        assert shape(found) == [("s", "FAILED", 0), ("s", "COMPLETED", 1)]
        assert (found["tasks"][0]["taskId"], found["tasks"][0]["retried"]) == (first["taskId"], True)
        assert found["tasks"][1]["subWorkflowId"] != first["subWorkflowId"]

    @pytest.mark.parametrize("through_parent", [False, True])
    async def test_a_rerun_of_a_childs_task_keeps_its_id(self, play: Play, through_parent: bool) -> None:
        family = Family(play)
        before = await family.fail()
        failed = (await play.workflow(family.failed))["tasks"][0]["taskId"]
        asked = {"reRunFromWorkflowId": family.failed, "reRunFromTaskId": failed}
        target = family.parent if through_parent else family.failed
        answer = await play.post(f"/workflow/{target}/rerun", 200, json=asked)
        assert answer.text == target
        await family.check_goes_on(before)
        (task,) = (await play.workflow(family.failed))["tasks"]
        assert (task["taskId"], task["status"], task["retryCount"]) == (failed, "SCHEDULED", 0)
        await family.check_done_once()

    async def test_a_rerun_with_another_input_and_correlation_id(self, play: Play) -> None:
        await play.define("flow", play.simple("a"), play.simple("b"), play.simple("c"))
        workflow = await play.start("flow")
        for name in "abc":
            await play.do(name)
        before = await play.ended(workflow, "COMPLETED")
        asked = {"reRunFromTaskId": before["tasks"][1]["taskId"], "taskInput": {"x": 2}, "correlationId": "new"}
        await play.post(f"/workflow/{workflow}/rerun", 200, json=asked)
        task = await play.do("b")
        assert (task["taskId"], task["inputData"]) == (before["tasks"][1]["taskId"], {"x": 2})
        await play.do("c")
        found = await play.ended(workflow, "COMPLETED")
        assert found["correlationId"] == "new"
        assert [ref for ref, _, _ in shape(found)] == ["a", "b", "c"]
        assert found["tasks"][0]["taskId"] == before["tasks"][0]["taskId"]

    async def test_a_rerun_from_the_beginning_and_a_restart_on_the_latest_definition(self, play: Play) -> None:
        await play.define("flow", play.simple("a"), version=1)
        workflow = await play.start("flow")
        first = await play.do("a")
        await play.ended(workflow, "COMPLETED")
        await play.post(f"/workflow/{workflow}/rerun", 200, json={"workflowInput": {"n": 2}})
        second = await play.do("a")
        assert second["taskId"] != first["taskId"]
        found = await play.ended(workflow, "COMPLETED")
        assert (found["input"], shape(found)) == ({"n": 2}, [("a", "COMPLETED", 0)])
        await play.define("flow", play.simple("z"), version=2)
        await play.post(f"/workflow/{workflow}/restart", 204, params={"useLatestDefinitions": "true"})
        await play.do("z")
        found = await play.ended(workflow, "COMPLETED")
        assert (found["workflowVersion"], shape(found)) == (2, [("z", "COMPLETED", 0)])

    async def test_a_wait_is_rerun_under_its_id(self, play: Play) -> None:
        await play.define("flow", play.task("w", "WAIT", inputParameters={"duration": "3600 seconds"}))
        workflow = await play.start("flow")
        task = await play.task_is(workflow, "w", "IN_PROGRESS")
        await play.http.delete(f"/workflow/{workflow}")
        await play.ended(workflow, "TERMINATED")
        await play.post(f"/workflow/{workflow}/rerun", 200, json={"reRunFromTaskId": task["taskId"]})
        again = await play.task_is(workflow, "w", *ACTIVE)
        assert (again["taskId"], again["callbackAfterSeconds"]) == (task["taskId"], 3600)
