"""Likely mistakes in valid definitions: each is named, and correct definitions cause no warning."""

from __future__ import annotations

from typing import Any

from conductor.client.http.models.sub_workflow_params import SubWorkflowParams
from conductor.client.http.models.workflow_def import WorkflowDef
from conductor.client.http.models.workflow_task import WorkflowTask
from conductor.coordinator.definitions.likely_mistakes import (
    SUB_WORKFLOW_FIELDS,
    TASK_DEF_FIELDS,
    TASK_FIELDS,
    WORKFLOW_FIELDS,
    find_likely_mistakes,
    find_scripts,
    find_similar_fields,
)
from conductor.coordinator.definitions.workflow_defs import check_workflow_def, find_circles, put_workflow_def
from conductor.coordinator.definitions.workflow_plan import TASK_TYPES
from conductor.coordinator.limits import MAX_SUB_WORKFLOWS_CHECKED
from conductor.coordinator.system.script_runner import ScriptRunner
from conductor.coordinator.system.script_task import find_syntax_errors
from tests.unit.coordinator.core_harness import Harness
from tests.unit.coordinator.decider_harness import fork, loop, switch, task


def mistakes(*tasks: Any, **fields: Any) -> list[str]:
    definition = check_workflow_def({"name": "flow", "tasks": list(tasks), **fields})
    return [f"{path}: {message}" for path, message in find_likely_mistakes(definition)]


def reading(name: str) -> dict[str, Any]:
    return task("t", inputParameters={"x": f"${{workflow.input.{name}}}"})


def test_a_fork_without_a_join_is_named_also_inside_a_branch_u4_55() -> None:
    inner = fork("inner", [task("c")])[:1]
    assert mistakes(*fork("f", [task("a"), *inner], [task("b")])[:1], task("z")) == [
        "f: no JOIN follows FORK_JOIN 'f', so the workflow fails there; add a JOIN after it",
        "inner: no JOIN follows FORK_JOIN 'inner', so the workflow fails there; add a JOIN after it",
    ]
    assert mistakes(*fork("f", [task("a")], [task("b")]), task("z")) == []


def test_a_join_on_an_unknown_task_is_named_u4_56() -> None:
    assert mistakes(*fork("f", [task("pack_it")], [task("b")], join_on=["pack_ti", "b"])) == [
        (
            "f_join.joinOn: joinOn names 'pack_ti', which is not a task of this workflow, so the JOIN cannot "
            "complete; did you mean 'pack_it'?"
        )
    ]
    assert mistakes(*fork("f", [task("a")], [task("b")], join_on=["a", "bb"])) == [
        (
            "f_join.joinOn: joinOn names 'bb', which is not a task of this workflow, so the JOIN cannot complete; "
            "there are a, b, f"
        )
    ]
    dynamic = task("d", "FORK_JOIN_DYNAMIC", inputParameters={"forkTaskName": "x", "forkTaskInputs": []})
    assert mistakes(dynamic, task("j", "JOIN", joinOn=["made_at_run_time"])) == []


def test_a_type_one_letter_away_from_a_known_one_is_named_u4_57() -> None:
    for wrong, meant in (
        ("SIMPEL", "SIMPLE"),
        ("SIMLE", "SIMPLE"),
        ("HTPP", "HTTP"),
        ("http", "HTTP"),
        ("SWTICH", "SWITCH"),
    ):
        assert mistakes(task("a", wrong)) == [
            f"a.type: '{wrong}' is a custom task type, which needs a worker of that name; did you mean '{meant}'?"
        ]
    for custom in ("USER_TASK", "SEND_MAIL", "SWEEP", "HTTP_CALL"):
        assert mistakes(task("a", custom)) == []


def test_an_unknown_field_that_is_similar_to_a_known_one_is_named_u4_58() -> None:
    wrong = {**task("a"), "inputParams": {"x": 1}, "start_delay": 3, "note": "mine"}
    assert mistakes(wrong, outputParams={"y": 1}) == [
        "outputParams: there is no field 'outputParams', so it has no effect; did you mean 'outputParameters'?",
        "a.inputParams: there is no field 'inputParams', so it has no effect; did you mean 'inputParameters'?",
        "a.start_delay: there is no field 'start_delay', so it has no effect; did you mean 'startDelay'?",
    ]
    assert [where for where, _ in find_similar_fields({"retrycount": 3, "team": "x"}, TASK_DEF_FIELDS, "t.")] == [
        "t.retrycount"
    ]


def test_every_field_of_the_models_is_known() -> None:
    for model, fields in (
        (WorkflowDef, WORKFLOW_FIELDS),
        (WorkflowTask, TASK_FIELDS),
        (SubWorkflowParams, SUB_WORKFLOW_FIELDS),
    ):
        assert set(model.__struct_encode_fields__) <= fields
    assert all(not mistakes(task("a", kind)) for kind in ("NOOP", "HUMAN", "WAIT") if kind in TASK_TYPES)


def test_an_undeclared_input_is_named_u4_62() -> None:
    schema = {"name": "s", "version": 1, "type": "JSON", "data": {"properties": {"name": {}}}}
    assert mistakes(reading("nmae.first"), inputParameters=["name"]) == [
        "t.inputParameters.x: the workflow declares no input 'nmae', but reads it; did you mean 'name'?"
    ]
    assert mistakes(reading("typo"), inputParameters=["name"]) == [
        "t.inputParameters.x: the workflow declares no input 'typo', but reads it; declared are name"
    ]
    both = {"outputParameters": {"n": "${workflow.input.name}"}}
    assert len(mistakes(reading("more"), inputSchema=schema, **both)) == 1
    assert mistakes(reading("more"), inputParameters=["name"], **both) == []
    assert mistakes(reading("more"), inputParameters=["name"], outputParameters={"all": "${workflow.input}"}) == []
    assert mistakes(reading("typo")) == []


def test_a_misspelt_name_in_an_expression_is_named() -> None:
    for text, wrong, meant in (
        ("${workflow.secret.KEY}", "secret", "secrets"),
        ("${workflow.inputs.name}", "inputs", "input"),
        ("${workflow.variable.n}", "variable", "variables"),
        ("${workflow.variables.atempts}", "atempts", "attempts"),
        ("${a.outputs.x}", "outputs", "output"),
        ("${a.ouput['x']}", "ouput", "output"),
    ):
        where = task("t", inputParameters={"x": text})
        assert mistakes(task("a"), where, variables={"attempts": 1}) == [
            f"t.inputParameters.x: {text} is null, because there is no '{wrong}'; did you mean '{meant}'?"
        ]
    assert mistakes(task("pack_it"), outputParameters={"x": "${pack_ti.output.x}"}) == [
        "outputParameters.x: ${pack_ti.output.x} is null, because there is no 'pack_ti'; did you mean 'pack_it'?"
    ]


def test_an_expression_that_may_have_a_value_is_not_named() -> None:
    texts = ["${workflow.secrets.KEY}", "${workflow.correlationId}", "${a.status}", "${a.output.outputs}", "${a}"]
    texts += ["${workflow.input.inputs}", "${workflow.variables.unknown}", "${a[0]}", "${CPEWF_TASK_ID}"]
    assert mistakes(task("a"), task("t", inputParameters={"x": texts}), outputParameters={"x": "${b.output}"}) == []
    body = loop("again", "false", task("a"))
    assert mistakes(body, outputParameters={"x": "${a__1.output.x}"}) == []
    dynamic = task("d", "FORK_JOIN_DYNAMIC", inputParameters={"forkTaskName": "x", "forkTaskInputs": []})
    output = {"x": "${resize_2.output.x}"}
    assert mistakes(task("resize_1"), dynamic, task("j", "JOIN"), outputParameters=output) == []


def test_a_switch_on_an_input_that_it_does_not_have_is_named() -> None:
    choose = {"evaluatorType": "value-param", "expression": "kind", "decisionCases": {"a": [task("a")]}}
    for given, advice in (({"kinds": 1}, "; did you mean 'kinds'?"), ({}, "")):
        assert mistakes(task("sw", "SWITCH", inputParameters=given, **choose)) == [
            "sw.expression: 'kind' is not in inputParameters, so the switch always takes the default case" + advice
        ]
    assert mistakes(task("sw", "SWITCH", inputParameters={"kind": 1}, **choose)) == []


def test_mistakes_in_an_inline_sub_workflow_are_named_with_their_place() -> None:
    inline = {"name": "inner", "tasks": [task("x", "SIMPEL")]}
    (found,) = mistakes(task("s", "SUB_WORKFLOW", subWorkflowParam={"name": "inner", "workflowDefinition": inline}))
    assert found.startswith("s.subWorkflowParam.workflowDefinition.x.type: ")


def call(ref: str, name: str, version: int | None = None) -> dict[str, Any]:
    return task(ref, "SUB_WORKFLOW", subWorkflowParam={"name": name, "version": version})


def test_a_direct_circle_of_sub_workflows_is_named_when_it_is_closed_u4_53(harness: Harness) -> None:
    def register(name: str, *tasks: Any, version: int = 1) -> list[str]:
        definition = check_workflow_def({"name": name, "version": version, "tasks": list(tasks)})
        harness.store.call(lambda tx: put_workflow_def(tx, definition, overwrite=True))
        return harness.store.call(lambda tx: find_circles(tx, definition))

    (found,) = register("a", call("again", "a"))
    assert found.startswith("again: the sub-workflows are a circle without a condition (a → a), so the workflow fails")
    assert register("b", call("to_c", "c")) == []
    (found,) = register("c", *fork("both", [call("to_b", "b")], [task("other")]))
    assert found.startswith("to_b: ")
    assert "(c → b → c)" in found
    assert register("d", switch("how", "1", {"more": [call("deeper", "d")]})) == []
    assert (
        register(
            "e",
            switch(
                "how", "1", {"done": [task("end", "TERMINATE", inputParameters={"terminationStatus": "COMPLETED"})]}
            ),
            call("deeper", "e"),
        )
        == []
    )
    assert register("f", call("older", "f", 1), version=2) == []
    assert register("g", call("unknown", "nobody_registered_this")) == []


def test_a_longer_circle_is_named_when_it_is_closed_u4_53(harness: Harness) -> None:
    def register(name: str, *tasks: Any) -> list[str]:
        definition = check_workflow_def({"name": name, "tasks": list(tasks)})
        harness.store.call(lambda tx: put_workflow_def(tx, definition, overwrite=True))
        return harness.store.call(lambda tx: find_circles(tx, definition))

    assert register("a", call("to_b", "b"), call("to_c", "c")) == []
    assert register("b", call("to_c", "c")) == []
    assert register("c", call("to_d", "d")) == []
    (found,) = register("d", call("to_nobody", "nobody"), call("to_a", "a"))
    assert found == (
        "to_a: the sub-workflows are a circle without a condition (d → a → c → d), so the workflow fails when they "
        "are nested too deeply; put one of them into a SWITCH"
    )
    # A circle of other workflows is not a circle of this one, and the search ends.
    assert register("e", call("to_a", "a")) == []


def test_the_search_for_circles_reads_few_definitions(harness: Harness) -> None:
    def register(name: str, *tasks: Any) -> list[str]:
        definition = check_workflow_def({"name": name, "tasks": list(tasks)})
        harness.store.call(lambda tx: put_workflow_def(tx, definition, overwrite=True))
        return harness.store.call(lambda tx: find_circles(tx, definition))

    for at in range(MAX_SUB_WORKFLOWS_CHECKED + 1):
        register(f"w{at}", call("to_next", f"w{at + 1}"))
    assert register(f"w{MAX_SUB_WORKFLOWS_CHECKED + 1}", call("to_first", "w0")) == []
    assert register(f"w{MAX_SUB_WORKFLOWS_CHECKED}", call("to_first", "w0")) != []


def test_a_script_that_an_engine_cannot_parse_is_named_and_none_runs_u4_59() -> None:
    definition = check_workflow_def(
        {
            "name": "flow",
            "tasks": [
                task("bad", "INLINE", inputParameters={"expression": "$.x >"}),
                task("good", "INLINE", inputParameters={"expression": "(function () { return [1].map(x => x); })()"}),
                task("endless", "INLINE", inputParameters={"expression": "while (true) {}"}),
                task("later", "INLINE", inputParameters={"expression": "${workflow.input.script}"}),
                task("body", "LAMBDA", inputParameters={"scriptExpression": "return $.x;"}),
                loop("turns", "$.turns['iteration'] <", task("turn")),
                {**switch("how", "1", {"y": [task("yes")]}), "evaluatorType": "javascript", "expression": "$.x ==="},
                task("query", "JSON_JQ_TRANSFORM", inputParameters={"queryExpression": ".a |"}),
                task("fine", "JSON_JQ_TRANSFORM", inputParameters={"queryExpression": ".a | error # why"}),
            ],
        }
    )
    scripts = list(find_scripts(definition))
    runner = ScriptRunner()
    try:
        errors = find_syntax_errors(scripts, runner.run_quickly)
    finally:
        runner.close()
    wrong = {script.path: error for script, error in zip(scripts, errors, strict=True) if error}
    assert list(wrong) == [
        "bad.inputParameters.expression",
        "turns.loopCondition",
        "how.expression",
        "query.inputParameters.queryExpression",
    ]
    assert all("SyntaxError" in str(error) or "syntax error" in str(error) for error in wrong.values())
    assert "later.inputParameters.expression" not in {script.path for script in scripts}
