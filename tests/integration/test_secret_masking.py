"""The value of a secret is in no answer, log, file or backup, whatever a task of the coordinator does with it."""

from __future__ import annotations

import base64
import html
import json
import logging
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import httpx
import pytest

from conductor.coordinator import Coordinator
from conductor.coordinator.store.online_backup import back_up
from conductor.coordinator.system import system_workers
from tests.integration.far_server import FarServer
from tests.integration.test_system_tasks import ended, http, start, wait_until

PLAIN = "Distinctive-4711-value-of-a-secret"
#: Every encoding writes some of its characters in another way.
ODD = 'Odd/v\u00e4lue 4712 "quoted" <&> 100% \\ end'
NUMBER = "90210471155"
SECRETS = {"PLAIN": PLAIN, "ODD": ODD, "NUMBER": NUMBER}
#: Parts of the values, which engines quote in their messages.
PARTS = ("Distinctive", "istinctive-4711", "Odd/v", "lue 4712", "9021047115")


def secret(name: str) -> str:
    return f"${{workflow.secrets.{name}}}"


def task(kind: str, **given: Any) -> dict[str, Any]:
    return {"name": "t", "taskReferenceName": "t", "type": kind, "inputParameters": given}


def inline(expression: str) -> dict[str, Any]:
    return task("INLINE", evaluatorType="javascript", expression=expression, **placeholders())


def lambda_(body: str) -> dict[str, Any]:
    return task("LAMBDA", scriptExpression=body, **placeholders())


def jq(query: str) -> dict[str, Any]:
    return task("JSON_JQ_TRANSFORM", queryExpression=query, **placeholders())


def placeholders() -> dict[str, str]:
    return {name: secret(name) for name in SECRETS}


SCRIPTS = {
    "inline whole": inline("$.PLAIN"),
    "inline inside": inline("'Bearer ' + $.PLAIN + ', ' + $.ODD"),
    "inline key": inline("({[$.PLAIN]: {[$.ODD]: [$.ODD, [$.PLAIN]]}})"),
    "inline json": inline("JSON.stringify(JSON.stringify($))"),
    "inline percent": inline("encodeURIComponent($.ODD) + encodeURI($.PLAIN)"),
    "inline number": inline("Number($.NUMBER)"),
    "inline lower case": inline("$.PLAIN.toLowerCase() + $.PLAIN.toUpperCase()"),
    "inline expression": inline(f"'{secret('PLAIN')}'"),
    "inline throw": inline("throw new Error('no access with ' + $.PLAIN + $.ODD)"),
    "inline syntax": inline("JSON.parse($.PLAIN)"),
    "inline reference": inline("(0, eval)($.PLAIN)"),
    "inline property": inline("null[$.ODD]"),
    "inline wrong expression": inline(f"{secret('PLAIN')} is no script"),
    "inline evaluator": task("INLINE", evaluatorType=secret("PLAIN"), expression="1"),
    "inline value-param": task("INLINE", evaluatorType="value-param", expression="a", a=secret("PLAIN")),
    "lambda whole": lambda_("return $.PLAIN;"),
    "lambda throw": lambda_("throw $.ODD + $.PLAIN;"),
    "lambda wrong": lambda_(f"return {secret('PLAIN')}-;"),
    "jq whole": jq("[.PLAIN, {(.ODD): .PLAIN}]"),
    "jq number": jq(".NUMBER | tonumber"),
    "jq base64": jq('[("u:" + .PLAIN | @base64), (.PLAIN | @base64), ("us:" + .PLAIN | @base64)]'),
    "jq uri": jq("[(.ODD | @uri), (.ODD | @html), (. | @json)]"),
    "jq error": jq("error(.PLAIN + .ODD)"),
    "jq conversion": jq(".PLAIN | tonumber"),
    "jq index": jq(".ODD | .[.]"),
    "jq wrong query": jq(f"{secret('PLAIN')} |"),
}

CALLS: dict[str, dict[str, Any]] = {
    "echo": http("{far}/echo?k=" + secret("PLAIN") + "&o=" + secret("ODD"), headers={"X-Key": secret("PLAIN")}),
    "echo of a header": http("{far}/mirror/" + secret("ODD"), headers={"X-Key": secret("ODD")}),
    "echo of a body": http("{far}/echo", "POST", body={"a": secret("ODD"), "b": [secret("PLAIN")]}),
    "echo of a text": http("{far}/mirror/", "POST", body=f"x{secret('ODD')}y", contentType="text/plain"),
    "bad status": http("{far}/complain/?k=" + secret("PLAIN") + secret("ODD"), "POST", body={"a": secret("ODD")}),
    "cut": http("{far}/complain/" + "x" * 400 + secret("PLAIN")),
    "redirect": http("{far}/to//complain/" + secret("PLAIN")),
    "redirects without end": http("{far}/to/" + secret("PLAIN")),
    "refused connection": http("http://127.0.0.1:1/?key=" + secret("PLAIN") + "&" + secret("ODD")),
    "bad scheme": http("ftp://127.0.0.1/" + secret("PLAIN")),
    "no address": http(secret("PLAIN")),
    "bad port": http("http://127.0.0.1:" + secret("NUMBER") + "/"),
    "bad host": http("http://" + secret("ODD") + "/"),
    "unknown host": http("http://" + secret("PLAIN") + ".invalid/"),
    "refused address": http("http://169.254.169.254/" + secret("PLAIN")),
    "user": http("http://u:" + secret("PLAIN") + "@127.0.0.1:1/"),
    "bad method": http("{far}/", secret("PLAIN")),
    "bad media type": http("{far}/", accept=secret("ODD")),
    "bad headers": http("{far}/", headers=[secret("ODD"), secret("PLAIN")]),
    "bad header": http("{far}/", headers={"X-Key": secret("PLAIN") + "\n"}),
    "bad timeout": http("{far}/", readTimeOut=secret("PLAIN")),
    "timeout": http("{silent}/" + secret("PLAIN"), readTimeOut=100),
    "long timeout": http("{silent}/" + secret("PLAIN"), readTimeOut=60_000),
    "garbage": http("{far}/garbage/" + secret("PLAIN") + secret("ODD")),
}


@pytest.fixture
def coordinator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Coordinator]:
    for name, value in SECRETS.items():
        monkeypatch.setenv(f"CONDUCTOR_SECRET_{name}", value)
    with Coordinator(tmp_path / "c.db") as found:
        yield found


@pytest.fixture
def api(coordinator: Coordinator) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=coordinator.url, timeout=60) as client:
        yield client


def check_for_leaks(api: httpx.Client, workflow: str, directory: Path, log: str) -> None:
    """Look for every value, in every form, in all that can be read of a workflow that has ended."""
    found = api.get(f"/workflow/{workflow}").json()
    paths = [f"/workflow/{workflow}", f"/workflow/{workflow}/tasks", f"/view/workflow/{workflow}", "/view/workflows"]
    paths += [f"{kind}/search{which}" for kind in ("/workflow", "/tasks") for which in ("", "-v2")]
    paths += ["/workflow/search-by-tasks-v2", f"/view/workflow/{workflow}/waiting", "/view/overview"]
    for one in found["tasks"]:
        paths += [f"/tasks/{one['taskId']}", f"/tasks/{one['taskId']}/log", f"/view/task/{one['taskId']}/waiting"]
    texts = {path: api.get(path).text for path in paths}
    back_up(directory / "c.db", directory / "copy.db")
    files = [path for path in directory.iterdir() if path.is_file()]
    texts |= {path.name: path.read_bytes().decode("utf-8", "ignore") for path in files}
    assert {"c.db", "c.db-wal", "copy.db"} <= set(texts)
    texts["the log"] = log
    for where, text in texts.items():
        leaked = [form for form in forms() if form.lower() in text.lower()]
        assert not leaked, f"{leaked} in {where}"


def forms() -> set[str]:
    found = set(PARTS)
    for value in SECRETS.values():
        written = {value, json.dumps(value)[1:-1], quote(value), quote(value, safe=""), quote_plus(value)}
        written |= {html.escape(value), repr(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]}
        for before in (b"", b"u:", b"us:"):
            written.add(base64.b64encode(before + value.encode()).decode()[4:-4])
        found |= written
    return found


@pytest.mark.parametrize("kind", SCRIPTS)
def test_a_script_leaks_no_secret_a04(
    kind: str, api: httpx.Client, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    workflow = start(api, SCRIPTS[kind], failureWorkflow="none")
    found = ended(api, workflow)
    check_for_leaks(api, workflow, tmp_path, caplog.text)
    assert "workflow.secrets." in json.dumps(found["tasks"][0]["inputData"])


@pytest.mark.parametrize("kind", CALLS)
def test_a_call_leaks_no_secret_a04(
    kind: str, api: httpx.Client, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    if kind == "long timeout":
        monkeypatch.setattr(system_workers, "MAX_HTTP_CALL_S", 0.2)
    with FarServer() as far, socket.create_server(("127.0.0.1", 0)) as silent:
        places = {"{far}": far.url, "{silent}": f"http://127.0.0.1:{silent.getsockname()[1]}"}
        text = json.dumps(CALLS[kind])
        for name, place in places.items():
            text = text.replace(name, place)
        workflow = start(api, json.loads(text))
        ended(api, workflow)
    check_for_leaks(api, workflow, tmp_path, caplog.text)


def test_a_reason_shows_the_uri_as_the_definition_has_it_a04(api: httpx.Client) -> None:
    (found,) = ended(api, start(api, http("http://127.0.0.1:1/?key=" + secret("PLAIN"))))["tasks"]
    uri = "http://127.0.0.1:1/?key=${workflow.secrets.PLAIN}"
    assert f'I/O error on GET request for "{uri}": Connection refused' in found["reasonForIncompletion"]
    assert uri in found["outputData"]["response"]


def test_the_server_still_gets_the_value_and_the_rest_of_its_answer_is_kept_a04(api: httpx.Client) -> None:
    with FarServer() as far:
        asked = http(f"{far.url}/echo?n=4", "POST", body={"key": secret("ODD"), "more": 5})
        (found,) = ended(api, start(api, asked))["tasks"]
        assert json.loads(far.call()["body"]) == {"key": ODD, "more": 5}
    body = found["outputData"]["response"]["body"]
    assert json.loads(body["body"]) == {"key": "${workflow.secrets.ODD}", "more": 5}
    assert (body["path"], found["outputData"]["response"]["statusCode"]) == ("/echo?n=4", 200)


def test_a_task_that_goes_wrong_inside_the_coordinator_leaks_no_secret_a04(
    api: httpx.Client, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(request: Any, _: Any) -> Any:
        raise RuntimeError(f"cannot call {request.uri}")

    monkeypatch.setattr(system_workers, "HttpCall", broken)
    workflow = start(api, http("http://127.0.0.1:1/?key=" + secret("PLAIN")))
    found = ended(api, workflow)["tasks"][0]
    assert "RuntimeError: cannot call http://127.0.0.1:1/?key=${workflow.secrets" in found["reasonForIncompletion"]
    assert "RuntimeError: cannot call http://127.0.0.1:1/?key=${workflow.secrets" in caplog.text
    check_for_leaks(api, workflow, tmp_path, caplog.text)


def test_a_result_that_waits_to_be_completed_leaks_no_secret_a04(
    api: httpx.Client, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with FarServer() as far:
        asked = http(f"{far.url}/echo?k=" + secret("PLAIN"), headers={"X-Key": secret("ODD")})
        workflow = start(api, {**asked, "asyncComplete": True})
        wait_until(lambda: api.get(f"/workflow/{workflow}").json()["tasks"][0]["outputData"])
        assert api.post(f"/tasks/{workflow}/t/COMPLETED", json={}).status_code == 200
        ended(api, workflow)
    check_for_leaks(api, workflow, tmp_path, caplog.text)


def test_the_next_task_gets_the_placeholder_as_a_plain_text_a04(api: httpx.Client) -> None:
    placeholder = secret("PLAIN")
    again = {
        **task("INLINE", evaluatorType="javascript", expression="[$.all, $.part.length]", all="${t.output.result}"),
        "taskReferenceName": "again",
    }
    again["inputParameters"]["part"] = placeholder + "${t.output.result}"
    found = ended(api, start(api, inline("$.PLAIN"), again))
    assert found["output"]["result"] == [placeholder, len(PLAIN) + len(placeholder)]
