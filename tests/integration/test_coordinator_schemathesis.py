"""The coordinator under requests drawn from its own OpenAPI document: no 5xx, no hang, errors in Conductor's shape."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.config import SchemathesisConfig

from conductor.coordinator import Coordinator
from conductor.coordinator.http.api_docs import make_api_docs
from conductor.coordinator.http.routes import ROUTES

#: No answer within this time counts as a hang: polls are parked for 5 s, executions waited for 60 s at most.
HANG_S = 90
#: Waiting is asked for by a number, and the numbers drawn here are not meant to test our patience.
IMPATIENT = {"timeout": 5, "waitForSeconds": 0}

#: All routes but the stream of events, which has no end.
FINITE_ROUTES = [route for route in ROUTES if route.path != "/api/view/events"]

FLOW = {
    "name": "known",
    "tasks": [
        {"name": "work", "taskReferenceName": "one", "type": "SIMPLE"},
        {"name": "wait", "taskReferenceName": "two", "type": "WAIT"},
    ],
}


def document(*, coverage: bool) -> Any:
    """Our OpenAPI document; `coverage` adds the library's systematic cases (boundaries, wrong types, missing parts)."""
    config = SchemathesisConfig.from_dict({"phases": {"coverage": {"enabled": coverage}}})
    return schemathesis.openapi.from_dict(make_api_docs(FINITE_ROUTES), config=config)


def drawn(examples: int) -> Any:
    return settings(max_examples=examples, suppress_health_check=list(HealthCheck))


class Server:
    """A coordinator with one workflow, and how it is asked."""

    def __init__(self, url: str) -> None:
        self.root = url.removesuffix("/api")
        self.api = httpx.Client(base_url=url, timeout=HANG_S)
        self.known = {"version": "1", "ref": "one", "name": "known", "type": "work", "status": "COMPLETED"}
        self.renew()

    def renew(self) -> None:
        """A definition and a workflow that runs, under whose names requests reach beyond a 404."""
        assert self.api.post("/metadata/workflow?overwrite=true", json=FLOW).status_code == 200
        self.known["id"] = self.known["workflowId"] = self.api.post("/workflow/known", json={}).text
        tasks = self.api.get(f"/workflow/{self.known['id']}").json()["tasks"]
        self.known["taskId"] = tasks[0]["taskId"]

    def ask(self, case: Any) -> None:
        """Send a case as it was drawn, then the same about a workflow and a task that exist."""
        if "/poll/" in case.path or "/execute/" in case.path:
            case.query = {**(case.query or {}), **IMPATIENT}
        self.send(case)
        if case.path_parameters:
            case.path_parameters = {**case.path_parameters, **self.known_of(case)}
            self.send(case)
            if case.method in ("DELETE", "PUT"):
                self.renew()

    def known_of(self, case: Any) -> dict[str, str]:
        return {name: value for name, value in self.known.items() if name in case.path_parameters}

    def send(self, case: Any) -> None:
        answer = case.call(base_url=self.root, timeout=HANG_S)
        check(answer.status_code, answer.content, f"{case.method} {case.formatted_path}")


def check(status: int, body: bytes, asked: str) -> None:
    assert status < 500, f"{asked}: {status} {body[:300]!r}"
    if status >= 400 and not asked.startswith("HEAD"):
        told = httpx.Response(status, content=body).json()
        assert told["status"] == status, asked
        assert told["message"], asked


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Coordinator(tmp_path_factory.mktemp("db") / "coordinator.db") as coordinator:
        server = Server(coordinator.url)
        yield server
        server.api.close()


@(few := document(coverage=False)).parametrize()
@drawn(3)
def test_each_operation_answers_generated_requests(case: Any, server: Server) -> None:
    server.ask(case)


# -- what no schema describes: definitions that are nearly right

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
TYPES = [
    "SIMPLE",
    "SWITCH",
    "FORK_JOIN",
    "JOIN",
    "DO_WHILE",
    "SUB_WORKFLOW",
    "SET_VARIABLE",
    "TERMINATE",
    "WAIT",
    "HTTP",
]
EXPRESSIONS = [
    "${one.output.x}",
    "${workflow.input",
    "${}",
    "${a.output['b'][0]}",
    "$.one > 1",
    "true",
    "1 day",
    "-1s",
    "",
]
VALUES = st.sampled_from(EXPRESSIONS) | JSON


def tasks(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    lists = st.lists(inner, max_size=3)
    return st.fixed_dictionaries(
        {
            "name": st.sampled_from(["work", "known"]) | VALUES,
            "taskReferenceName": st.sampled_from(["one", "two", "three", "join"]) | VALUES,
            "type": st.sampled_from(TYPES) | VALUES,
        },
        optional={
            "inputParameters": st.dictionaries(
                st.sampled_from(["duration", "until", "terminationStatus", "x"]), VALUES, max_size=3
            )
            | VALUES,
            "joinOn": st.lists(st.sampled_from(["one", "two"]), max_size=2) | VALUES,
            "forkTasks": st.lists(lists, max_size=3) | VALUES,
            "decisionCases": st.dictionaries(st.sampled_from(["a", "b"]), lists, max_size=2) | VALUES,
            "defaultCase": lists | VALUES,
            "evaluatorType": st.sampled_from(["value-param", "javascript", "graaljs"]) | VALUES,
            "expression": VALUES,
            "loopCondition": VALUES,
            "loopOver": lists | VALUES,
            "subWorkflowParam": st.fixed_dictionaries(
                {"name": st.just("known") | VALUES, "version": st.just(1) | VALUES}
            )
            | VALUES,
            "optional": st.booleans() | VALUES,
            "startDelay": st.integers(-1, 10) | VALUES,
            "retryCount": st.integers() | VALUES,
            "taskDefinition": st.dictionaries(st.sampled_from(["name", "retryCount", "timeoutSeconds"]), VALUES)
            | VALUES,
        },
    )


TASK = tasks(tasks(st.just({"name": "work", "taskReferenceName": "deep", "type": "SIMPLE"})))
DEFINITION = st.fixed_dictionaries(
    {"name": st.just("drawn") | VALUES, "tasks": st.lists(TASK, max_size=4) | VALUES},
    optional={
        "version": st.integers(-1, 3) | VALUES,
        "outputParameters": st.dictionaries(st.text(max_size=5), VALUES, max_size=3) | VALUES,
        "variables": st.dictionaries(st.text(max_size=5), VALUES, max_size=3) | VALUES,
        "timeoutSeconds": st.integers() | VALUES,
        "timeoutPolicy": st.sampled_from(["TIME_OUT_WF", "ALERT_ONLY"]) | VALUES,
        "failureWorkflow": st.just("known") | VALUES,
        "inputTemplate": st.dictionaries(st.text(max_size=5), VALUES, max_size=3) | VALUES,
    },
)


def run_drawn(server: Server, definition: dict[str, Any]) -> None:
    """Register, start, and work on it for a while, whatever it is."""
    asked: list[tuple[str, str, Any]] = [
        ("POST", "/metadata/workflow?overwrite=true", definition),
        ("POST", "/workflow", {"name": "drawn", "workflowDef": definition, "input": {"x": 1}}),
    ]
    answers = [server.api.request(method, path, json=body) for method, path, body in asked]
    for (method, path, _), answer in zip(asked, answers, strict=True):
        check(answer.status_code, answer.content, f"{method} {path} {definition}")
    if answers[1].status_code == 200:
        for ref in ("one", "two"):
            done = server.api.post(f"/tasks/{answers[1].text}/{ref}/COMPLETED", json={"x": [1]})
            check(done.status_code, done.content, f"complete {ref} of {definition}")
        found = server.api.get(f"/workflow/{answers[1].text}")
        check(found.status_code, found.content, f"get {definition}")
        ended = server.api.delete(f"/workflow/{answers[1].text}")
        check(ended.status_code, ended.content, f"terminate {definition}")


@given(definition=DEFINITION)
@drawn(40)
def test_definitions_that_are_nearly_right(definition: dict[str, Any], server: Server) -> None:
    run_drawn(server, definition)


@pytest.mark.slow
@pytest.mark.timeout(900)
@given(definition=DEFINITION)
@drawn(3000)
def test_many_definitions_that_are_nearly_right(definition: dict[str, Any], server: Server) -> None:
    run_drawn(server, definition)
