"""Workflows as Python blocks: the definitions they make, and the mistakes found while they are built."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from conductor.client.context.task_context import TaskContext, task_context
from conductor.client.http.models.task import Task
from conductor.client.workflow import (
    ConductorWorkflow,
    WorkflowError,
    add,
    each,
    fork,
    loop,
    set_variables,
    step,
    sub_workflow,
    switch,
    terminate,
    wait,
    workflow,
)
from conductor.client.workflow.task.do_while_task import DoWhileTask
from conductor.client.workflow.task.http_task import HttpTask
from conductor.client.workflow.task.inline import InlineTask
from conductor.client.workflow.task.join_task import JoinTask
from conductor.client.workflow.task.simple_task import SimpleTask
from tests.unit.workflow.order_workers import anything, charge, label, not_a_worker, notify, quote


def tasks_of(made: ConductorWorkflow) -> list[dict[str, Any]]:
    tasks: list[dict[str, Any]] = made.to_workflow_def().to_dict()["tasks"]
    return tasks


class TestSteps:
    def test_steps_are_calls_of_workers(self) -> None:
        with workflow("w", inputs={"sku": str}) as w:
            price = quote(sku=w.input("sku"))
            pay = charge(order_id="A", amount=price.output("total"))
            w.returns(receipt=pay.output("receipt"), price=pay.output("quotes[0].total"))
        assert tasks_of(w) == [
            {
                "name": "quote",
                "taskReferenceName": "quote",
                "type": "SIMPLE",
                "inputParameters": {"sku": "${workflow.input.sku}"},
            },
            {
                "name": "charge",
                "taskReferenceName": "charge",
                "type": "SIMPLE",
                "inputParameters": {"order_id": "A", "amount": "${quote.output.total}"},
            },
        ]
        assert w.to_workflow_def().output_parameters == {
            "receipt": "${charge.output.receipt}",
            "price": "${charge.output.quotes[0].total}",
        }
        assert w.to_workflow_def().input_parameters == ["sku"]

    def test_steps_stand_for_what_they_return(self) -> None:
        """A field by its name, what is no object as a whole."""
        with workflow("w") as w:
            price = quote("x")
            to = label(address="here")
            notify(to=to, text=f"{price.name} is {price['total']}")
        assert tasks_of(w)[2]["inputParameters"] == {
            "to": "${label.output.result}",
            "text": "${quote.output.name} is ${quote.output.total}",
        }

    def test_steps_get_names_of_their_own(self) -> None:
        with workflow("w") as w:
            notify(to="a")
            notify(to="b")
            step(notify, "last")(to="c")
            notify(to="d", task_ref_name="very_last")
        assert [task["taskReferenceName"] for task in tasks_of(w)] == ["notify", "notify_2", "last", "very_last"]

    def test_steps_can_be_made_without_a_block_from_references(self) -> None:
        w = ConductorWorkflow(None, "w")
        price = quote(sku=w.input("sku"))
        w >> price >> charge(order_id="A", amount=price.total)
        assert tasks_of(w)[1]["inputParameters"] == {"order_id": "A", "amount": "${quote.output.total}"}

    def test_a_step_below_the_block_of_its_inputs_is_named_u4_76(self) -> None:
        with workflow("w") as w:
            price = quote("x")
        sent = notify(to=price.name)
        with pytest.warns(
            UserWarning, match="step 'notify' refers to step 'quote', .* of workflow 'w'.*: indent"
        ) as seen:
            assert len(tasks_of(w)) == 1
        assert seen[0].filename == __file__
        del sent

    @pytest.mark.parametrize(
        ("text", "target"),
        [
            (lambda price, w: price.name, "step 'quote'"),
            (lambda price, w: w.input("to"), r"\$\{workflow.input.to\}"),
        ],
    )
    def test_a_step_below_the_block_is_named_also_if_its_result_is_dropped_u4_76(self, text: Any, target: str) -> None:
        with workflow("w") as w:
            price = quote("x")
        notify(to=text(price, w))
        with pytest.warns(UserWarning, match=f"step 'notify' refers to {target}, .* of workflow 'w'") as seen:
            tasks_of(w)
        assert [one.filename for one in seen] == [__file__]

    def test_a_step_that_is_added_below_the_block_is_not_named_u4_76(self, recwarn: pytest.WarningsRecorder) -> None:
        with workflow("w") as w:
            price = quote("x")
        w >> notify(to=price.name) >> [label(price.name), charge("A", price.total)]
        assert [task["name"] for task in tasks_of(w)] == ["quote", "notify", "forked_1"]
        assert not recwarn.list

    def test_steps_are_plain_calls_outside_of_workflows(self) -> None:
        assert quote("x").total == 10.0
        assert inspect.iscoroutine(pending := charge("A", 1.0))
        pending.close()

    def test_steps_are_plain_calls_inside_of_a_running_task(self) -> None:
        with workflow("w") as w, task_context(TaskContext(Task(task_id="t"))):
            assert quote("x").total == 10.0
            w.add(SimpleTask("a", "a"))

    def test_steps_of_the_classes_are_added_by_hand(self) -> None:
        with workflow("w") as w:
            page = add(HttpTask("page", {"uri": "http://x"}))
            notify(to=page.body("owner"))
            w >> SimpleTask("a", "a")
        assert [task["type"] for task in tasks_of(w)] == ["HTTP", "SIMPLE", "SIMPLE"]

    def test_steps_can_be_changed_after_they_were_made(self) -> None:
        with workflow("w") as w, fork() as branch:
            with branch():
                note = notify(to="a")
            with branch():
                notify(to="b")
        note.optional = True
        assert tasks_of(w)[0]["forkTasks"][0][0]["optional"] is True


class TestBlocks:
    def test_a_switch_block_makes_a_switch_task(self) -> None:
        with workflow("w") as w:
            pay = charge("A", 5.0)
            with switch(pay.status) as case:
                with case("paid"):
                    notify(to="shop")
                with case.otherwise():
                    terminate("FAILED", "refused", why=pay.receipt)
            with switch(script="$.n > 3 ? 'many' : 'few'", n=w.input("n")) as case, case("many"):
                notify(to="boss")
        first, second = tasks_of(w)[1:]
        assert first["inputParameters"] == {"switchCaseValue": "${charge.output.status}"}
        assert list(first["decisionCases"]) == ["paid"]
        assert first["defaultCase"][0]["inputParameters"]["workflowOutput"] == {"why": "${charge.output.receipt}"}
        assert second["evaluatorType"] == "graaljs"
        assert second["inputParameters"] == {"n": "${workflow.input.n}"}

    def test_fork_and_its_join_also_one_inside_of_another(self) -> None:
        with workflow("w") as w, fork("outer") as branch:
            with branch():
                notify(to="a")
                with fork("inner") as part:
                    with part():
                        notify(to="b")
                    with part():
                        notify(to="c")
            with branch():
                notify(to="d")
        outer, join = tasks_of(w)
        assert outer["forkTasks"][0][-1] == {
            "name": "inner_join",
            "taskReferenceName": "inner_join",
            "type": "JOIN",
            "inputParameters": {},
            "joinOn": ["notify_2", "notify_3"],
        }
        assert join["joinOn"] == ["inner_join", "notify_4"]

    def test_a_loop_block_makes_a_do_while_task(self) -> None:
        with workflow("w") as w:
            with loop(times=3) as again:
                notify(to=again.iteration)
            with loop(w.input("n"), task_ref_name="more"):
                notify(to="b")
            with loop(script="$.check['go'] == true", task_ref_name="while"):
                anything(task_ref_name="check")
        first, second, third = tasks_of(w)
        assert first["loopCondition"] == "if ( $.loop.iteration < 3 ) { true; } else { false; }"
        assert first["loopOver"][0]["inputParameters"] == {"to": "${loop.output.iteration}"}
        assert (second["loopCondition"], second["inputParameters"]) == (
            "$.more.iteration < $.times",
            {"times": "${workflow.input.n}"},
        )
        assert third["loopCondition"] == "$.check['go'] == true"

    def test_waits_variables_and_sub_workflows_are_steps(self) -> None:
        with workflow("child", inputs={"address": str}) as child:
            child.returns(label=label(address=child.input("address")))
        with workflow("w") as w:
            wait(timedelta(days=7))
            wait(until=datetime(2027, 1, 31, 9, 0, tzinfo=UTC))
            approval = wait(task_ref_name="approval")
            set_variables(who=approval.output("name"))
            parcel = child(address=w.variable("who"))
            sub_workflow("registered", 2, x=parcel.label)
        days, date, _, variables, inline, by_name = tasks_of(w)
        assert days["inputParameters"] == {"duration": "604800s"}
        assert date["inputParameters"] == {"until": "2027-01-31 09:00 UTC"}
        assert variables["inputParameters"] == {"who": "${approval.output.name}"}
        assert inline["subWorkflowParam"]["workflowDefinition"]["name"] == "child"
        assert inline["inputParameters"] == {"address": "${workflow.variables.who}"}
        assert by_name["subWorkflowParam"] == {"name": "registered", "version": 2}
        assert by_name["inputParameters"] == {"x": "${child.output.label}"}


@dataclass
class Result:
    receipt: str
    label: str | None = None


def built(mistake: Callable[[ConductorWorkflow], Any]) -> Callable[[], Any]:
    """A workflow with one mistake in its block."""

    def build() -> None:
        with workflow("w", inputs={"id": str, "sku": str}, returns=Result) as w:
            w.returns(receipt="r")
            mistake(w)

    return build


def empty_case(w: ConductorWorkflow) -> None:
    with switch(charge("A", 1.0).status) as case, case("paid"):
        pass


def impossible_case(w: ConductorWorkflow) -> None:
    with switch(charge("A", 1.0).status) as case, case("payed"):
        notify(to="a")


def same_case_twice(w: ConductorWorkflow) -> None:
    with switch(w.input("id")) as case:
        with case("a"):
            notify(to="a")
        with case("a"):
            notify(to="b")


def no_cases(w: ConductorWorkflow) -> None:
    with switch(w.input("id")):
        pass


def one_branch(w: ConductorWorkflow) -> None:
    with fork() as branch, branch():
        notify(to="a")


def empty_branch(w: ConductorWorkflow) -> None:
    with fork() as branch, branch():
        pass


def empty_loop(w: ConductorWorkflow) -> None:
    with loop(times=2):
        pass


def no_turns(w: ConductorWorkflow) -> None:
    with loop(times=0):
        notify(to="a")


def step_of_another(w: ConductorWorkflow) -> None:
    with workflow("other"):
        price = quote("x")
    charge("A", price.total)


def namesake_of_another(w: ConductorWorkflow) -> None:
    with workflow("other"):
        note = charge("B", 2.0)
    price = charge("A", 1.0)
    notify(to=f"{price.receipt}")
    w.returns(receipt=note.receipt)


def result_of_namesake(w: ConductorWorkflow) -> None:
    with workflow("other"):
        text = label(address="there")
    label(address=text)


def input_of_another(w: ConductorWorkflow) -> None:
    with workflow("other") as other:
        notify(to=other.input("sku"))
    notify(to=other.input("sku"))


def counted_item(w: Any) -> None:
    with loop(times=3) as again:
        notify(to=again.item)


def counted_index(w: Any) -> None:
    with loop(times=3) as again:
        notify(to=again.index)


def loop_as_value(w: Any) -> None:
    with loop(times=3) as again:
        notify(to=again)


def loop_script(w: Any) -> None:
    with loop(script="$.notfiy.to != $.last", last="a"):
        notify(to="a")


def broken_loop_script(w: Any) -> None:
    with loop(script="$.notify.x >"):
        notify(to="a")


def integer_case(w: Any) -> None:
    with workflow("counted", inputs={"n": int}) as counted, switch(counted.input("n")) as case, case("many"):
        notify(to="a")


def boolean_case(w: Any) -> None:
    with workflow("asked", inputs={"ok": bool}) as asked, switch(asked.input("ok")) as case:
        with case(True):
            notify(to="a")
        with case("yes"):
            notify(to="b")


def wrong_sub_workflow_input(w: ConductorWorkflow) -> None:
    with workflow("child", inputs={"address": str}) as child:
        label(address=child.input("address"))
    child(adress="here")


def wrong_sub_workflow_output(w: ConductorWorkflow) -> None:
    with workflow("child") as child:
        child.returns(label=label("here"))
    notify(to=child().lable)


def itself(w: ConductorWorkflow) -> None:
    notify(to="a")
    w()


#: A mistake, and what its message says.
MISTAKES: dict[str, tuple[Callable[[ConductorWorkflow], Any], str]] = {
    "an output that is not there": (
        lambda w: notify(to=charge("A", 1.0).output("reciept")),
        r"the output of 'charge' has no 'reciept'; did you mean 'receipt'\?",
    ),
    "an attribute that is not there": (lambda w: notify(to=quote("x").totl), r"has no 'totl'; did you mean 'total'\?"),
    "a part that is not there": (
        lambda w: charge("A", 1.0).output("quotes[0].tax"),
        "the output of 'charge' has no 'tax'; did you mean 'total'",
    ),
    "a field of what has no fields": (lambda w: label("x").output("text"), "has no 'text'; .*'result'"),
    "a parameter that is not there": (lambda w: quote(skuu="x"), r"has no parameter 'skuu'; did you mean 'sku'\?"),
    "a parameter that is missing": (lambda w: charge(order_id="A"), "'charge' needs 'amount'"),
    "too many arguments": (lambda w: quote("x", 1, 2), "'quote' takes 2 positional arguments, but 3 were passed"),
    "a value of the wrong type": (
        lambda w: charge("A", "much"),
        "'charge' rejects 'amount': expected float, got 'much'",
    ),
    "an output of the wrong type": (
        lambda w: charge("A", quote("x").name),
        "'charge' needs 'amount' as number, but .*quote.output.name.* is string",
    ),
    "an input that was not declared": (
        lambda w: quote(w.input("skuu")),
        r"the input of workflow 'w' has no 'skuu'; did you mean 'sku'\?",
    ),
    "two steps of one name": (
        lambda w: (notify(to="a", task_ref_name="n"), notify(to="b", task_ref_name="n")),
        "two steps with the name 'n': give one of them another task_ref_name",
    ),
    "an if": (lambda w: 1 if quote("x") else 2, r"'quote' has no value while the workflow is built.*switch\(...\)"),
    "a comparison": (lambda w: quote("x").total == 5, "has no value while the workflow is built"),
    "a sum": (lambda w: label("x") + "y", "has no value while the workflow is built"),
    "a for": (lambda w: list(quote("x")), "has no value while the workflow is built"),
    "a case that is empty": (empty_case, "case 'paid' of switch 'switch' has no steps"),
    "a case that never is": (impossible_case, r"is never 'payed'; did you mean 'paid'\?"),
    "the same case twice": (same_case_twice, "has two cases 'a'"),
    "a switch without cases": (no_cases, "switch 'switch' has no cases"),
    "a fork with one branch": (one_branch, "fork 'fork' has fewer than two branches"),
    "a branch that is empty": (empty_branch, "a branch of fork 'fork' has no steps"),
    "a loop that is empty": (empty_loop, "loop 'loop' has no steps"),
    "a loop of no turns": (no_turns, "loop 'loop' runs at least once, got 0"),
    "a step of another workflow": (
        step_of_another,
        "step 'charge' of workflow 'w' refers to step 'quote' of workflow 'other': return it there",
    ),
    "an output of another workflow with a step of that name (U4.75)": (
        namesake_of_another,
        "the output of workflow 'w' refers to step 'charge' of workflow 'other': return it there",
    ),
    "a result of another workflow with a step of that name (U4.75)": (
        result_of_namesake,
        "step 'label' of workflow 'w' refers to step 'label' of workflow 'other': return it there",
    ),
    "an input of another workflow (U4.75)": (
        input_of_another,
        r"step 'notify' of workflow 'w' refers to \$\{workflow.input.sku\} of workflow 'other': use an input of 'w'",
    ),
    "an input in a text that was not declared": (
        lambda w: notify(to="dear ${workflow.input.skuu}"),
        r"refers to \$\{workflow.input.skuu\}, but the input of workflow 'w' has no 'skuu'; did you mean 'sku'",
    ),
    "waiting for a text (U1.19)": (lambda w: wait("1h"), r"waits for a number of seconds or a timedelta.*got '1h'"),
    "negative retries": (lambda w: step(notify, retries=-1), "retries must be a whole number of at least 0, got -1"),
    "an input that a sub-workflow has not": (
        wrong_sub_workflow_input,
        r"has no parameter 'adress'; did you mean 'addre",
    ),
    "an output that a sub-workflow has not": (wrong_sub_workflow_output, r"has no 'lable'; did you mean 'label'\?"),
    "a workflow inside of itself": (itself, "workflow 'w' cannot contain itself"),
    "a variable that is never set": (lambda w: notify(to=w.variable("x")), "the variable 'x', which is never set"),
    "a function that is no worker": (lambda w: step(not_a_worker)(1), "not_a_worker is not a worker: decorate it"),
    "an ending that is none": (lambda w: terminate("RUNNING", "x"), "a workflow can end as COMPLETED, FAILED, TERMIN"),
    "waiting for two things": (lambda w: wait(5, until="2027-01-01"), "'wait' waits either for a duration or until"),
    "waiting for less than nothing": (lambda w: wait(-1), "'wait' cannot wait for -1 seconds"),
    "a choice that is none": (lambda w: switch("paid").__enter__(), "chooses by 'paid', which never changes"),
    "a for over each": (lambda w: list(each(w.input("sku"))), r"`for` cannot use each\(...\).*`with each\(...\) as"),
    "a for over a loop": (lambda w: list(loop(times=3)), r"`for` cannot use loop\(...\), which is a block"),
    "the element of a counted loop": (counted_item, "loop 'loop' goes through no list, so it has no item: use loop"),
    "the index of a counted loop": (counted_index, "loop 'loop' goes through no list, so it has no index"),
    "a list as the number of iterations": (
        lambda w: loop(charge("A", 1.0).quotes).__enter__(),
        r"is a whole number, but .*quotes\} is array; to go through a list, use loop\(items=...\)",
    ),
    "a loop as a value": (loop_as_value, "'to': step 'loop' is not a value: pass its `iteration`, `item` or `index`"),
    "a step as a value": (
        lambda w: notify(to=add(HttpTask("page", {"uri": "http://x"}))),
        "'to': step 'page' is not a value: pass a field of its output",
    ),
    "a case that is no integer": (integer_case, "is never 'many', because it is an integer"),
    "a case that is no boolean": (boolean_case, "is never 'yes'; there are 'false', 'true'"),
    "a script of a switch that reads another name": (
        lambda w: switch(script="$.m > 3 ? 'a' : 'b'", n=1).__enter__(),
        r"the script of switch 'switch' reads \$.m, which is not passed to it; there are 'n'",
    ),
    "a script of a loop that reads another name": (loop_script, r"script of loop 'loop' reads \$.notfiy, .*'notify'"),
    "a script of a switch that cannot be parsed (U4.72)": (
        lambda w: switch(script="$.n > ? 3", n=1).__enter__(),
        r"the script of switch 'switch' cannot be parsed: SyntaxError: .*: '\$.n > \? 3'",
    ),
    "a script of a loop that cannot be parsed (U4.72)": (
        broken_loop_script,
        r"the script of loop 'loop' cannot be parsed: SyntaxError: .*: '\$.notify.x >'",
    ),
    "an output without a name": (lambda w: w.returns(quote("x")), r"named values: write returns\(name=value\)"),
    "an output that was not declared": (
        lambda w: (notify(to="a"), w.output_parameter("reciept", 1)),
        r"workflow 'w' returns 'reciept', .*did you mean 'receipt'\?",
    ),
    "an output that is missing": (lambda w: (notify(to="a"), w.returns()), "workflow 'w' does not return 'receipt'"),
    "no steps": (lambda w: None, "workflow 'w' has no steps"),
}


@pytest.mark.parametrize(("mistake", "message"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_found_when_the_workflow_is_built(mistake: Any, message: str) -> None:
    with pytest.raises((WorkflowError, TypeError, AttributeError), match=message):
        built(mistake)()


@pytest.mark.parametrize(
    "outside",
    [lambda: switch("${x}").__enter__(), lambda: fork().__enter__(), lambda: loop(2).__enter__(), wait]
    + [lambda: step(notify)(to="x"), lambda: terminate("FAILED", "x"), lambda: set_variables(a=1)],
)
def test_blocks_outside_of_a_workflow_are_refused(outside: Callable[[], Any]) -> None:
    with pytest.raises(WorkflowError, match="must be inside a `with workflow:` block"):
        outside()


def test_inputs_that_are_passed_to_run_by_name_are_explained() -> None:
    with workflow("w", inputs={"to": str}) as w:
        notify(to=w.input("to"))
    unknown: Any = {"to": "Ada"}
    with pytest.raises(TypeError, match="run has no parameter 'to': it takes the input as a dict"):
        w.run(**unknown)


def test_a_call_of_a_workflow_without_a_server_names_run() -> None:
    with workflow("w") as w:
        notify(to="a")
    with pytest.raises(RuntimeError, match=r"or run the workflow in this process with run\("):
        w()


def test_a_workflow_needs_a_name() -> None:
    with pytest.raises(WorkflowError, match="a workflow needs a name"):
        workflow("")


class TestValidation:
    def test_names_everything_that_a_coordinator_would_refuse(self) -> None:
        w = ConductorWorkflow(None, "w") >> SimpleTask("a", "same") >> SimpleTask("b", "same")
        w >> SimpleTask("c", "c").input_parameter("x", "${nobody.output.y}")
        with pytest.raises(WorkflowError) as refused:
            w.validate()
        assert "same" in str(refused.value)
        assert "nobody" in str(refused.value)

    def test_names_wrong_inputs_of_steps_made_as_conductor_python_makes_them(self) -> None:
        w = ConductorWorkflow(None, "w") >> charge(task_ref_name="pay", order_idd="A")
        with pytest.raises(WorkflowError) as refused:
            w.validate()
        assert "'pay' (charge) has no parameter 'order_idd'; did you mean 'order_id'?" in str(refused.value)
        assert "needs 'order_id' and 'amount'" in str(refused.value)

    def test_validation_says_nothing_when_all_is_well(self) -> None:
        w = ConductorWorkflow(None, "w") >> notify(task_ref_name="n", to="a")
        assert w.validate() is w
        assert w.problems() == []


class TestSchedules:
    def test_a_cron_expression_becomes_the_schedule_of_the_workflow_u3_7(self) -> None:
        with workflow("nightly", cron="0 0 2 * * *", time_zone="Europe/Berlin") as w:
            notify(to="a")
        schedule = w.validate().to_schedule()
        assert schedule is not None
        assert schedule.to_dict() == {
            "name": "nightly",
            "cronExpression": "0 0 2 * * *",
            "zoneId": "Europe/Berlin",
            "startWorkflowRequest": {"name": "nightly", "input": {}},
        }

    def test_wrong_schedules_are_refused(self) -> None:
        for options, message in [
            ({"cron": "0 2 * * *"}, "a cron expression has six fields"),
            ({"cron": "0 0 2 * * *", "time_zone": "Europe/Berln"}, "did you mean 'Europe/Berlin'"),
            ({"time_zone": "UTC"}, "has a time_zone but no cron expression"),
        ]:
            with pytest.raises(WorkflowError, match=message):
                workflow("w", **options)
        with workflow("w", cron="0 0 99 * * *") as w:
            notify(to="a")
        with pytest.raises(WorkflowError, match="- cron: "):
            w.validate()
        with workflow("w", cron="0 0 2 * * *", inputs={"day": str}) as w:
            notify(to=w.input("day"))
        with pytest.raises(WorkflowError, match="passes no value for the input 'day': set a default"):
            w.to_schedule()


def test_a_workflow_that_starts_itself_is_found_by_validate_u4_53() -> None:
    with workflow("w") as w:
        sub_workflow("w", 1)
    with pytest.raises(WorkflowError, match=r"w: the sub-workflows are a circle without a condition \(w → w\)"):
        w.validate()
    with workflow("w", version=2) as newer:
        sub_workflow("w", 1)
    newer.validate()
    with workflow("w", inputs={"deep": bool}) as ending, switch(ending.input("deep")) as case, case(True):
        sub_workflow("w", 1)
    ending.validate()


def test_a_sub_workflow_step_may_be_optional_and_have_retries() -> None:
    with workflow("child", inputs={"to": str}) as child:
        notify(to=child.input("to"))
    with workflow("w") as w:
        step(child, "told", optional=True, retries=2)(to="ada")
        step(child)(to="ben")
    told, plain = w.to_workflow_def().to_dict()["tasks"]
    assert (told["type"], told["taskReferenceName"], told["optional"], told["retryCount"]) == (
        "SUB_WORKFLOW",
        "told",
        True,
        2,
    )
    assert (plain["taskReferenceName"], plain.get("optional"), plain.get("retryCount")) == ("child", None, None)
    with pytest.raises(WorkflowError, match="has no parameter 'too'; did you mean 'to'"), workflow("w"):
        step(child)(too="ada")


def test_scripts_and_joins_are_checked_by_validate_u1_16() -> None:
    with workflow("w") as w:
        add(DoWhileTask("again", "$.x >", [SimpleTask("a", "a")]))
        add(InlineTask("sum", "$.n +", {"n": "1"}))
        add(SimpleTask("c", "c"))
        add(JoinTask("join", ["nothing"]))
    with pytest.raises(WorkflowError) as refused:
        w.validate()
    message = str(refused.value)
    assert message.count("cannot be parsed") == 2
    assert "again.loopCondition" in message
    assert "nothing" in message
