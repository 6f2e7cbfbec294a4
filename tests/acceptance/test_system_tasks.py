"""System tasks have the same results on every server.

Where the servers differ, the comment has what the plain one said (3.32.3).
"""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.acceptance.api import Api

Task = dict[str, Any]


@pytest.fixture
def far() -> Iterator[str]:
    """A server to be called, and its address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            while self.headers.get("Transfer-Encoding") == "chunked" and (size := int(self.rfile.readline(), 16)):
                body += self.rfile.read(size)
                self.rfile.readline()
            kind, _, rest = self.path[1:].partition("/")
            said = {"method": self.command, "body": body.decode(), "accept": self.headers.get("Accept")}
            self.send_response(int(rest) if kind == "status" else 302 if kind == "moved" else 200)
            if kind == "moved":
                self.send_header("Location", f"/{rest}")
            text = b"hello" if kind == "text" else b"" if kind in ("status", "moved") else json.dumps(said).encode()
            self.send_header("Content-Type", "text/plain" if kind == "text" else "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.send_header("Connection", "close")
            self.close_connection = True
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = answer  # noqa: N815 - as http.server wants it

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def task(kind: str, ref: str = "t", **fields: Any) -> Task:
    return {"name": fields.pop("name", ref), "taskReferenceName": ref, "type": kind, **fields}


def http(uri: str, method: str = "GET", **request: Any) -> Task:
    return task("HTTP", inputParameters={"http_request": {"uri": uri, "method": method, **request}})


def inline(expression: str, **given: Any) -> Task:
    return task("INLINE", inputParameters={"evaluatorType": "javascript", "expression": expression, **given})


def switch(expression: str, **given: Any) -> Task:
    cases = {case: [task("NOOP", f"case_{case}")] for case in ("a", "true", "2")}
    return task(
        "SWITCH",
        "s",
        evaluatorType="javascript",
        expression=expression,
        inputParameters=given,
        decisionCases=cases,
        defaultCase=[task("NOOP", "case_default")],
    )


def refs(workflow: dict[str, Any]) -> list[str]:
    return [found["referenceTaskName"] for found in workflow["tasks"]]


class TestHttp:
    def test_an_http_task_that_succeeds_has_the_answer_as_output(self, api: Api, far: str) -> None:
        found = api.run(http(f"{far}/echo", "POST", body={"x": 1}, accept="text/plain"))
        (called,) = found["tasks"]
        response = called["outputData"]["response"]
        assert set(response) == {"statusCode", "reasonPhrase", "headers", "body"}
        assert (response["statusCode"], response["reasonPhrase"]) == (200, "OK")
        assert response["headers"]["Content-Type"] == ["application/json"]
        assert response["body"] == {"method": "POST", "body": '{"x":1}', "accept": "text/plain"}
        assert (called["status"], called["taskType"], called["taskDefName"]) == ("COMPLETED", "HTTP", "t")
        assert called["inputData"]["asyncComplete"] is False

    def test_a_text_and_a_redirect(self, api: Api, far: str) -> None:
        assert api.run(http(f"{far}/text/"))["output"]["response"]["body"] == "hello"
        assert api.run(http(f"{far}/moved/text/"))["output"]["response"]["body"] == "hello"

    @pytest.mark.parametrize(
        ("request_", "said"),
        [
            ({"uri": "{far}/status/404", "method": "GET"}, '404 Not Found on GET request for "{far}/status/404"'),
            ({"uri": "{far}/status/304", "method": "GET"}, "No response from the remote service"),
            ({"uri": "http://127.0.0.1:1/", "method": "GET"}, "Connection refused"),
            ({"uri": "file:///etc/passwd", "method": "GET"}, "Failed to invoke HTTP task due to:"),
            ({"uri": "{far}/echo", "method": "get"}, "Invalid HTTP method: get"),
            ({"uri": "{far}/echo"}, "No HTTP method specified"),
            ({"method": "GET"}, "Missing HTTP URI.  See documentation for HttpTask"),
        ],
    )
    def test_an_http_task_that_fails_has_the_reason(
        self, api: Api, far: str, request_: dict[str, str], said: str
    ) -> None:
        asked = {name: value.replace("{far}", far) for name, value in request_.items()}
        (called,) = api.run(task("HTTP", inputParameters={"http_request": asked}))["tasks"]
        assert called["status"] == "FAILED"
        assert said.replace("{far}", far) in called["reasonForIncompletion"]

    def test_an_asynchronous_http_task_is_ended_from_outside(self, api: Api, far: str) -> None:
        workflow = api.start({**http(f"{far}/text/"), "asyncComplete": True})
        found = api.until(workflow, lambda found: found["tasks"][0]["outputData"])
        assert (found["tasks"][0]["status"], found["status"]) == ("IN_PROGRESS", "RUNNING")
        api.client.post(f"/tasks/{workflow}/t/COMPLETED", json={"more": 1})
        found = api.until(workflow, lambda found: found["status"] != "RUNNING")
        assert set(found["tasks"][0]["outputData"]) == {"response", "more"}

    def test_an_http_task_needs_a_request(self, api: Api) -> None:
        answer = api.register(task("HTTP", inputParameters={"a": 1}))
        assert answer.status_code == 400
        assert "http_request" in answer.text


class TestScripts:
    @pytest.mark.parametrize(
        ("expression", "expected"),
        [
            ("$.x * 2", 10),
            ("(function () { return {a: $.x, b: [1, , {c: null}]}; })()", {"a": 5, "b": [1, None, {"c": None}]}),
            ("[undefined, NaN, 1 / 0]", [None, "NaN", "Infinity"]),
            ("new Map([[1, 2]])", {"1": 2}),
            ("({d: new Date(0), f: function () {}, u: undefined})", {"d": {}, "f": {}, "u": None}),
            ("if ($.x > 3) { 'large' } else { 'small' }", "large"),
            ("typeof print + typeof console + typeof Java", "undefined" * 3),
        ],
    )
    def test_an_inline_task_has_the_value_of_its_script(self, api: Api, expression: str, expected: Any) -> None:
        found = api.run(inline(expression, x=5))
        assert (found["status"], found["output"]) == ("COMPLETED", {"result": expected})

    @pytest.mark.parametrize("expression", ["throw new Error('bad')", "1 +", "nope", "$.a.b", ""])
    def test_an_inline_script_that_fails_fails_its_task(self, api: Api, expression: str) -> None:
        (failed,) = api.run(inline(expression))["tasks"]
        assert failed["status"] == "FAILED_WITH_TERMINAL_ERROR"
        assert failed["outputData"] == {"error": failed["reasonForIncompletion"]}

    def test_inline_that_takes_too_long(self, api: Api) -> None:
        (failed,) = api.run(inline("while (true) {}"))["tasks"]
        assert failed["status"] == "FAILED"
        assert failed["reasonForIncompletion"] == "Script not evaluated within 4 seconds, interrupted."

    def test_the_value_of_a_parameter(self, api: Api) -> None:
        given = {"evaluatorType": "value-param", "expression": "x", "x": {"a": 1}}
        assert api.run(task("INLINE", inputParameters=given))["output"] == {"result": {"a": 1}}

    def test_a_lambda_task_has_the_value_of_its_script(self, api: Api) -> None:
        given = {"x": 3, "scriptExpression": "if ($.x == 3) { return {a: true} } else { return {a: false} }"}
        assert api.run(task("LAMBDA", inputParameters=given))["output"] == {"result": {"a": True}}
        (failed,) = api.run(task("LAMBDA", inputParameters={"scriptExpression": "throw 'x'"}))["tasks"]
        assert failed["status"] == "FAILED"

    def test_a_jq_task_has_the_values_of_its_query(self, api: Api) -> None:
        given = {"queryExpression": ".l[] | . + 1", "l": [1, 2]}
        found = api.run(task("JSON_JQ_TRANSFORM", inputParameters=given))
        assert found["output"] == {"result": 2, "resultList": [2, 3]}
        empty = api.run(task("JSON_JQ_TRANSFORM", inputParameters={"queryExpression": "empty"}))
        assert empty["output"] == {"result": None, "resultList": []}
        (failed,) = api.run(task("JSON_JQ_TRANSFORM", inputParameters={"queryExpression": 'error("x")'}))["tasks"]
        assert (failed["status"], failed["outputData"]) == ("FAILED", {"error": "x"})


class TestConditions:
    @pytest.mark.parametrize(
        ("expression", "chosen"),
        [
            ("$.x.includes('a') ? 'a' : 'b'", "a"),
            ("$.x.includes('a')", "true"),
            ("$.x.split('').length - 1", "2"),
            ("null", "default"),
            ("var x = $.x; if (x == 'cat') { 'a' } else { 'b' }", "a"),
        ],
    )
    def test_a_switch_evaluates_a_script(self, api: Api, expression: str, chosen: str) -> None:
        assert refs(api.run(switch(expression, x="cat"))) == ["s", f"case_{chosen}"]

    def test_a_switch_whose_script_fails_ends_the_workflow(self, api: Api) -> None:
        found = api.run(switch("(function () { throw new Error('bad'); })()"))
        (failed,) = found["tasks"]
        assert (found["status"], failed["status"]) == ("FAILED", "FAILED")
        assert failed["reasonForIncompletion"].startswith("Error evaluating the script `Error: bad`")

    def test_a_loop_evaluates_a_script(self, api: Api) -> None:
        condition = "(function () { return Math.max(1, $.l['iteration']) < 3; })()"
        found = api.run(task("DO_WHILE", "l", loopCondition=condition, loopOver=[task("NOOP", "n")]))
        assert refs(found) == ["l", "n__1", "n__2", "n__3"]

    def test_a_loop_whose_script_fails_ends_the_workflow(self, api: Api) -> None:
        loop = task("DO_WHILE", "l", loopCondition="throw 'x'", loopOver=[task("NOOP", "n")])
        failed = api.run(loop)["tasks"][0]
        assert failed["status"] == "FAILED_WITH_TERMINAL_ERROR"
        assert failed["reasonForIncompletion"].startswith("Unable to evaluate condition throw 'x', exception")


class TestEventsAndStarts:
    @pytest.mark.parametrize(("sink", "name"), [("conductor", "e"), ("conductor:paid", "paid")])
    def test_an_event_task_publishes_its_input(self, api: Api, sink: str, name: str) -> None:
        found = api.run(task("EVENT", "e", name="other", sink=sink, inputParameters={"a": 1}))
        output = found["output"]
        assert output["event_produced"] == f"conductor:{found['workflowName']}:{name}"
        told = (output["a"], output["sink"], output["workflowInstanceId"], output["workflowVersion"])
        assert told == (1, sink, found["workflowId"], 1)
        assert (output["workflowType"], output["asyncComplete"]) == (found["workflowName"], False)

    def test_an_event_without_a_known_sink_fails(self, api: Api) -> None:
        (failed,) = api.run(task("EVENT", "e", sink="sqs:q"))["tasks"]
        assert failed["status"] == "FAILED"
        assert "Unknown queue type sqs" in failed["reasonForIncompletion"]

    def test_a_start_workflow_task_starts_a_workflow(self, api: Api) -> None:
        api.register(task("HUMAN", "h"))
        asked = {"name": api.name, "input": {"a": 5}, "correlationId": "c"}
        found = api.run(task("START_WORKFLOW", "s", inputParameters={"startWorkflow": asked}))
        started = api.workflow(found["output"]["workflowId"])
        assert (started["status"], started["input"], started["correlationId"]) == ("RUNNING", {"a": 5}, "c")

    @pytest.mark.parametrize(
        ("given", "said"),
        [
            ({}, "Missing 'startWorkflow' in input data."),
            ({"startWorkflow": {"name": "no_such"}}, "No such workflow defined. name=no_such, version=null"),
            ({"startWorkflow": {"input": {}}}, "Workflow name cannot be null or empty"),
        ],
    )
    def test_start_workflow_that_fails(self, api: Api, given: dict[str, Any], said: str) -> None:
        (failed,) = api.run(task("START_WORKFLOW", "s", inputParameters=given))["tasks"]
        assert failed["status"] == "FAILED"
        assert said in failed["reasonForIncompletion"]


def test_noop_completes_and_human_waits(api: Api) -> None:
    workflow = api.start(task("NOOP", "n", inputParameters={"a": 1}), task("HUMAN", "h"))
    noop, human = api.until(workflow, lambda found: len(found["tasks"]) == 2)["tasks"]
    assert (noop["status"], noop["inputData"], human["status"]) == ("COMPLETED", {}, "IN_PROGRESS")
    api.client.post(f"/tasks/{workflow}/h/COMPLETED", json={"by": "me"})
    assert api.until(workflow, lambda found: found["status"] != "RUNNING")["output"] == {"by": "me"}


def test_a_type_that_somebody_made_up(api: Api) -> None:
    kind = f"MADE_UP_{secrets.token_hex(4)}"
    workflow = api.start(task(kind, "u", name="whatever"))
    taken = api.client.get(f"/tasks/poll/{kind}").json()
    assert (taken["taskType"], taken["taskDefName"]) == (kind, "whatever")
    body = {"taskId": taken["taskId"], "workflowInstanceId": workflow, "status": "FAILED"}
    assert api.client.post("/tasks", json=body).status_code == 200
    found = api.until(workflow, lambda found: found["status"] != "RUNNING")
    assert [one["status"] for one in found["tasks"]] == ["FAILED"]


def test_a_loop_keeps_the_tasks_of_its_last_rounds_s08(api: Api) -> None:
    def rounds(keep: int) -> dict[str, Any]:
        body = {**inline("1 + 1"), "name": "i", "taskReferenceName": "i"}
        return task(
            "DO_WHILE", "l", loopCondition="$.l['iteration'] < 6", loopOver=[body], inputParameters={"keepLastN": keep}
        )

    found = api.run(rounds(2))
    assert refs(found) == ["l", "i__5", "i__6"]
    assert sorted(found["tasks"][0]["outputData"]) == ["5", "6", "iteration"]
    found = api.run(rounds(0))
    assert refs(found) == ["l", "i__6"]
    assert sorted(found["tasks"][0]["outputData"]) == ["iteration"]
