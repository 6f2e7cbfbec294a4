"""The validation of workflow definitions: each mistake is named with its path."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductor.coordinator.definitions.validation import MAX_NESTING, find_definition_warnings, validate_definition
from conductor.coordinator.definitions.workflow_plan import TASK_TYPES, WorkflowPlan
from conductor.coordinator.language import script_engines
from conductor.coordinator.language.durations import parse_until_ms
from conductor.coordinator.request_errors import ApiError
from tests.unit.coordinator.core_harness import Harness, simple
from tests.unit.coordinator.decider_harness import fork, loop, switch, task


def problems(*tasks: Any, **fields: Any) -> list[tuple[str, str]]:
    return [(one[0], one[1]) for one in validate_definition({"name": "flow", "tasks": list(tasks), **fields})]


def only(*tasks: Any, **fields: Any) -> tuple[str, str]:
    (found,) = problems(*tasks, **fields)
    return found


def test_a_definition_with_everything_in_it_is_good() -> None:
    inline = {"name": "inner", "tasks": [task("x", inputParameters={"a": "${workflow.input.a}"})]}
    everything = [
        task("a", inputParameters={"x": "${workflow.input.x}", "later": "${b.output.y}"}),
        switch("s", "${a.output.k}", {"x": [task("b")], "empty": []}, [task("c")]),
        *fork("f", [task("d"), task("e")], [switch("s2", "1", {"1": [task("g")]})], join_on=["e", "g"]),
        loop("l", "$.l.iteration < 3 && $.h.more", task("h", inputParameters={"last": "${h.output.x}"})),
        task("v", "SET_VARIABLE", inputParameters={"v": "${h__1.output.x}"}),
        task("w", "WAIT", inputParameters={"duration": "${workflow.input.d}"}),
        task("sub", "SUB_WORKFLOW", subWorkflowParam={"name": "inner", "workflowDefinition": inline}),
        task("t", "TERMINATE", inputParameters={"terminationStatus": "${workflow.input.s}"}),
    ]
    assert problems(*everything, schemaVersion=2, outputParameters={"o": "${l.output.iteration}"}) == []
    # Values that other clients send for fields that do not matter to a type.
    sent = task(
        "q", decisionCases={}, defaultCase=[], forkTasks=[], loopOver=[], joinOn=[], onStateChange={}, sink=None
    )
    assert problems(sent, failureWorkflow=None, timeoutPolicy="TIME_OUT_WF", timeoutSeconds=0, version=3) == []
    WorkflowPlan({"name": "flow", "tasks": [sent]})


def test_an_unsupported_type_is_refused_by_name_with_a_way_out() -> None:
    path, message = only(task("ok"), task("send", "KAFKA_PUBLISH"))
    assert path == "tasks[1].type"
    assert message == (
        "task type KAFKA_PUBLISH of 'send' is not supported by the coordinator: "
        "use a SIMPLE task and a worker that does it"
    )


@pytest.mark.parametrize("kind", ["HTTP_POLL", "JDBC", "LLM_CHAT_COMPLETE", "GENERATE_IMAGE", "AGENT", "CALL_MCP_TOOL"])
def test_task_types_that_only_relatives_of_conductor_have_are_refused(kind: str) -> None:
    assert f"task type {kind} of 'it' is not supported" in only(task("it", kind))[1]


@pytest.mark.parametrize(
    ("kind", "package"),
    [("INLINE", "quickjs-ng"), ("LAMBDA", "quickjs-ng"), ("JSON_JQ_TRANSFORM", "jq"), ("SWITCH", "quickjs-ng")],
)
def test_a_task_type_that_needs_a_missing_package_is_refused_with_the_install_command(
    kind: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script_engines, "engine_files", dict)
    given = {"expression": "f()", "queryExpression": ".", "scriptExpression": "return 1"}
    fields = (
        {"evaluatorType": "javascript", "expression": "f()", "decisionCases": {"a": []}} if kind == "SWITCH" else {}
    )
    message = only(task("it", kind, inputParameters=given, **fields))[1]
    assert f"needs {package}, which is not installed: pip install 'conductor-worker[server]'" in message


def test_a_type_that_somebody_made_up_is_for_workers_of_that_name() -> None:
    made_up = task("u", "USER_TASK")
    assert problems(made_up) == []
    node = WorkflowPlan({"name": "flow", "tasks": [made_up]}).nodes["u"]
    assert (node.type, node.name) == ("SIMPLE", "USER_TASK")


@pytest.mark.parametrize(
    ("definition", "path", "said"),
    [
        (5, "", "JSON object"),
        ({"tasks": [task("a")]}, "name", "cannot be null or empty"),
        ({"name": " ", "tasks": [task("a")]}, "name", "cannot be null or empty"),
        ({"name": "x"}, "tasks", "list of tasks"),
        ({"name": "x", "tasks": []}, "tasks", "at least one task"),
        ({"name": "x", "tasks": {"a": 1}}, "tasks", "not an object"),
        ({"name": "x", "tasks": [task("a")], "schemaVersion": 1}, "schemaVersion", "only 2"),
        ({"name": "x", "tasks": [task("a")], "version": 0}, "version", "from 1 to"),
        ({"name": "x", "tasks": [task("a")], "timeoutSeconds": -1}, "timeoutSeconds", "from 0 to"),
        ({"name": "x", "tasks": [task("a")], "timeoutPolicy": "RETRY"}, "timeoutPolicy", "'RETRY'"),
        ({"name": "x", "tasks": [task("a")], "outputParameters": []}, "outputParameters", "not a list"),
        ({"name": "x", "tasks": [task("a")], "failureWorkflow": 1}, "failureWorkflow", "name of a workflow"),
        ({"name": "x", "tasks": [task("a")], "rateLimitConfig": {"x": 1}}, "rateLimitConfig.x", "not supported"),
        ({"name": "x", "tasks": [task("a")], "rateLimitConfig": 1}, "rateLimitConfig", "JSON object"),
        (
            {"name": "x", "tasks": [task("a")], "rateLimitConfig": {"concurrentExecLimit": -1}},
            "rateLimitConfig.concurrentExecLimit",
            "from 0 to",
        ),
        (
            {"name": "x", "tasks": [task("a")], "rateLimitConfig": {"rateLimitKey": 5}},
            "rateLimitConfig.rateLimitKey",
            "must be a text",
        ),
        (
            {"name": "x", "tasks": [task("a")], "rateLimitConfig": {"rateLimitKey": "${a.output.key}"}},
            "rateLimitConfig.rateLimitKey",
            "unknown when a workflow starts",
        ),
        (
            {"name": "x", "tasks": [task("a")], "rateLimitConfig": {"policy": "WAIT"}},
            "rateLimitConfig.policy",
            "QUEUE, REJECT",
        ),
        ({"name": "x", "tasks": ["a"]}, "tasks[0]", "not a string"),
    ],
)
def test_mistakes_of_the_workflow_itself_are_named(definition: Any, path: str, said: str) -> None:
    (problem,) = validate_definition(definition)
    assert problem.path == path
    assert said in problem.message


@pytest.mark.parametrize(
    ("bad", "path", "said"),
    [
        ({"taskReferenceName": "a"}, "tasks[0].name", "name cannot be empty"),
        ({"name": "a"}, "tasks[0].taskReferenceName", "cannot be empty"),
        (task("workflow"), "tasks[0].taskReferenceName", "is reserved"),
        (task("a", inputParameters=[1]), "tasks[0].inputParameters", "not a list"),
        (task("a", retryCount=-1), "tasks[0].retryCount", "from 0 to"),
        (task("a", startDelay="soon"), "tasks[0].startDelay", "'soon'"),
        (task("a", optional="yes"), "tasks[0].optional", "true or false"),
        (task("a", onStateChange=5), "tasks[0].onStateChange", "JSON object"),
        (task("a", ["HTTP"]), "tasks[0].type", "not supported"),  # type: ignore[arg-type]
        (
            task("a", inputParameters={"x": ["${b.output.y}"]}),
            "tasks[0].inputParameters.x[0]",
            "not a task of this workflow",
        ),
        (
            task("a", inputParameters={"x": "${a.output[?(@.y]}"}),
            "tasks[0].inputParameters.x",
            "not understood",
        ),
        (task("a", inputParameters={"x": "${a__1.output}"}), "tasks[0].inputParameters.x", "not a task"),
        # SWITCH and DECISION
        (task("s", "SWITCH", expression="x", decisionCases={"a": []}), "tasks[0].evaluatorType", "is required"),
        (
            task("s", "SWITCH", evaluatorType="value-param", decisionCases={"a": []}),
            "tasks[0].expression",
            "is required",
        ),
        (task("s", "SWITCH", evaluatorType="value-param", expression="x"), "tasks[0].decisionCases", "is required"),
        (
            task("s", "SWITCH", evaluatorType="python", expression="x", decisionCases={"a": []}),
            "tasks[0].evaluatorType",
            "evaluatorType python of SWITCH 's' is not supported by the coordinator; supported: value-param",
        ),
        (
            task("s", "SWITCH", evaluatorType="javascript", expression=["f($.x)"], decisionCases={"a": []}),
            "tasks[0].expression",
            "written as a text",
        ),
        (switch("s", "1", {"x": [task("a", "JDBC")]}), "tasks[0].decisionCases.x[0].type", "JDBC"),
        (task("h", "HTTP"), "tasks[0].inputParameters", "http_request or inputParameters.uri field is required"),
        (
            task("h", "HTTP", inputParameters={"http_request": {"uri": "x", "vipAddress": "y"}}),
            "tasks[0].inputParameters.vipAddress",
            "write the address of the service into uri",
        ),
        (
            task("h", "HTTP", inputParameters={"http_request": {"uri": "x", "hedgingConfig": {"maxAttempts": 2}}}),
            "tasks[0].inputParameters.hedgingConfig",
            "retryCount",
        ),
        (
            task("i", "INLINE", inputParameters={"evaluatorType": "python", "expression": "1"}),
            "tasks[0].inputParameters.evaluatorType",
            "evaluatorType python of INLINE 'i' is not supported by the coordinator; supported: value-param",
        ),
        (task("j", "JSON_JQ_TRANSFORM"), "tasks[0].inputParameters", "queryExpression field is required"),
        (task("e", "EVENT"), "tasks[0].sink", "sink field is required"),
        (switch("s", "1", {"x": 5}), "tasks[0].decisionCases.x", "list of tasks"),  # type: ignore[dict-item]
        (task("s", "DECISION", decisionCases={"a": []}), "tasks[0].caseValueParam", "is required"),
        # DO_WHILE
        (task("l", "DO_WHILE", loopCondition="true"), "tasks[0].loopOver", "is required"),
        (loop("l", "true", task("a"), items=[1]), "tasks[0].items", "an expression such as"),
        # JOIN, EXCLUSIVE_JOIN, FORK_JOIN_DYNAMIC, DYNAMIC
        (task("j", "JOIN", joinMode="LATER"), "tasks[0].joinMode", "SYNC, ASYNC"),
        (task("j", "EXCLUSIVE_JOIN"), "tasks[0].joinOn", "is required"),
        (
            task("j", "EXCLUSIVE_JOIN", joinOn=["a"], defaultExclusiveJoinTask=5),
            "tasks[0].defaultExclusiveJoinTask",
            "must be a list",
        ),
        (
            task("f", "FORK_JOIN_DYNAMIC", dynamicForkTasksParam="t"),
            "tasks[0].dynamicForkTasksInputParamName",
            "required",
        ),
        (task("f", "FORK_JOIN_DYNAMIC"), "tasks[0].dynamicForkJoinTasksParam", "is required"),
        (task("d", "DYNAMIC"), "tasks[0].dynamicTaskNameParam", "is required"),
        # SUB_WORKFLOW
        (task("s", "SUB_WORKFLOW"), "tasks[0].subWorkflowParam", "is required"),
        (
            task("s", "SUB_WORKFLOW", subWorkflowParam={"version": 1}),
            "tasks[0].subWorkflowParam.name",
            "cannot be null",
        ),
        (
            task(
                "s",
                "SUB_WORKFLOW",
                subWorkflowParam={"workflowDefinition": {"name": "x", "tasks": [task("a", "JDBC")]}},
            ),
            "tasks[0].subWorkflowParam.workflowDefinition.tasks[0].type",
            "JDBC",
        ),
        # TERMINATE and WAIT
        (task("t", "TERMINATE"), "tasks[0].inputParameters.terminationStatus", "COMPLETED, FAILED, TERMINATED"),
        (
            task("t", "TERMINATE", optional=True, inputParameters={"terminationStatus": "FAILED"}),
            "tasks[0].optional",
            "cannot be optional",
        ),
        (task("w", "WAIT", inputParameters={"duration": "soon"}), "tasks[0].inputParameters.duration", "'soon'"),
        (task("w", "WAIT", inputParameters={"until": "soon"}), "tasks[0].inputParameters.until", "'soon'"),
        (
            task("w", "WAIT", inputParameters={"until": "2030-01-01", "duration": "1s"}),
            "tasks[0].inputParameters",
            "Both",
        ),
    ],
)
def test_mistakes_of_one_task_are_named(bad: Any, path: str, said: str) -> None:
    found_path, message = only(bad)
    assert found_path == path
    assert said in message


def test_reference_names_are_unique_wherever_they_stand() -> None:
    path, message = only(task("a"), switch("s", "1", {"x": [task("b"), task("a")]}))
    assert path == "tasks[1].decisionCases.x[1].taskReferenceName"
    assert message == "taskReferenceName: a should be unique across tasks for a given workflow"


def test_an_output_may_name_a_task_that_nobody_knows_and_an_input_may_not() -> None:
    assert problems(task("a"), outputParameters={"x": "${made_at_run_time.output.k}"}) == []
    assert "is not a task" in only(task("a", inputParameters={"x": "${made_at_run_time.output.k}"}))[1]


def test_names_that_a_round_of_a_loop_will_have_are_taken() -> None:
    _, message = only(loop("l", "true", task("a")), task("a__2"))
    assert "'a__2' is the name of 'a' in an iteration" in message
    assert problems(task("a"), task("a__2")) == []
    _, message = only(loop("l", "true", loop("m", "true", task("a"))), task("a__2__3"))
    assert "'a__2__3' is the name of 'a' in an iteration" in message


def test_a_join_may_stand_anywhere_and_its_list_is_a_list() -> None:
    branching, joining = fork("f", [task("a")], [task("b")])
    assert problems(branching) == []
    assert problems(task("x"), {**joining, "joinOn": ["x"]}) == []
    assert problems(branching, task("x"), joining) == []
    assert "list of task reference names" in only(branching, {**joining, "joinOn": "a"})[1]
    assert "forkTasks field is required" in problems(task("f", "FORK_JOIN"), task("j", "JOIN"))[0][1]
    assert "list of lists" in problems(task("f", "FORK_JOIN", forkTasks=[[]]), task("j", "JOIN"))[0][1]


def test_names_in_an_inline_sub_workflow_are_its_own() -> None:
    inline = {"name": "x", "tasks": [task("a"), task("b", inputParameters={"x": "${a.output.x}"})]}
    assert problems(task("a"), task("s", "SUB_WORKFLOW", subWorkflowParam={"workflowDefinition": inline})) == []
    inline["tasks"][1]["inputParameters"] = {"x": "${s.output}"}  # type: ignore[index]
    outer = {"name": "flow", "tasks": [task("s", "SUB_WORKFLOW", subWorkflowParam={"workflowDefinition": inline})]}
    assert validate_definition(outer) == []
    assert [found.path for found in find_definition_warnings(outer)] == [
        "tasks[0].subWorkflowParam.workflowDefinition.tasks[1].inputParameters.x"
    ]


def test_nesting_has_an_end() -> None:
    nested: Any = task("t")
    for depth in range(MAX_NESTING + 5):
        nested = switch(f"s{depth}", "1", {"1": [nested]})
    assert "nested more than" in only(nested)[1]
    inline: dict[str, Any] = {"name": "x", "tasks": [task("a")]}
    for _ in range(MAX_NESTING + 5):
        inline = {"name": "x", "tasks": [task("s", "SUB_WORKFLOW", subWorkflowParam={"workflowDefinition": inline})]}
    assert "nested more than" in validate_definition(inline)[0].message
    deep: Any = "${a.output}"
    for _ in range(900):
        deep = [deep]
    assert problems(task("a", inputParameters={"x": deep})) == []


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["${a.output}", "${"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
fields = st.sampled_from(
    ["name", "taskReferenceName", "inputParameters", "decisionCases", "defaultCase", "forkTasks", "joinOn", "loopOver"]
    + ["loopCondition", "evaluatorType", "expression", "subWorkflowParam", "optional", "retryCount", "caseValueParam"]
)
odd_tasks = st.builds(
    lambda kind, extra: {"name": "a", "taskReferenceName": "a", "type": kind, **extra},
    st.sampled_from(TASK_TYPES) | json_values,
    st.dictionaries(fields, json_values, max_size=6),
)


@given(json_values | st.lists(odd_tasks, max_size=3).map(lambda tasks: {"name": "flow", "tasks": tasks}))
def test_anything_is_judged_and_what_passes_can_be_planned(definition: Any) -> None:
    if not validate_definition(definition):
        WorkflowPlan(definition)


class TestWhatOtherTypesHave:
    """A task may carry fields of other types, as generated definitions do: they mean nothing, whatever is in them."""

    @pytest.mark.parametrize("field", ["forkTasks", "decisionCases", "defaultCase", "loopOver"])
    @pytest.mark.parametrize("value", ["text", 1.5, ["text"], {"a": "b"}, [{"name": "x", "taskReferenceName": "one"}]])
    def test_fields_of_other_task_types_are_ignored(self, harness: Harness, field: str, value: Any) -> None:
        harness.workflow_def("flow", {**simple("work", "one"), field: value})
        workflow = harness.start("flow")
        harness.report(harness.poll_one())
        assert harness.workflow(workflow)["status"] == "COMPLETED"

    def test_an_embedded_task_definition_is_checked_when_the_workflow_is_registered(self, harness: Harness) -> None:
        with pytest.raises(ApiError) as refused:
            harness.workflow_def("flow", {**simple("work"), "taskDefinition": {"retryCount": -1}})
        assert refused.value.status == 400
        assert "taskDefinition of work" in str(refused.value.body())

    def test_a_case_without_tasks_may_be_null(self, harness: Harness) -> None:
        switch = {"name": "s", "taskReferenceName": "s", "type": "SWITCH", "evaluatorType": "value-param"}
        harness.workflow_def("flow", {**switch, "expression": "x", "decisionCases": {"a": None}})
        assert harness.workflow(harness.start("flow"))["status"] == "COMPLETED"


def test_an_offset_beyond_a_day_is_no_time_zone() -> None:
    with pytest.raises(ValueError, match="is not a time zone; write for example"):
        parse_until_ms("2025-12-31 23:59 +99:99")
