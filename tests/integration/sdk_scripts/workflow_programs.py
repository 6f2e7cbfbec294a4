"""Programs that conductor-python and this package must both make the same JSON of.

Each function builds one workflow and is a program for both packages: it uses nothing that only one of them has. Run as
a script, this file prints the JSON of all of them.
"""

from __future__ import annotations

import json
import re
import sys

from conductor.client.configuration.configuration import Configuration
from conductor.client.http.api_client import ApiClient
from conductor.client.http.models import StartWorkflowRequest
from conductor.client.worker.worker_task import WorkerTask, worker_task
from conductor.client.workflow.conductor_workflow import ConductorWorkflow
from conductor.client.workflow.task.do_while_task import DoWhileTask, ForEachTask, LoopTask
from conductor.client.workflow.task.dynamic_fork_task import DynamicForkTask
from conductor.client.workflow.task.dynamic_task import DynamicTask
from conductor.client.workflow.task.event_task import ConductorEventTask, SqsEventTask
from conductor.client.workflow.task.fork_task import ForkTask
from conductor.client.workflow.task.get_document import GetDocument
from conductor.client.workflow.task.http_poll_task import HttpPollInput, HttpPollTask
from conductor.client.workflow.task.http_task import HttpInput, HttpMethod, HttpTask
from conductor.client.workflow.task.human_task import AssignmentCompletionStrategy, HumanTask
from conductor.client.workflow.task.inline import InlineTask
from conductor.client.workflow.task.javascript_task import JavascriptTask
from conductor.client.workflow.task.join_task import JoinTask
from conductor.client.workflow.task.json_jq_task import JsonJQTask
from conductor.client.workflow.task.kafka_publish import KafkaPublishTask
from conductor.client.workflow.task.kafka_publish_input import KafkaPublishInput
from conductor.client.workflow.task.llm_tasks import (
    CallMcpTool,
    ChatMessage,
    GenerateAudio,
    GenerateImage,
    ListMcpTools,
    LlmChatComplete,
    LlmGenerateEmbeddings,
    LlmIndexDocument,
    LlmIndexText,
    LlmQueryEmbeddings,
    LlmSearchEmbeddings,
    LlmSearchIndex,
    LlmStoreEmbeddings,
    LlmTextComplete,
    Role,
    ToolCall,
    ToolSpec,
)
from conductor.client.workflow.task.llm_tasks.utils.embedding_model import EmbeddingModel
from conductor.client.workflow.task.pull_workflow_messages_task import PullWorkflowMessagesTask
from conductor.client.workflow.task.set_variable_task import SetVariableTask
from conductor.client.workflow.task.simple_task import SimpleTask, simple_task
from conductor.client.workflow.task.start_workflow_task import StartWorkflowTask
from conductor.client.workflow.task.sub_workflow_task import InlineSubWorkflowTask, SubWorkflowTask
from conductor.client.workflow.task.switch_task import SwitchTask
from conductor.client.workflow.task.terminate_task import TerminateTask, WorkflowStatus
from conductor.client.workflow.task.timeout_policy import TimeoutPolicy
from conductor.client.workflow.task.wait_for_webhook_task import WaitForWebHookTask, wait_for_webhook
from conductor.client.workflow.task.wait_task import WaitForDurationTask, WaitTask, WaitUntilTask

PROGRAMS = {}
#: Programs that the coordinator can run to the end with workers that echo their input, and the input of each.
RUNNABLE = {}


def program(function):
    PROGRAMS[function.__name__] = function
    return function


def runs(**given):
    def mark(function):
        RUNNABLE[function.__name__] = given
        return program(function)

    return mark


@worker_task(task_definition_name="greet")
def greet(name: str, times: int = 1) -> dict:
    return {"greeting": f"Hello {name}" * times}


@WorkerTask(task_definition_name="shout")
async def shout(text: str) -> str:
    return text.upper()


def new(name="w", **kwargs):
    return ConductorWorkflow(None, name, **kwargs)


def echo(ref, **inputs):
    return simple_task("echo", ref, inputs)


@program
def empty():
    return new()


@runs(x=1)
def one_simple():
    workflow = new("one", version=2, description="One step")
    return workflow >> SimpleTask("echo", "a")


@runs(x=1)
def every_setting():
    workflow = new(version=3, description="All of it")
    workflow.timeout_policy(TimeoutPolicy.TIME_OUT_WORKFLOW).timeout_seconds(5).owner_email("ada@example.com")
    workflow.failure_workflow("undo").output_parameters({"a": 1}).output_parameter("b", workflow.input("x"))
    workflow.input_template({"x": 1}).variables({"v": [1, 2]}).input_parameters(["x", "y"])
    return workflow >> echo("a", all=workflow.input(None))


@program
def status_listener():
    workflow = new()
    workflow.enable_status_listener("kafka:events")
    return workflow >> echo("a")


@program
def status_listener_off_again():
    workflow = new()
    workflow.enable_status_listener("kafka:events")
    workflow.disable_status_listener()
    return workflow >> echo("a")


@program
def inputs_as_template():
    return new().input_parameters({"x": 2}) >> echo("a")


@runs()
def workflow_input():
    return new().workflow_input({"x": 2}) >> echo("a", x="${workflow.input.x}")


@runs(name="Ada")
def worker_as_step():
    workflow = new()
    hello = greet(task_ref_name="hello", name=workflow.input("name"))
    return workflow >> hello >> shout(task_ref_name="loud", text=hello.output("greeting"))


@program
def worker_without_inputs():
    return new() >> greet(task_ref_name="hello").input_parameter("name", "Ada")


@runs(x={"y": [1, 2]})
def references():
    workflow = new()
    a = echo("a", x=workflow.input("x"))
    b = echo("b", whole=a.output(), part=a.output("x.y[0]"), dotted=a.output(".x"), short=a.x, given=a.input("x"))
    workflow.output_parameters({"b": b.output("whole"), "all": a.input(), "text": f"<{b.output('part')}>"})
    return workflow >> a >> b


@runs()
def simple_with_everything():
    task = SimpleTask("echo", "a")
    task.description = "Says it again"
    task.optional = True
    task.input_parameter("n", 1).input(key="m", value={"deep": [1, None, "x"]})
    return new() >> task


@program
def cached():
    task = SimpleTask("echo", "a")
    task.cache("${x}", 60)
    return new() >> task


@runs(x=1)
def added_one_by_one():
    return new().add(echo("a")).add([echo("b"), echo("c")])


@program
def fork_at_the_end():
    return new() >> [echo("a"), echo("b")]


@runs()
def fork_with_a_step_behind():
    return new() >> [echo("a"), echo("b")] >> echo("c")


@runs()
def fork_of_lists():
    return new() >> [[echo("a"), echo("b")], [echo("c")], [echo("d"), echo("e")]] >> echo("f")


@runs()
def fork_with_own_join():
    return new() >> [[echo("a"), echo("b")], [echo("c")]] >> JoinTask("j", ["b", "c"]) >> echo("d")


@runs()
def two_forks():
    return new() >> [echo("a"), echo("b")] >> [echo("c"), echo("d")] >> echo("e")


@runs()
def fork_task():
    return new() >> ForkTask("f", [[echo("a")], [echo("b")]]) >> echo("c")


@runs()
def fork_task_with_join_on():
    return new() >> ForkTask("f", [[echo("a")], [echo("b")]], ["a", "b"]) >> echo("c")


@program
def join_with_script():
    return new() >> ForkTask("f", [[echo("a")], [echo("b")]]) >> JoinTask("j", ["a"], "$.a.ok") >> echo("c")


@program
def fork_in_fork():
    return new() >> ForkTask("f", [[ForkTask("g", [[echo("a")], [echo("b")]])], [echo("c")]]) >> echo("d")


@runs(kind="post")
def switch_on_a_value():
    workflow = new()
    how = SwitchTask("how", workflow.input("kind"))
    return workflow >> how.switch_case("post", [echo("stamp")]).default_case([echo("call"), echo("pay")])


@runs(n=7)
def switch_by_script():
    how = SwitchTask("how", "$.n > 5 ? 'big' : 'small'", True)
    how.input_parameter("n", "${workflow.input.n}").switch_case("big", echo("b")).switch_case("small", [echo("s")])
    return new() >> how >> echo("after")


@program
def switch_without_cases():
    return new() >> SwitchTask("how", "${workflow.input.kind}")


@runs(kind="a")
def switch_in_switch():
    inner = SwitchTask("inner", "${workflow.input.kind}").switch_case("a", [echo("x")]).default_case([echo("y")])
    return new() >> SwitchTask("outer", "${workflow.input.kind}").switch_case("a", [inner, echo("z")])


@runs(kind="a")
def fork_in_switch():
    fork = ForkTask("f", [[echo("x")], [echo("y")]], ["x", "y"])
    return new() >> SwitchTask("s", "${workflow.input.kind}").switch_case("a", [fork, echo("z")])


@runs()
def loop():
    return new() >> LoopTask("again", 3, [echo("a"), echo("b")]) >> echo("c", n="${again.output.iteration}")


@runs()
def loop_of_one():
    return new() >> LoopTask("again", 2, echo("a"))


@runs(n=2)
def do_while():
    condition = "if ( $.again['iteration'] < $.n ) { true; } else { false; }"
    return new() >> DoWhileTask("again", condition, [echo("a")]).input_parameter("n", "${workflow.input.n}")


@program
def for_each():
    return new() >> ForEachTask("each", [echo("a")], "${workflow.input.items}", ["item"])


@runs(kind="a")
def switch_in_loop():
    choice = SwitchTask("s", "${workflow.input.kind}").switch_case("a", [echo("x")]).default_case([echo("y")])
    return new() >> LoopTask("again", 2, [choice])


@program
def fork_in_loop():
    return new() >> LoopTask("again", 2, [ForkTask("f", [[echo("a")], [echo("b")]]), echo("c")])


@program
def sub_workflow():
    return new() >> SubWorkflowTask("child", "other", 2, {"echo": "blue"}).input_parameter("x", "${workflow.input.x}")


@program
def sub_workflow_latest():
    return new() >> SubWorkflowTask("child", "other")


@runs(x=1)
def inline_sub_workflow():
    child = new("child", version=1) >> echo("inner", x="${workflow.input.x}")
    return new() >> InlineSubWorkflowTask("sub", child).input_parameter("x", "${workflow.input.x}")


@runs(x=1)
def workflow_behind_workflow():
    return new() >> (new("child").input_template({"x": 1}) >> echo("inner")) >> echo("after")


@runs(kind="a")
def workflow_in_switch_and_fork():
    child = new("child") >> echo("inner")
    choice = SwitchTask("s", "${workflow.input.kind}").switch_case("a", [child])
    return new() >> choice >> [[child], [echo("b")]] >> echo("c")


@runs()
def set_variables():
    return (
        new().variables({"n": 0})
        >> SetVariableTask("set").input_parameter("n", 5)
        >> echo("a", n="${workflow.variables.n}")
    )


@program
def terminate():
    return new() >> TerminateTask("stop", WorkflowStatus.FAILED, "enough") >> echo("never")


@runs()
def terminate_well():
    return new() >> echo("a") >> TerminateTask("stop", WorkflowStatus.COMPLETED, "enough")


@program
def waits():
    return (
        new()
        >> WaitTask("signal")
        >> WaitTask("until", "2027-01-31 09:00")
        >> WaitTask("some", None, 5)
        >> WaitForDurationTask("more", 7)
        >> WaitUntilTask("date", "2027-01-31 09:00")
    )


@runs()
def short_wait():
    return new() >> WaitForDurationTask("moment", 0) >> echo("a")


@program
def dynamic():
    return new() >> DynamicTask("${workflow.input.which}", "which") >> DynamicTask("echo", "other", "taskName")


@program
def dynamic_forks():
    return (
        new()
        >> DynamicForkTask("df", join_task=JoinTask("dj"))
        >> DynamicForkTask("dg", "steps", "inputs")
        >> JoinTask("j")
    )


@program
def http():
    full = HttpInput(
        HttpMethod.POST, "http://x/y", {"A": ["b"]}, "text/plain", "text/xml", 7, 8, {"q": "${workflow.input.q}"}
    )
    call = HttpTask("get", HttpInput(uri="http://x"))
    return (
        new()
        >> call
        >> HttpTask("post", full)
        >> HttpTask("plain", {"uri": "http://x"})
        >> HttpTask("other", {"uri": "http://x", "method": "PUT", "extra": 1})
        >> echo(
            "a",
            code=call.status_code(),
            head=call.headers(),
            one=call.headers("X"),
            body=call.body(),
            b=call.body("b.c"),
        )
    )


@program
def http_poll():
    full = HttpPollInput("$.done", 5, 6, "EXPONENTIAL", HttpMethod.POST, "http://x", {"A": ["b"]}, "a", "b", 7, 8, [1])
    return new() >> HttpPollTask("p", HttpPollInput(uri="http://x")) >> HttpPollTask("q", full)


@program
def events():
    return new() >> SqsEventTask("sqs", "queue") >> ConductorEventTask("own", "event").input_parameter("x", 1)


@program
def kafka():
    full = KafkaPublishInput("b:9092", "k", "ks", "v", "100", "200", {"h": 1}, "topic")
    return (
        new()
        >> KafkaPublishTask("k", full)
        >> KafkaPublishTask("l", KafkaPublishInput(topic="t"))
        >> KafkaPublishTask("m")
    )


@program
def scripts():
    js = JavascriptTask("j", "$.x + 1", {"x": "${workflow.input.x}"})
    other = JavascriptTask("k", "1").evaluator_type("javascript")
    inline = InlineTask("i", "$.x", {"x": "1"})
    return new() >> js >> other >> inline >> JsonJQTask("q", ".a | .b") >> echo("a", x=js.output(), y=js.output("z"))


@program
def human():
    full = HumanTask("g", "Approve", "form", 2, AssignmentCompletionStrategy.TERMINATE)
    return new() >> HumanTask("h") >> full


@program
def webhooks():
    return (
        new()
        >> WaitForWebHookTask("a", {"$.id": "${workflow.input.id}"})
        >> wait_for_webhook("b", {"x": 1})
        >> wait_for_webhook("c", {"x": 1}, "named")
    )


@program
def start_workflow():
    request = StartWorkflowRequest(name="ignored", input={"a": 1}, correlation_id="c")
    return new() >> StartWorkflowTask("s", "other", request, 3) >> StartWorkflowTask("t", "other", request)


@program
def messages_and_documents():
    return (
        new()
        >> PullWorkflowMessagesTask("one")
        >> PullWorkflowMessagesTask("many", 20)
        >> GetDocument("doc", "d", "http://x", "application/pdf")
    )


@program
def llm_text():
    plain = LlmTextComplete("t", "openai", "gpt", "prompt")
    full = LlmTextComplete("u", "openai", "gpt", "prompt", 1, ["s"], 2, 0.1, 0.2, 3, 0.4, 0.5, 6, True, "named")
    return new() >> plain >> full.prompt_variable("a", 1).prompt_variables({"b": "${t.output.result}"})


@program
def llm_chat():
    calls = [ToolCall("n"), ToolCall("n", "r", {"a": "b"}, "HTTP", {"i": 1}, {"o": 1})]
    messages = [ChatMessage(Role.USER, "hi"), ChatMessage("system", "be kind", ["u"], "image/png", calls)]
    tools = [ToolSpec("n"), ToolSpec("n", "HTTP", "d", {"c": 1}, {"i": "j"}, {"type": "object"}, {"type": "string"})]
    full = LlmChatComplete(
        "c", "p", "m", messages, "instructions", {"v": 1}, 2, tools, "said", True, True, {"is": 1}, {"os": 1},
        "text/plain", 5, "high", "s3://x", "alloy", {"p": "q"}, ["stop"], 7, 0.5, 0.6, 8, 0.7, 0.8, 9, "named",
    )  # fmt: skip
    zeroes = LlmChatComplete("z", "p", "m", [], temperature=0, max_tokens=0, stop_words=[], tools=[], input_schema={})
    return new() >> LlmChatComplete("d", "p", "m").prompt_variable("a", 1) >> full >> zeroes


@program
def llm_embeddings():
    model = EmbeddingModel("openai", "ada")
    return (
        new()
        >> LlmGenerateEmbeddings("a", "p", "m", "text")
        >> LlmGenerateEmbeddings("b", "p", "m", "text", 3, "named")
        >> LlmQueryEmbeddings("c", "db", "i", [1.0])
        >> LlmQueryEmbeddings("d", "db", "i", [1.0], "named", "ns")
        >> LlmSearchEmbeddings("e", "db", "i", [1.0])
        >> LlmSearchEmbeddings("f", "db", "i", [1.0], "ns", 2, 3, "em", "ep", "named")
        >> LlmStoreEmbeddings("g", "db", "i", [1.0])
        >> LlmStoreEmbeddings("h", "db", "i", [1.0], "ns", "id", {"m": 1}, "em", "ep", "named")
        >> LlmIndexDocument("j", "db", "ns", model, "i", "http://x", "text/plain")
        >> LlmIndexDocument("k", "db", "ns", model, "i", "http://x", "text/plain", 1, 2, "d", "named", {"m": 1}, 3)
        >> LlmIndexText("l", "db", "i", model, "text", "d")
        >> LlmIndexText("m", "db", "i", model, "text", "d", "ns", "named", {"m": 1}, "http://x", 1, 2, 3)
        >> LlmSearchIndex("n", "db", "ns", "i", "ep", "em", "q")
        >> LlmSearchIndex("o", "db", "ns", "i", "ep", "em", "q", "named", 2, 3)
    )


@program
def generated_media():
    return (
        new()
        >> GenerateImage("a", "p", "m", "draw")
        >> GenerateImage("b", "p", "m", "draw", 1, 2, "s", "vivid", 3, 0.5, "jpg", {"v": 1}, "named")
        >> GenerateAudio("c", "p", "m")
        >> GenerateAudio("d", "p", "m", "say", "alloy", 1.5, "mp3", 2, "prompt", {"v": 1}, "named")
    )


@program
def mcp():
    return (
        new()
        >> ListMcpTools("a", "http://mcp")
        >> ListMcpTools("b", "http://mcp", {"A": "b"}, "named")
        >> CallMcpTool("c", "http://mcp", "tool")
        >> CallMcpTool("d", "http://mcp", "tool", {"x": "${a.output.tools}"}, {"A": "b"}, "named")
    )


@runs(kind="post", address="here")
def everything_that_nests():
    workflow = new("nest", version=1)
    child = new("child") >> echo("packed", to=workflow.input("address"))
    how = SwitchTask("how", workflow.input("kind")).switch_case("post", [LoopTask("stamps", 2, [echo("stamp")]), child])
    how.default_case([TerminateTask("no", WorkflowStatus.FAILED, "unknown kind")])
    return workflow >> [[echo("a"), echo("b")], [how]] >> SetVariableTask("v").input_parameter("x", 1) >> echo("end")


def json_of(build) -> str:
    """The JSON of a program's workflow. The names that conductor-python makes up at random are counted instead."""
    text = json.dumps(ApiClient(Configuration()).sanitize_for_serialization(build().to_workflow_def()), sort_keys=True)
    made_up: dict[str, str] = {}
    pattern = r"(?<![A-Za-z])(forked|child)_(?:inline_)?(\d+|[2-9A-HJ-NP-Za-km-z]{22})\b"
    return re.sub(pattern, lambda m: made_up.setdefault(m[0], f"{m[1]}#{len(made_up)}"), text)


if __name__ == "__main__":
    json.dump({name: json_of(build) for name, build in PROGRAMS.items()}, sys.stdout)
