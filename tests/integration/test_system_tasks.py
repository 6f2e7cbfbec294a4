"""Tasks that the coordinator does itself: calls, scripts, events, starts. As a client sees them, on a real server."""

from __future__ import annotations

import itertools
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from conductor.coordinator import Coordinator
from conductor.coordinator.limits import MAX_HTTP_ANSWER_BYTES, WAIT_FOR_SCRIPTS_S
from conductor.coordinator.system import start_tasks, system_workers
from conductor.coordinator.system.script_task import run_script_task
from conductor.testing.fake_clock import FakeClock
from tests.integration.far_server import PATIENCE_S, FarServer
from tests.integration.hostile.server import Server

_numbers = itertools.count()


@pytest.fixture
def far() -> Iterator[FarServer]:
    with FarServer() as found:
        yield found


@pytest.fixture
def api() -> Iterator[httpx.Client]:
    with Coordinator() as found, httpx.Client(base_url=found.url) as client:
        yield client


def task(kind: str, ref: str = "t", **fields: Any) -> dict[str, Any]:
    return {"name": fields.pop("name", ref), "taskReferenceName": ref, "type": kind, **fields}


def http(uri: str, method: str = "GET", *, ref: str = "t", **request: Any) -> dict[str, Any]:
    return task("HTTP", ref, inputParameters={"http_request": {"uri": uri, "method": method, **request}})


def inline(expression: str, ref: str = "t", **given: Any) -> dict[str, Any]:
    return task("INLINE", ref, inputParameters={"evaluatorType": "javascript", "expression": expression, **given})


def start(api: httpx.Client, *tasks: dict[str, Any], given: dict[str, Any] | None = None, **fields: Any) -> str:
    name = f"flow{next(_numbers)}"
    answer = api.post("/metadata/workflow", json={"name": name, "tasks": tasks, **fields})
    assert answer.status_code == 200, answer.text
    answer = api.post(f"/workflow/{name}", json=given or {})
    assert answer.status_code == 200, answer.text
    return answer.text


def wait_until(look: Callable[[], Any]) -> Any:
    """Poll until the condition holds: no route waits for it."""
    ends_s = time.monotonic() + PATIENCE_S
    while not (found := look()):
        assert time.monotonic() < ends_s, "waited in vain"
        threading.Event().wait(0.02)
    return found


def ended(api: httpx.Client, workflow: str) -> dict[str, Any]:
    """The workflow once it is over."""
    found: dict[str, Any] = wait_until(lambda: over(api, workflow))
    return found


def over(api: httpx.Client, workflow: str) -> Any:
    found = api.get(f"/workflow/{workflow}").json()
    return None if found["status"] == "RUNNING" else found


def run(api: httpx.Client, *tasks: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return ended(api, start(api, *tasks, **fields))


def one(api: httpx.Client, *tasks: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """The first task of a workflow that was run to its end."""
    found: dict[str, Any] = run(api, *tasks, **fields)["tasks"][0]
    return found


class TestHttp:
    def test_an_http_task_says_what_was_answered(self, api: httpx.Client, far: FarServer) -> None:
        asked = http(
            f"{far.url}/echo?a=b c", "POST", body={"x": "${workflow.input.x}"}, headers={"X-Y": 5}, accept="text/plain"
        )
        found = one(api, asked, given={"x": [1]})
        response = found["outputData"]["response"]
        assert (found["status"], found["workerId"], found["taskType"]) == ("COMPLETED", "coordinator", "HTTP")
        assert (response["statusCode"], response["reasonPhrase"]) == (200, "OK")
        assert response["headers"]["Content-Type"] == ["application/json"]
        assert (response["body"]["method"], response["body"]["path"]) == ("POST", "/echo?a=b%20c")
        assert response["body"]["body"] == '{"x":[1]}'
        sent = response["body"]["headers"]
        assert (sent["X-Y"], sent["Accept"], sent["Content-Type"]) == ("5", "text/plain", "application/json")

    @pytest.mark.parametrize(("path", "body"), [("text/", "hello"), ("status/204", None)])
    def test_an_http_task_takes_what_is_no_json_as_text(
        self, api: httpx.Client, far: FarServer, path: str, body: Any
    ) -> None:
        assert one(api, http(f"{far.url}/{path}"))["outputData"]["response"]["body"] == body

    @pytest.mark.parametrize(
        ("uri", "said"),
        [
            ("{far}/status/404", '404 Not Found on GET request for "{far}/status/404": [no body]'),
            ("{far}/status/304", "No response from the remote service"),
            ("http://127.0.0.1:1/", "Connection refused"),
            ("file:///etc/passwd", "not an http or https address"),
            ("http://169.254.169.254/latest/meta-data/", "link-local, metadata and multicast"),
            ("http://[::ffff:169.254.169.254]/", "link-local, metadata and multicast"),
            ("http://[fe80::1]/", "link-local, metadata and multicast"),
            ("http://0.0.0.0:{port}/", "link-local, metadata and multicast"),
            ("http://2852039166/", "link-local, metadata and multicast"),
            ("{far}/to/http://169.254.169.254/", "link-local, metadata and multicast"),
            ("{far}/to/file:///etc/passwd", "not an http or https address"),
            ("{far}/to/{far}/status/500", "500 Internal Server Error"),
            ("{far}/to//to/", "more than 10 redirects"),
            (f"{{far}}/bytes/{MAX_HTTP_ANSWER_BYTES + 1}", "the limit of an HTTP task"),
            (f"{{far}}/packed/{MAX_HTTP_ANSWER_BYTES + 1}", "the limit of an HTTP task"),
            ("http://nowhere.invalid/", "I/O error on GET request"),
            ("http://user@:80/", "not an http or https address"),
            ("http://127.0.0.1:99999/", "is not a valid address"),
        ],
    )
    def test_an_http_task_fails_with_the_reason(self, api: httpx.Client, far: FarServer, uri: str, said: str) -> None:
        def filled(text: str) -> str:
            return text.replace("{far}", far.url).replace("{port}", str(far.port))

        found = run(api, http(filled(uri)))
        assert found["status"] == "FAILED"
        assert filled(said) in found["tasks"][0]["reasonForIncompletion"]

    def test_an_http_task_follows_redirects_and_another_origin_gets_three_headers_only_a11(
        self, api: httpx.Client, far: FarServer
    ) -> None:
        private = dict.fromkeys(
            ("Authorization", "Cookie", "X-Authorization", "X-Api-Key", "X-Auth-Token", "Host", "Referer"), "s"
        )
        with FarServer() as other:
            asked = http(
                f"{far.url}/kept/{other.url}/kept//echo", "POST", body="x", headers={**private, "User-Agent": "me"}
            )
            body = one(api, asked)["outputData"]["response"]["body"]
        assert (body["method"], body["body"]) == ("POST", "x")
        sent = {name: value for name, value in body["headers"].items() if value in ("s", "me", "application/json")}
        assert sent == {"Accept": "application/json", "Content-Type": "application/json", "User-Agent": "me"}
        assert body["headers"]["Host"] == f"127.0.0.1:{other.port}"
        assert far.call()["headers"].items() >= private.items()

    def test_an_http_task_follows_redirects_and_the_same_origin_gets_all_headers_a11(
        self, api: httpx.Client, far: FarServer
    ) -> None:
        asked = http(f"{far.url}/to//echo", headers={"Authorization": "s", "X-Api-Key": "k"})
        headers = one(api, asked)["outputData"]["response"]["body"]["headers"]
        assert (headers["Authorization"], headers["X-Api-Key"]) == ("s", "k")

    @pytest.mark.parametrize(
        ("charset", "encoding", "text"),
        [
            ("punycode", "utf-8", "a-\u00e9"),
            ("utf-7", "utf-8", "a-\u00e9"),
            ("idna", "utf-8", "a-\u00e9"),
            ("nonsense", "latin-1", "a-\ufffd"),
            ("ISO-8859-1", "latin-1", "a-\u00e9"),
            ("windows-1252", "cp1252", "a-\u00e9"),
            ("us-ascii", "latin-1", "a-\ufffd"),
            ("UTF-16", "utf-16", "a-\u00e9"),
        ],
    )
    def test_an_http_task_knows_a_few_charsets_and_reads_others_as_utf_8_a02(
        self, api: httpx.Client, far: FarServer, charset: str, encoding: str, text: str
    ) -> None:
        found = one(api, http(f"{far.url}/charset/{charset}/{encoding}"))["outputData"]["response"]
        assert found["body"] == text

    def test_an_http_task_counts_the_headers_of_an_answer_a12(self, api: httpx.Client, far: FarServer) -> None:
        assert one(api, http(f"{far.url}/headers/5"))["status"] == "COMPLETED"
        found = one(api, http(f"{far.url}/headers/90"))
        assert (found["status"], found["outputData"].keys()) == ("FAILED_WITH_TERMINAL_ERROR", {"response"})
        assert "bytes with its headers, the limit of an HTTP task" in found["reasonForIncompletion"]

    def test_an_http_task_is_tried_again_as_its_definition_says(self, api: httpx.Client, far: FarServer) -> None:
        api.post("/metadata/taskdefs", json=[{"name": "call", "retryCount": 2, "retryDelaySeconds": 0}])
        far.answers = [500, 503, 200]
        found = run(api, {**http(f"{far.url}/next/"), "name": "call"})
        assert found["status"] == "COMPLETED"
        assert [task["status"] for task in found["tasks"]] == ["FAILED", "FAILED", "COMPLETED"]

    def test_an_asynchronous_http_task_is_ended_from_outside(self, api: httpx.Client, far: FarServer) -> None:
        workflow = start(api, {**http(f"{far.url}/echo"), "asyncComplete": True})
        far.call()
        wait_until(lambda: api.get(f"/workflow/{workflow}").json()["tasks"][0]["outputData"])
        (waiting,) = api.get(f"/workflow/{workflow}").json()["tasks"]
        assert (waiting["status"], waiting["outputData"]["response"]["statusCode"]) == ("IN_PROGRESS", 200)
        assert api.post(f"/tasks/{workflow}/t/COMPLETED", json={"more": 1}).status_code == 200
        assert set(ended(api, workflow)["tasks"][0]["outputData"]) == {"response", "more"}

    def test_an_http_task_of_an_ended_workflow_changes_nothing(self, api: httpx.Client, far: FarServer) -> None:
        workflow = start(api, http(f"{far.url}/held", readTimeOut=60_000))
        far.call()
        assert api.delete(f"/workflow/{workflow}").status_code == 200
        far.released.set()
        # The call behind it is answered later than this one: then the report of this one has been judged.
        assert one(api, http(f"{far.url}/text/"))["status"] == "COMPLETED"
        (left,) = api.get(f"/workflow/{workflow}").json()["tasks"]
        assert (left["status"], left["outputData"]) == ("CANCELED", {})

    def test_an_http_task_is_limited_as_its_definition_says(self, api: httpx.Client, far: FarServer) -> None:
        api.post("/metadata/taskdefs", json=[{"name": "call", "concurrentExecLimit": 1}])
        asked = {**http(f"{far.url}/held", readTimeOut=60_000), "name": "call"}
        workflows = [start(api, asked) for _ in range(2)]
        far.call()
        statuses = [api.get(f"/workflow/{one}").json()["tasks"][0]["status"] for one in workflows]
        assert sorted(statuses) == ["IN_PROGRESS", "SCHEDULED"]
        far.released.set()
        assert [ended(api, one)["status"] for one in workflows] == ["COMPLETED", "COMPLETED"]

    def test_an_http_task_ends_although_its_answer_never_does(
        self, api: httpx.Client, far: FarServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(system_workers, "MAX_HTTP_CALL_S", 1)
        found = one(api, http(f"{far.url}/drip", readTimeOut=60_000))
        assert (found["status"], "no complete answer" in found["reasonForIncompletion"]) == ("FAILED", True)
        assert far.released.wait(PATIENCE_S), "the connection is still there"

    def test_an_http_task_takes_a_packed_answer(self, api: httpx.Client, far: FarServer) -> None:
        assert one(api, http(f"{far.url}/packed/5"))["outputData"]["response"]["body"] == "xxxxx"

    def test_an_http_task_asks_for_a_certificate_that_can_be_trusted(self, api: httpx.Client, far: FarServer) -> None:
        found = one(api, http(far.url.replace("http:", "https:")))
        assert (found["status"], "SSL" in found["reasonForIncompletion"].upper()) == ("FAILED", True)

    def test_an_http_task_loses_its_lease_as_any_worker_does(self, far: FarServer) -> None:
        clock = FakeClock()
        with Coordinator(clock=clock) as found, httpx.Client(base_url=found.url) as api:
            definition = {"name": "call", "retryCount": 1, "retryDelaySeconds": 0, "responseTimeoutSeconds": 30}
            api.post("/metadata/taskdefs", json=[definition])
            workflow = start(api, {**http(f"{far.url}/held", readTimeOut=60_000), "name": "call"})
            far.call()
            clock.advance(31)
            far.call()  # the second attempt, while the first still waits
            far.released.set()
            tasks = ended(api, workflow)["tasks"]
        assert [task["status"] for task in tasks] == ["TIMED_OUT", "COMPLETED"]

    def test_an_http_task_is_for_no_other_worker(self, api: httpx.Client, far: FarServer) -> None:
        workflow = start(api, http(f"{far.url}/held", readTimeOut=60_000))
        far.call()
        api.post("/metadata/taskdefs", json=[{"name": "t", "concurrentExecLimit": 1}])
        waiting = start(api, http(f"{far.url}/held"))
        for domain in ("", " system/http", "system/http"):
            assert api.get("/tasks/poll/batch/t", params={"domain": domain, "timeout": 0}).json() == []
        held = api.get(f"/workflow/{workflow}").json()["tasks"][0]
        assert "domain" not in held
        body = {key: held[key] for key in ("taskId", "workflowInstanceId")} | {"status": "COMPLETED"}
        assert api.post("/tasks/update-v2", json={**body, "workerId": "coordinator"}).status_code == 204
        assert ended(api, workflow)["status"] == "COMPLETED"
        far.released.set()
        assert ended(api, waiting)["status"] == "COMPLETED"


class TestHostsOfHttpTasks:
    def test_http_tasks_call_only_the_listed_hosts(self, far: FarServer) -> None:
        with (
            Coordinator(http_task_hosts=[f"127.0.0.1:{far.port}"]) as found,
            httpx.Client(base_url=found.url) as api,
        ):
            assert one(api, http(f"{far.url}/text/"))["status"] == "COMPLETED"
            itself = one(api, http(f"{found.url}/version"))
            redirected = one(api, http(f"{far.url}/to/{found.url}/version"))
        assert itself["status"] == redirected["status"] == "FAILED_WITH_TERMINAL_ERROR"
        assert "not one of the hosts that HTTP tasks may call" in itself["reasonForIncompletion"]
        assert "not one of the hosts that HTTP tasks may call" in redirected["reasonForIncompletion"]

    def test_a_name_is_called_at_the_address_that_was_checked(
        self, far: FarServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The second answer of a name server that lies is never asked for."""
        real, asked = socket.getaddrinfo, list[str]()

        def resolve(host: Any, *rest: Any, **named: Any) -> Any:
            if host != "rebinding.example":
                return real(host, *rest, **named)
            asked.append(host)
            return real("127.0.0.1" if len(asked) == 1 else "169.254.169.254", *rest, **named)

        monkeypatch.setattr(socket, "getaddrinfo", resolve)
        with Coordinator() as found, httpx.Client(base_url=found.url) as api:
            uri = f"http://rebinding.example:{far.port}/echo"
            first, second = one(api, http(uri)), one(api, http(uri))
        assert first["outputData"]["response"]["body"]["headers"]["Host"] == f"rebinding.example:{far.port}"
        assert "link-local" in second["reasonForIncompletion"]
        assert len(asked) == 2


class TestScripts:
    def test_an_inline_task_has_the_value_of_its_script(self, api: httpx.Client) -> None:
        found = one(
            api,
            inline("(() => ({sum: $.l.reduce((a, b) => a + b, 0)}))()", l="${workflow.input.l}"),
            given={"l": [1, 2]},
        )
        assert (found["status"], found["outputData"]) == ("COMPLETED", {"result": {"sum": 3}})

    def test_the_value_of_a_parameter(self, api: httpx.Client) -> None:
        given = {"evaluatorType": "value-param", "expression": "x", "x": {"a": 1}}
        assert one(api, task("INLINE", inputParameters=given))["outputData"] == {"result": {"a": 1}}

    @pytest.mark.parametrize(
        ("given", "status", "said"),
        [
            ({"expression": "nope"}, "FAILED_WITH_TERMINAL_ERROR", "Error evaluating the script `ReferenceError: nope"),
            ({"expression": ""}, "FAILED_WITH_TERMINAL_ERROR", "Empty 'expression'"),
            ({"expression": "1", "evaluatorType": "${workflow.input.e}"}, "FAILED_WITH_TERMINAL_ERROR", "'groovy'"),
        ],
    )
    def test_an_inline_script_that_fails_fails_its_task(
        self, api: httpx.Client, given: dict[str, Any], status: str, said: str
    ) -> None:
        found = one(api, task("INLINE", inputParameters=given), given={"e": "groovy"})
        assert found["status"] == status
        assert said in found["reasonForIncompletion"]
        assert found["outputData"] == {"error": found["reasonForIncompletion"]}

    def test_a_lambda_task_has_the_value_of_its_script(self, api: httpx.Client) -> None:
        given = {"x": 3, "scriptExpression": "if ($.x == 3) { return {a: true} } // else\n"}
        assert one(api, task("LAMBDA", inputParameters=given))["outputData"] == {"result": {"a": True}}

    def test_lambda_that_fails_is_tried_again(self, api: httpx.Client) -> None:
        api.post("/metadata/taskdefs", json=[{"name": "l", "retryCount": 1, "retryDelaySeconds": 0}])
        found = run(api, task("LAMBDA", "l", inputParameters={"scriptExpression": "throw 'x'"}))
        assert [task["status"] for task in found["tasks"]] == ["FAILED", "FAILED"]

    def test_a_jq_task_has_the_values_of_its_query(self, api: httpx.Client) -> None:
        found = one(api, task("JSON_JQ_TRANSFORM", inputParameters={"queryExpression": ".l[] | . + 1", "l": [1, 2]}))
        assert found["outputData"] == {"result": 2, "resultList": [2, 3]}

    def test_a_jq_query_that_fails_fails_its_task(self, api: httpx.Client) -> None:
        found = one(api, task("JSON_JQ_TRANSFORM", inputParameters={"queryExpression": ".l + 1", "l": "x"}))
        assert found["status"] == "FAILED"
        assert found["outputData"] == {"error": found["reasonForIncompletion"]}
        assert "cannot be added" in found["reasonForIncompletion"]

    @pytest.mark.parametrize("characters", [512, 64 * 1024, 9 * 1024 * 1024])
    def test_long_values_come_back_whole_s01(self, api: httpx.Client, characters: int) -> None:
        text = f"'x'.repeat({characters})"
        found = one(api, inline(text))
        assert (found["status"], found["outputData"]["result"]) == ("COMPLETED", "x" * characters)
        found = one(api, task("LAMBDA", inputParameters={"scriptExpression": f"return [{text}]"}))
        assert (found["status"], found["outputData"]["result"]) == ("COMPLETED", ["x" * characters])

    def test_a_long_error_is_final_and_says_why_s01(self, api: httpx.Client) -> None:
        found = one(api, inline("throw new Error('x'.repeat(600))"))
        assert found["status"] == "FAILED_WITH_TERMINAL_ERROR"
        assert found["outputData"]["error"] == f"Error evaluating the script `Error: {'x' * 600}` at line 1"
        found = one(api, task("LAMBDA", inputParameters={"scriptExpression": "throw 'x'.repeat(600)"}))
        assert found["outputData"]["error"] == f"Error evaluating the script `{'x' * 600}`"

    def test_a_short_script_does_not_wait_for_endless_ones_a12(self, api: httpx.Client) -> None:
        endless = [start(api, inline("while (true) {}")) for _ in range(60)]
        short = start(api, inline("1 + 1"))
        query = start(api, task("JSON_JQ_TRANSFORM", inputParameters={"queryExpression": ".a", "a": 1}))
        assert ended(api, short)["output"] == {"result": 2}
        assert ended(api, query)["status"] == "COMPLETED"
        running = [workflow for workflow in endless if over(api, workflow) is None]
        assert len(running) > len(endless) // 2, "they take 4 seconds each, the short one did not wait for them"

    def test_hostile_ones_end_while_the_server_answers_and_others_run(self, api: httpx.Client) -> None:
        hostile = ["while (true) {}", "new Array(1e9).join()", "var a = []; while (true) a.push(a.concat(a))"]
        workflows = [start(api, inline(script)) for script in hostile]
        plain = start(api, task("SIMPLE", name="by_hand"))
        taken = api.get("/tasks/poll/by_hand").json()
        body = {key: taken[key] for key in ("taskId", "workflowInstanceId", "leaseId")} | {"status": "COMPLETED"}
        assert api.post("/tasks", json=body).status_code == 200
        assert ended(api, plain)["status"] == "COMPLETED"
        behind = start(api, inline("1 + 1"))
        found = [ended(api, one) for one in workflows]
        assert [one["status"] for one in found] == ["FAILED"] * 3
        assert "not evaluated within 4 seconds" in found[0]["reasonForIncompletion"]
        assert ended(api, behind)["output"] == {"result": 2}


def switch(expression: str, *, ref: str = "s", **fields: Any) -> dict[str, Any]:
    cases = {case: [task("NOOP", f"{ref}_{case}")] for case in ("yes", "no")}
    return task("SWITCH", ref, evaluatorType="javascript", expression=expression, decisionCases=cases, **fields)


def refs(workflow: dict[str, Any]) -> list[str]:
    return [task["referenceTaskName"] for task in workflow["tasks"]]


class TestConditions:
    """A SWITCH or a loop that needs more of JavaScript than a condition waits for its script."""

    def test_a_switch_evaluates_a_script(self, api: httpx.Client) -> None:
        found = run(
            api, switch("['a', 'b'].includes($.x) ? 'yes' : 'no'", inputParameters={"x": "b"}), task("NOOP", "end")
        )
        assert refs(found) == ["s", "s_yes", "end"]
        (first, *_) = found["tasks"]
        assert first["inputData"] == {"x": "b", "case": "yes", "hasChildren": "true"}
        assert first["outputData"] == {"evaluationResult": ["yes"], "selectedCase": "yes"}

    def test_a_decision_evaluates_a_script(self, api: httpx.Client) -> None:
        cases = {"a": [task("NOOP", "a")]}
        found = run(api, task("DECISION", "d", caseExpression="'cab'.charAt(1)", decisionCases=cases))
        assert refs(found) == ["d", "a"]

    def test_a_switch_whose_script_fails_ends_the_workflow(self, api: httpx.Client) -> None:
        found = run(api, switch("(() => { throw new Error('bad'); })()"))
        assert found["status"] == "FAILED"
        assert "Error evaluating the script `Error: bad`" in found["reasonForIncompletion"]

    def test_long_values_and_errors_come_back_whole_s01(self, api: httpx.Client) -> None:
        case = "x" * 600
        found = run(api, switch("'x'.repeat(600)") | {"decisionCases": {case: [task("NOOP", "long")]}})
        assert (found["status"], refs(found)) == ("COMPLETED", ["s", "long"])
        found = run(api, switch("throw 'x'.repeat(600)"))
        assert found["tasks"][0]["reasonForIncompletion"].startswith("Error evaluating the script `xxx")

    @pytest.mark.parametrize(
        ("expression", "case"),
        [
            ("'' + $.a * $.a * $.a", "Infinity"),
            ("'' + (0 - $.a * $.a)", "-Infinity"),
            ("$.a - $.a", "NaN"),
            ("9" * 5000 + " > 1 ? 'big' : 'small'", "big"),
            ("'' + 9007199254740991 * 10", "90071992547409900"),
            ("[1] == 1 && '0x10' == 16 && 010 == 8", "true"),
        ],
    )
    def test_odd_values_are_those_of_javascript_a08(self, api: httpx.Client, expression: str, case: str) -> None:
        asking = switch(expression, inputParameters={"a": "${workflow.input.a}"})
        found = ended(api, start(api, asking, given={"a": int("9" * 1500)}))
        assert found["tasks"][0]["outputData"]["selectedCase"] == case

    def test_a_text_that_is_too_large_fails(self, api: httpx.Client) -> None:
        asking = switch("$.a + $.a + $.a", inputParameters={"a": "${workflow.input.a}"})
        found = ended(api, start(api, asking, given={"a": "x" * 5_000_000}))
        assert found["status"] == "FAILED"
        assert "has more than 10485760 bytes" in found["reasonForIncompletion"]

    def test_an_optional_switch_whose_script_fails_is_skipped(self, api: httpx.Client) -> None:
        found = run(api, switch("nope()", optional=True), task("NOOP", "end"))
        assert (found["status"], refs(found)[-1]) == ("COMPLETED", "end")

    def test_a_loop_evaluates_a_script(self, api: httpx.Client) -> None:
        body = [
            inline("$.n * 2", "double", n="${l.output.iteration}"),
            switch("[1, 3].indexOf($.n) < 0 ? 'no' : 'yes'", inputParameters={"n": "${l.output.iteration}"}),
        ]
        condition = "Math.max(...Object.values($.double)) < 6"
        found = run(api, task("DO_WHILE", "l", loopCondition=condition, loopOver=body))
        assert found["status"] == "COMPLETED"
        loop = found["tasks"][0]
        assert loop["iteration"] == 3
        assert [loop["outputData"][str(n)]["double"]["result"] for n in (1, 2, 3)] == [2, 4, 6]
        assert "s_yes__3" in refs(found)
        assert "s_no__2" in refs(found)

    def test_each_round_of_a_loop_asks_anew(self, api: httpx.Client) -> None:
        loop = task("DO_WHILE", "l", loopCondition="Math.abs($.l.iteration) < 3", loopOver=[task("NOOP", "n")])
        assert refs(run(api, loop)) == ["l", "n__1", "n__2", "n__3"]

    def test_loop_whose_condition_fails(self, api: httpx.Client) -> None:
        found = run(api, task("DO_WHILE", "l", loopCondition="nope()", loopOver=[task("NOOP", "n")]))
        assert found["tasks"][0]["status"] == "FAILED_WITH_TERMINAL_ERROR"
        assert "Unable to evaluate condition nope(), exception" in found["tasks"][0]["reasonForIncompletion"]

    def test_a_condition_that_never_ends_ends_the_workflow(self, api: httpx.Client) -> None:
        found = run(api, switch("(() => { while (true) {} })()"))
        assert "not evaluated within 4 seconds" in found["reasonForIncompletion"]

    def test_a_condition_decided_during_a_pause_is_evaluated_again(self, api: httpx.Client) -> None:
        by_hand = task("SIMPLE", name="by_hand")
        workflow = start(api, by_hand, switch("String.fromCharCode(121) + 'es'"))
        taken = api.get("/tasks/poll/by_hand").json()
        body = {key: taken[key] for key in ("taskId", "workflowInstanceId", "leaseId")} | {"status": "COMPLETED"}
        assert api.post("/tasks", json=body).status_code == 200
        api.put(f"/workflow/{workflow}/pause")
        api.put(f"/workflow/{workflow}/resume")
        assert refs(ended(api, workflow))[-1] == "s_yes"


class TestTogetherWithControl:
    """Where such tasks stand does not matter."""

    def test_system_tasks_run_as_branches_of_a_dynamic_fork(self, api: httpx.Client, far: FarServer) -> None:
        made = [http(f"{far.url}/text/", ref="a"), inline("1 + 1", "b"), task("COFFEE_MACHINE", "c", name="x")]
        fork = task(
            "FORK_JOIN_DYNAMIC",
            "f",
            dynamicForkTasksParam="tasks",
            dynamicForkTasksInputParamName="inputs",
            inputParameters={"tasks": made, "inputs": {}},
        )
        workflow = start(api, fork, task("JOIN", "j"))
        taken = api.get("/tasks/poll/COFFEE_MACHINE").json()
        assert (taken["taskType"], taken["taskDefName"]) == ("COFFEE_MACHINE", "x")
        body = {key: taken[key] for key in ("taskId", "workflowInstanceId", "leaseId")} | {"status": "COMPLETED"}
        assert api.post("/tasks", json=body).status_code == 200
        found = ended(api, workflow)
        joined = next(one for one in found["tasks"] if one["referenceTaskName"] == "j")["outputData"]
        assert (found["status"], joined["b"]) == ("COMPLETED", {"result": 2})
        assert joined["a"]["response"]["body"] == "hello"

    def test_a_loop_with_a_script_inside_of_a_fork(self, api: httpx.Client) -> None:
        loop = task("DO_WHILE", "l", loopCondition="Math.min($.l.iteration, 3) < 3", loopOver=[task("NOOP", "n")])
        found = run(api, task("FORK_JOIN", "f", forkTasks=[[loop], [switch("'y'.concat('es')")]]), task("JOIN", "j"))
        assert (found["status"], "n__3" in refs(found), "s_yes" in refs(found)) == ("COMPLETED", True, True)

    def test_loops_in_loops_with_scripts(self, api: httpx.Client) -> None:
        inner = task("DO_WHILE", "i", loopCondition="Math.abs($.i.iteration) < 3", loopOver=[inline("1", "n")])
        found = run(api, task("DO_WHILE", "o", loopCondition="Math.abs($.o.iteration) < 2", loopOver=[inner]))
        assert found["status"] == "COMPLETED"
        assert sum(ref.startswith("n__") for ref in refs(found)) == 6

    def test_a_retry_of_the_workflow_calls_again(self, api: httpx.Client, far: FarServer) -> None:
        far.answers = [500, 200]
        workflow = start(api, http(f"{far.url}/next/"))
        assert ended(api, workflow)["status"] == "FAILED"
        assert api.post(f"/workflow/{workflow}/retry").status_code == 204
        found = ended(api, workflow)
        assert [one["status"] for one in found["tasks"]] == ["FAILED", "COMPLETED"]

    def test_a_rerun_calls_again_under_the_same_id(self, api: httpx.Client, far: FarServer) -> None:
        far.answers = [500, 200]
        workflow = start(api, http(f"{far.url}/next/"))
        (before,) = ended(api, workflow)["tasks"]
        answer = api.post(f"/workflow/{workflow}/rerun", json={"reRunFromTaskId": before["taskId"]})
        assert answer.status_code == 200
        (after,) = ended(api, workflow)["tasks"]
        assert (after["taskId"], after["status"]) == (before["taskId"], "COMPLETED")

    def test_a_rerun_of_what_waited_for_its_script_asks_again(self, api: httpx.Client) -> None:
        endless = switch("while ($.go) {} 'yes'", inputParameters={"go": "${workflow.input.go}"})
        body = [task("NOOP", "n")]
        loop = task(
            "DO_WHILE",
            "l",
            loopCondition="while ($.go) {} false",
            loopOver=body,
            inputParameters={"go": "${workflow.input.go}"},
        )
        for waiting, last in ((endless, "s_yes"), (loop, "n__1")):
            workflow = start(api, waiting, given={"go": True})
            wait_until(partial(is_at_work, api, workflow))
            assert api.delete(f"/workflow/{workflow}").status_code == 200
            first = api.get(f"/workflow/{workflow}").json()["tasks"][0]
            again = {"reRunFromTaskId": first["taskId"], "workflowInput": {"go": False}}
            assert api.post(f"/workflow/{workflow}/rerun", json=again).status_code == 200
            found = ended(api, workflow)
            assert (found["status"], refs(found)[-1]) == ("COMPLETED", last)


def is_at_work(api: httpx.Client, workflow: str) -> bool:
    """Whether the script of a workflow's first task runs."""
    return bool(api.get(f"/workflow/{workflow}").json()["tasks"][0].get("workerId"))


class TestEventsAndStarts:
    @pytest.mark.parametrize(("sink", "name"), [("conductor", "e"), ("conductor:paid", "paid")])
    def test_an_event_task_publishes_its_input(self, sink: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        published: list[tuple[str, dict[str, Any]]] = []
        monkeypatch.setattr(start_tasks, "publish_event", lambda tx, name, payload: published.append((name, payload)))
        with Coordinator() as found, httpx.Client(base_url=found.url) as api:
            workflow = run(api, task("EVENT", "e", sink=sink, inputParameters={"a": 1}))
            (done,) = workflow["tasks"]
        event = f"conductor:{workflow['workflowName']}:{name}"
        assert done["outputData"] == {
            "a": 1,
            "sink": sink,
            "asyncComplete": False,
            "event_produced": event,
            "workflowType": workflow["workflowName"],
            "workflowVersion": 1,
            "workflowInstanceId": workflow["workflowId"],
            "correlationId": None,
            "taskToDomain": {},
        }
        assert published == [(event, done["outputData"])]

    def test_an_event_handler_starts_what_an_event_asks_for(self, api: httpx.Client) -> None:
        api.post("/metadata/workflow", json={"name": "told", "tasks": [task("NOOP", "n")]}).raise_for_status()
        action = {
            "action": "start_workflow",
            "start_workflow": {"name": "told", "input": {"of": "${workflowInstanceId}"}},
        }
        handler = {"name": "h", "event": "conductor:teller:paid", "active": True, "actions": [action]}
        api.post("/event", json=handler).raise_for_status()
        api.post("/metadata/workflow", json={"name": "teller", "tasks": [task("EVENT", "e", sink="conductor:paid")]})
        teller = ended(api, api.post("/workflow/teller", json={}).text)
        wait_until(lambda: api.get("/workflow/search", params={"query": "workflowType = told"}).json()["totalHits"])
        (found,) = api.get("/workflow/search", params={"query": "workflowType = told"}).json()["results"]
        assert teller["workflowId"] in found["input"]

    def test_event_that_somebody_else_ends(self, api: httpx.Client) -> None:
        workflow = start(api, task("EVENT", "e", sink="conductor", asyncComplete=True))
        wait_until(lambda: api.get(f"/workflow/{workflow}").json()["tasks"][0]["outputData"])
        assert api.get(f"/workflow/{workflow}").json()["tasks"][0]["status"] == "IN_PROGRESS"
        api.post(f"/tasks/{workflow}/e/COMPLETED", json={})
        assert ended(api, workflow)["status"] == "COMPLETED"

    def test_an_event_without_a_known_sink_fails(self, api: httpx.Client) -> None:
        for sink in ("sqs:q", "${workflow.input.sink}"):
            found = one(api, task("EVENT", "e", sink=sink), given={"sink": "sqs:q"})
            assert found["status"] == "FAILED"
            assert "Unknown queue type sqs: the sink of this EVENT is 'sqs:q'" in found["reasonForIncompletion"]

    def test_a_start_workflow_task_starts_a_workflow(self, api: httpx.Client) -> None:
        api.post("/metadata/workflow", json={"name": "other", "tasks": [task("HUMAN", "h")]})
        asked = {"name": "other", "input": {"a": "${workflow.input.a}"}, "correlationId": "c"}
        found = one(api, task("START_WORKFLOW", "s", inputParameters={"startWorkflow": asked}), given={"a": 5})
        started = api.get(f"/workflow/{found['outputData']['workflowId']}").json()
        assert (started["status"], started["input"], started["correlationId"]) == ("RUNNING", {"a": 5}, "c")
        assert "parentWorkflowId" not in started

    @pytest.mark.parametrize(
        ("given", "said"),
        [
            ({}, "Missing 'startWorkflow' in input data."),
            ({"startWorkflow": "x"}, "Error reading StartWorkflowRequest"),
            ({"startWorkflow": {"input": {}}}, "Workflow name cannot be null or empty"),
            ({"startWorkflow": {"name": "nope"}}, "No such workflow defined. name=nope, version=null"),
            ({"startWorkflow": {"name": "x", "priority": 100}}, "priority: 100"),
            ({"startWorkflow": {"name": "x", "workflowDef": {"tasks": []}}}, "at least one task"),
        ],
    )
    def test_start_workflow_that_fails(self, api: httpx.Client, given: dict[str, Any], said: str) -> None:
        found = one(api, task("START_WORKFLOW", "s", inputParameters=given))
        assert found["status"] == "FAILED"
        assert said in found["reasonForIncompletion"]

    def test_many_workflows_are_started_at_once(self, api: httpx.Client) -> None:
        branches = [[task("EVENT", f"e{n}", sink="conductor")] for n in range(50)]
        found = run(
            api, task("FORK_JOIN", "f", forkTasks=branches), task("JOIN", "j", joinOn=[f"e{n}" for n in range(50)])
        )
        assert found["status"] == "COMPLETED"


def test_noop_completes_and_human_waits(api: httpx.Client) -> None:
    workflow = start(api, task("NOOP", "n", inputParameters={"a": 1}), task("HUMAN", "h"))
    noop, human = api.get(f"/workflow/{workflow}").json()["tasks"]
    assert (noop["status"], noop["inputData"], human["status"]) == ("COMPLETED", {}, "IN_PROGRESS")
    assert api.post(f"/tasks/{workflow}/h/COMPLETED", json={"by": "me"}).status_code == 200
    assert ended(api, workflow)["output"] == {"by": "me"}


def test_a_type_that_somebody_made_up_is_polled_by_its_name(api: httpx.Client) -> None:
    start(api, task("USER_TASK", "u", name="whatever"))
    assert api.get("/tasks/poll/whatever").status_code == 204
    taken = api.get("/tasks/poll/USER_TASK").json()
    assert (taken["taskType"], taken["taskDefName"]) == ("USER_TASK", "whatever")
    body = {key: taken[key] for key in ("taskId", "workflowInstanceId", "leaseId")} | {"status": "FAILED"}
    api.post("/tasks", json=body)
    # Without a definition it is not tried again, as on a Conductor server.
    assert ended(api, taken["workflowInstanceId"])["status"] == "FAILED"


class TestRestarts:
    """The next process runs the tasks that the last one was running."""

    def test_system_tasks_go_on_after_kill_9(self, tmp_path: Path, far: FarServer) -> None:
        database = tmp_path / "coordinator.db"
        with Server(database) as server, httpx.Client(base_url=f"{server.url}/api") as api:
            workflow = start(api, http(f"{far.url}/held", readTimeOut=60_000), switch("'y'.concat('es')"))
            far.call()
        far.released.set()
        with Server(database) as server, httpx.Client(base_url=f"{server.url}/api") as api:
            found = ended(api, workflow)
        assert refs(found) == ["t", "s", "s_yes"]
        assert (found["status"], found["tasks"][0]["pollCount"]) == ("COMPLETED", 2)

    def test_system_tasks_go_on_after_a_stop(self, tmp_path: Path, far: FarServer) -> None:
        database = tmp_path / "coordinator.db"
        with Coordinator(database) as found, httpx.Client(base_url=found.url) as api:
            workflow = start(api, http(f"{far.url}/held", readTimeOut=60_000))
            endless = start(api, inline("while (true) {}"))
            far.call()
        far.released.set()
        with Coordinator(database) as found, httpx.Client(base_url=found.url) as api:
            assert ended(api, workflow)["status"] == "COMPLETED"
            assert ended(api, endless)["status"] == "FAILED"

    def test_a_coordinator_without_such_tasks_has_no_process_for_scripts(self) -> None:
        with Coordinator() as found, httpx.Client(base_url=found.url) as api:
            run(api, task("NOOP", "n"))
            assert found.workers is not None
            assert found.workers.scripts.pids == []
            run(api, inline("1"))
            assert len(found.workers.scripts.pids) == 1


class TestAnswersWithScripts:
    """The answer contains the decisions that Conductor makes before it answers. The clock stands still."""

    @pytest.fixture
    def clock(self) -> FakeClock:
        return FakeClock()

    @pytest.fixture
    def api(self, clock: FakeClock) -> Iterator[httpx.Client]:
        with Coordinator(clock=clock) as found, httpx.Client(base_url=found.url, timeout=PATIENCE_S) as client:
            yield client

    def test_a_workflow_of_scripts_has_ended_when_its_start_is_answered_s04(self, api: httpx.Client) -> None:
        query = task("JSON_JQ_TRANSFORM", "q", inputParameters={"queryExpression": ".a", "a": "${i.output.result}"})
        found = api.get(f"/workflow/{start(api, inline('1 + 1', 'i'), query)}").json()
        assert (found["status"], found["output"]["result"]) == ("COMPLETED", 2)

    def test_a_synchronous_update_shows_the_scripts_behind_it_s04(self, api: httpx.Client) -> None:
        condition = "(function () { return $.n > 1 ? 'many' : 'few'; })()"
        choice = task(
            "SWITCH",
            "s",
            evaluatorType="javascript",
            expression=condition,
            inputParameters={"n": "${a.output.n}"},
            decisionCases={"many": [inline("$.n * 2", "twice", n="${a.output.n}")]},
        )
        again = "(function () { return $.l.iteration < 3; })()"
        rounds = task("DO_WHILE", "l", loopCondition=again, loopOver=[inline("1", "i")])
        workflow = start(api, task("HUMAN", "a"), choice, rounds, task("HUMAN", "b"))
        found = api.post(f"/tasks/{workflow}/a/COMPLETED/sync", json={"n": 2}).json()
        shown = [(one["referenceTaskName"], one["status"]) for one in found["tasks"]]
        done = ["a", "s", "twice", "l", "i__1", "i__2", "i__3"]
        assert shown == [*((ref, "COMPLETED") for ref in done), ("b", "IN_PROGRESS")]

    def test_a_script_that_takes_long_is_waited_for_half_a_second_s04(
        self, api: httpx.Client, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        running, may_end = threading.Event(), threading.Event()

        def slow(*args: Any) -> Any:
            running.set()
            assert may_end.wait(PATIENCE_S)
            return run(*args)

        run = run_script_task
        monkeypatch.setattr(system_workers, "run_script_task", slow)
        with ThreadPoolExecutor(1) as beside:
            answer = beside.submit(start, api, inline("1 + 1", "i"))
            assert running.wait(PATIENCE_S)
            assert not answer.done()
            while not answer.done():
                clock.advance(WAIT_FOR_SCRIPTS_S)
                threading.Event().wait(0.02)
            workflow = answer.result()
        assert api.get(f"/workflow/{workflow}").json()["status"] == "RUNNING"
        may_end.set()
        assert ended(api, workflow)["status"] == "COMPLETED"
