"""Keys with roles: every route with every role, task types of workers, rotation, revocation, and where secrets are."""

from __future__ import annotations

import json
import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from conductor.client.automator.task_handler import TaskHandler
from conductor.client.configuration.configuration import Configuration
from conductor.client.configuration.settings.authentication_settings import AuthenticationSettings
from conductor.client.worker.worker import Worker
from conductor.coordinator import Coordinator
from conductor.coordinator.http.routes import ROUTES
from conductor.coordinator.http.web_ui import WEB_UI_ROUTES
from conductor.coordinator.keys.roles import Access, Role
from conductor.coordinator.keys.tokens import TOKEN_LIFETIME_S
from conductor.coordinator.store.online_backup import back_up
from conductor.durable import sync as durable
from conductor.testing import FakeClock

pytestmark = pytest.mark.xdist_group("keys")

#: What each role may do, written out by hand: a second opinion on the table of routes.
MAY_CHANGE_NOTHING = (Role.VIEWER, Role.METRICS)
#: Paths that a role may use. `*` at the end stands for any rest. All others must answer 403.
ALLOWED = {
    Role.METRICS: {"GET /metrics", "GET /api/version", "GET /api/view/key"},
    Role.WORKER: {
        "GET /api/tasks/poll/{type}",
        "GET /api/tasks/poll/batch/{type}",
        "POST /api/tasks/poll/batch/{type}",
        "POST /api/tasks",
        "POST /api/tasks/update-v2",
        "POST /api/tasks/reports",
        "GET /api/tasks/{taskId}",
        "GET /api/tasks/{taskId}/log",
        "GET /api/tasks/{taskId}/steps",
        "POST /api/tasks/{taskId}/log",
        "GET /api/metadata/taskdefs/{name}",
        "GET /api/version",
        "GET /api/view/key",
    },
    Role.STARTER: {
        "POST /api/workflow",
        "POST /api/workflow/start/bulk",
        "POST /api/workflow/{name}",
        "POST /api/workflow/execute/{name}/{version}",
        "POST /api/workflow/test",
        "GET /api/workflow/{id}",
        "GET /api/workflow/{id}/status",
        "GET /api/workflow/{id}/tasks",
        "GET /api/view/workflow/{id}",
        "GET /api/view/workflow/{id}/waiting",
        "GET /api/version",
        "GET /api/view/key",
    },
}
#: Only an admin may use these, and everything else an operator may use, too, except for polls.
ADMIN_ONLY = (
    "POST /api/metadata/taskdefs", "PUT /api/metadata/", "DELETE /api/metadata/", "POST /api/schema",
    "DELETE /api/schema", "POST /api/event", "PUT /api/event", "DELETE /api/event", "PUT /api/secrets",
    "DELETE /api/secrets", "GET /api/secrets/{key}", "/api/keys",
)  # fmt: skip
POLLS = ("/api/tasks/poll/", "/api/tasks/update-v2")
#: POST requests that read.
READING_POSTS = {
    "POST /api/secrets",
    "POST /api/metadata/workflow/validate",
    "POST /api/workflow/bulk/search",
    "POST /api/workflow/{name}/correlated",
}
PUBLIC = {"GET /health", "GET /api/health", "GET /ready", "GET /api/ready", "GET /api-docs"}


def may_use(role: Role, route: str) -> bool:
    """Return whether a role may use a route, by the tables above."""
    method, _, path = route.partition(" ")
    if role is Role.ADMIN or route in PUBLIC:
        return True
    if role in ALLOWED:
        return route in ALLOWED[role]
    if route == "POST /api/metadata/workflow" or any(part in route for part in POLLS):
        return False
    if route != "GET /api/secrets/{key}/exists" and any(
        route.startswith(start) or path.startswith(start) for start in ADMIN_ONLY
    ):
        return False
    if role is Role.OPERATOR:
        return True
    changes = (method != "GET" and route not in READING_POSTS) or "scheduler/admin" in path
    return role is Role.VIEWER and not changes and "/audit" not in path


HTTP = httpx.Client(timeout=60)


class Api:
    """A client of one coordinator with one key."""

    def __init__(self, coordinator: Coordinator, key: str | None = None, secret: str | None = None) -> None:
        self.root = coordinator.url.removesuffix("/api")
        self.headers: dict[str, str] = {}
        if secret is not None and secret.startswith("cwm_"):
            self.headers["Authorization"] = f"Bearer {secret}"
        elif key is not None:
            answer = self.call("POST", "/api/token", {"keyId": key, "keySecret": secret})
            answer.raise_for_status()
            self.headers["X-Authorization"] = answer.json()["token"]

    def status(self, method: str, path: str, body: Any = None) -> int:
        if not path.startswith("/api/view/events"):
            return self.call(method, path, body).status_code
        with HTTP.stream(method, self.root + path, headers=self.headers) as stream:  # the stream has no end
            return stream.status_code

    def call(self, method: str, path: str, body: Any = None) -> httpx.Response:
        content = None if body is None else json.dumps(body)
        headers = self.headers | ({"Content-Type": "application/json"} if method not in ("GET", "HEAD") else {})
        return HTTP.request(method, self.root + path, content=content, headers=headers)


class Shop:
    """A coordinator with a workflow of two queues, a secret in one input, and a key for each role."""

    def __init__(self, coordinator: Coordinator) -> None:
        self.coordinator = coordinator
        self.admin = Api(coordinator, "root", "root-secret")
        self.secrets: dict[str, str] = {}
        self.admin.call("PUT", "/api/secrets/CARD", "sesame-of-the-card")
        tasks = [
            {"name": "charge", "taskReferenceName": "charge", "inputParameters": {"card": "${workflow.secrets.CARD}"}},
            {"name": "mail", "taskReferenceName": "mail", "inputParameters": {"to": "${workflow.input.to}"}},
        ]
        approve = {"name": "approve", "taskReferenceName": "approve", "type": "WAIT"}
        branches = [[task] for task in (*tasks, approve)]
        forked = [
            {"name": "fork", "taskReferenceName": "fork", "type": "FORK_JOIN", "forkTasks": branches},
            {"name": "join", "taskReferenceName": "join", "type": "JOIN", "joinOn": ["charge", "mail", "approve"]},
        ]
        definition = {"name": "order", "version": 1, "tasks": forked, "ownerEmail": "a@example.com"}
        assert self.admin.status("POST", "/api/metadata/workflow", definition) == 200
        plain = {"name": "plain", "version": 1, "tasks": [tasks[1]], "ownerEmail": "a@example.com"}
        assert self.admin.status("POST", "/api/metadata/workflow", plain) == 200
        for role in Role:
            self.create(str(role), [role])

    def create(self, name: str, roles: list[Role], types: list[str] | None = None) -> Api:
        body = {"name": name, "roles": roles, **({"taskTypes": types} if types else {})}
        answer = self.admin.call("POST", "/api/keys", body)
        assert answer.status_code == 200, answer.text
        made = answer.json()
        self.secrets[name] = made.get("secret") or made["token"]
        return self.client(name)

    def client(self, name: str) -> Api:
        return Api(self.coordinator, name, self.secrets[name])

    def start(self) -> str:
        return self.admin.call("POST", "/api/workflow/order", {"to": "ada@example.com"}).text


@pytest.fixture(scope="module", autouse=True)
def http() -> Iterator[None]:
    with HTTP:
        yield


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    database = tmp_path_factory.mktemp("keys") / "c.db"
    with Coordinator(database, auth_key="root", auth_secret="root-secret") as coordinator:
        yield Shop(coordinator)


ALL_ROUTES = [*ROUTES, *WEB_UI_ROUTES]


@pytest.mark.parametrize("role", Role)
def test_each_route_admits_the_roles_of_its_level_and_no_others_o09(shop: Shop, role: Role) -> None:
    client, wrong = shop.client(str(role)), []
    for route in ALL_ROUTES:
        name = f"{route.method} {route.path}"
        if not route.path.startswith(("/api", "/metrics", "/health", "/ready")):
            assert route.access is Access.PUBLIC, name
            continue
        path = route.path
        for placeholder in ("id", "workflowId", "taskId", "name", "type", "ref", "status", "key", "version", "event"):
            path = path.replace(f"{{{placeholder}}}", "nothing")
        path = path.replace("{correlationId}", "nothing")
        # The body is of the wrong type for every route, so an admitted request changes nothing.
        status = client.status(route.method, path + "?timeout=0&count=0", None if route.method == "GET" else 7)
        if name == "GET /api/secrets/{key}":
            assert status == 403  # no role reads the value of a secret
        elif (status != 403) != may_use(role, name):
            wrong.append((name, status))
        assert status != 401, name
        if role in MAY_CHANGE_NOTHING and status != 403:
            assert route.access is Access.PUBLIC or not route.changes_something(route.method) or name in READING_POSTS
    assert not wrong


def test_without_a_token_only_public_routes_answer_o09(shop: Shop) -> None:
    client = Api(shop.coordinator)
    for route in ALL_ROUTES:
        if route.access is not Access.PUBLIC:
            path = route.path.replace("{", "").replace("}", "")
            assert client.status(route.method, path, None if route.method == "GET" else {}) == 401, route.path


def test_a_workers_key_gets_only_the_tasks_and_inputs_of_its_types_o09(shop: Shop) -> None:
    mailer = shop.create("mailer", [Role.WORKER], ["mail"])
    workflow_id = shop.start()
    tasks = {
        task["referenceTaskName"]: task
        for task in shop.admin.call("GET", f"/api/workflow/{workflow_id}").json()["tasks"]
    }
    charge, approve = tasks["charge"]["taskId"], tasks["approve"]["taskId"]
    assert shop.admin.status("POST", f"/api/tasks/{charge}/log", "the card is 4711") == 200
    for path in ("/api/tasks/poll/charge", "/api/tasks/poll/batch/charge", "/api/tasks/poll/charge%20"):
        answer = mailer.call("GET", path)
        assert answer.status_code == 403, path
    for task_id in (charge, approve):
        assert mailer.status("GET", f"/api/tasks/{task_id}") == 403
        assert mailer.status("GET", f"/api/tasks/{task_id}/log") == 403
        assert mailer.status("POST", f"/api/tasks/{task_id}/log", "x") == 403
        report = {"taskId": task_id, "workflowInstanceId": workflow_id, "status": "COMPLETED"}
        assert mailer.status("POST", "/api/tasks", report) == 403
        assert mailer.status("POST", "/api/tasks", {**report, "extendLease": True}) == 403
        assert mailer.status("POST", "/api/tasks/update-v2", report) == 403
        (verdict,) = mailer.call("POST", "/api/tasks/reports?next=1", [report]).json()
        assert verdict["status"] == 403
        assert "nextTask" not in verdict
    assert mailer.status("GET", "/api/metadata/taskdefs/charge") == 403
    for path in ("tasks/search-v2", "workflow/search-v2", f"workflow/{workflow_id}", f"workflow/{workflow_id}/tasks"):
        assert mailer.status("GET", f"/api/{path}") == 403
    (mine,) = mailer.call("GET", "/api/tasks/poll/batch/mail").json()
    assert mine["inputData"] == {"to": "ada@example.com"}
    assert mailer.status("GET", f"/api/tasks/{mine['taskId']}") == 200
    done = {"taskId": mine["taskId"], "workflowInstanceId": workflow_id, "status": "COMPLETED"}
    assert mailer.status("POST", "/api/tasks", done) == 200
    reader = shop.create("reader", [Role.WORKER, Role.VIEWER], ["mail"])
    assert reader.status("GET", f"/api/tasks/{charge}/log") == 200
    assert reader.status("POST", f"/api/tasks/{charge}/log", "x") == 403
    # A key for all types does not complete a WAIT by hand.
    assert shop.client("worker").status("POST", "/api/tasks", {**done, "taskId": approve}) == 403
    assert shop.client("operator").status("POST", "/api/tasks", {**done, "taskId": approve}) == 200
    charged = shop.client("worker").call("GET", "/api/tasks/poll/charge").json()
    assert charged["inputData"] == {"card": "sesame-of-the-card"}


def test_only_an_admin_brings_definitions_and_expressions_in_a_request_o09(shop: Shop) -> None:
    stealing = {
        "name": "steal",
        "tasks": [{"name": "mail", "taskReferenceName": "m", "inputParameters": {"x": "${workflow.secrets.CARD}"}}],
    }
    start = {"name": "steal", "workflowDef": stealing}
    schedule = {"name": "s", "cronExpression": "0 0 0 1 1 ?", "startWorkflowRequest": start}
    for role in (Role.STARTER, Role.OPERATOR):
        client = shop.client(str(role))
        assert client.status("POST", "/api/workflow", start) == 403
        assert client.status("POST", "/api/workflow/execute/steal/1", start) == 403
        assert client.status("POST", "/api/workflow/test", start) == 403
        (refused,) = client.call("POST", "/api/workflow/start/bulk", [start]).json()
        assert refused["status"] == 403
        assert client.status("POST", "/api/workflow/order", {"to": "b@example.com"}) == 200
    operator, workflow_id = shop.client("operator"), shop.start()
    assert operator.status("POST", "/api/scheduler/schedules", schedule) == 403
    rerun = {"reRunFromTaskId": "x", "taskInput": {"card": "${workflow.secrets.CARD}"}}
    assert operator.status("POST", f"/api/workflow/{workflow_id}/rerun", rerun) == 403
    skip = {"taskInput": {"card": "${workflow.secrets.CARD}"}}
    assert operator.status("PUT", f"/api/workflow/{workflow_id}/skiptask/mail", skip) == 403
    # An operator completes a task by hand, but does not receive tasks, which contain secrets.
    shop.start()
    held = shop.admin.call("GET", "/api/tasks/poll/charge").json()
    report = {"taskId": held["taskId"], "workflowInstanceId": held["workflowInstanceId"], "status": "COMPLETED"}
    assert operator.status("POST", "/api/tasks/update-v2", report) == 403
    assert operator.status("POST", "/api/tasks/reports?next=1", [{**report, "leaseId": held["leaseId"]}]) == 403
    assert operator.status("POST", "/api/tasks/reports", [report]) == 200


def durable_parent() -> dict[str, Any]:
    return durable.call("plain", {"to": "ada@example.com"})


def test_a_workers_key_starts_workflows_from_a_durable_task_only_with_role_starter_o09(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = {"name": "parent", "version": 1, "tasks": [{"name": "parent", "taskReferenceName": "parent"}]}
    assert shop.admin.status("POST", "/api/metadata/workflow", parent) == 200
    callers = {
        403: shop.create("calls-not", [Role.WORKER], ["parent"]),
        200: shop.create("calls", [Role.WORKER, Role.STARTER], ["parent"]),
    }
    step = {"name": "plain", "kind": "WORKFLOW", "state": "WAITING", "result": {"to": "x"}}
    for status, client in callers.items():
        workflow_id = shop.admin.call("POST", "/api/workflow/parent", {}).text
        task = client.call("GET", "/api/tasks/poll/parent").json()
        record = {"taskId": task["taskId"], "workflowInstanceId": workflow_id, "leaseId": task["leaseId"]}
        heartbeat = {**record, "status": "IN_PROGRESS", "extendLease": True, "steps": [step]}
        suspension = {**record, "status": "IN_PROGRESS", "suspended": True, "steps": [step]}
        for report in (heartbeat, suspension):
            (verdict,) = client.call("POST", "/api/tasks/reports", [report]).json()
            assert verdict["status"] == status
            if status == 403:
                assert verdict["verdict"] == "REJECTED"
                assert "step plain is not recorded" in verdict["message"]
        steps = shop.admin.call("GET", f"/api/tasks/{task['taskId']}/steps").json()["steps"]
        assert len(steps) == (status == 200)
        shop.admin.call("DELETE", f"/api/workflow/{workflow_id}")
    # A worker of this package fails the task with the reason, instead of leaving it open.
    workflow_id = shop.admin.call("POST", "/api/workflow/parent", {}).text
    monkeypatch.setattr(Configuration, "AUTH_TOKEN", None, raising=False)
    settings = AuthenticationSettings("calls-not", shop.secrets["calls-not"])
    configuration = Configuration(shop.coordinator.url, authentication_settings=settings)
    with TaskHandler([Worker("parent", durable_parent)], configuration, scan_for_annotated_workers=False) as handler:
        handler.start_processes()
        deadline = time.monotonic() + 200
        while (found := shop.admin.call("GET", f"/api/workflow/{workflow_id}").json())["status"] == "RUNNING":
            assert time.monotonic() < deadline, found
            time.sleep(0.05)
    assert found["status"] == "FAILED"
    assert "may not start workflows" in found["reasonForIncompletion"]


def in_thread(call: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    results: list[Any] = []

    def run() -> None:
        try:
            results.append(call())
        except httpx.HTTPError as error:
            results.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, results


@pytest.mark.parametrize("is_rotated", [False, True], ids=["revoked", "rotated without overlap"])
def test_a_key_that_ends_loses_tokens_and_parked_polls_at_once_o09(shop: Shop, *, is_rotated: bool) -> None:
    def end(key: str) -> int:
        if is_rotated:
            return shop.admin.status("POST", f"/api/keys/{key}/rotate", {"overlapSeconds": 0})
        return shop.admin.status("DELETE", f"/api/keys/{key}")

    one, two, three = (f"{'rotated' if is_rotated else 'revoked'}{number}" for number in (1, 2, 3))
    polling, waiting = shop.create(one, [Role.WORKER]), shop.create(two, [Role.STARTER])
    thread, results = in_thread(lambda: polling.call("GET", "/api/tasks/poll/batch/nobody?timeout=5000"))
    other, answers = in_thread(
        lambda: waiting.call("POST", "/api/workflow/execute/plain/1?waitForSeconds=60", {"input": {"to": "x"}})
    )
    core = shop.coordinator.core
    assert core is not None
    while not (len(core.tasks.parked) and core.workflows.is_watched):
        shop.admin.status("GET", "/api/version")
    watching = shop.create(three, [Role.VIEWER])
    with HTTP.stream("GET", f"{watching.root}/api/view/events", headers=watching.headers) as stream:
        assert stream.status_code == 200
        assert end(three) == 200
        list(stream.iter_raw())  # the stream ends
    assert end(one) == 200
    assert end(two) == 200
    thread.join(30)
    other.join(30)
    assert isinstance(results[0], httpx.HTTPError)
    assert isinstance(answers[0], httpx.HTTPError)
    for client, key in ((polling, one), (waiting, two)):
        assert client.status("GET", "/api/version") == 401
        shown = {"keyId": key, "keySecret": shop.secrets[key]}
        assert Api(shop.coordinator).call("POST", "/api/token", shown).status_code == 401
    if is_rotated:
        return
    again = shop.create(one, [Role.VIEWER])
    assert polling.status("GET", "/api/version") == 401, "a token of a former key of the same name is void"
    assert again.status("GET", "/api/version") == 200


def test_a_token_of_a_key_that_a_restored_copy_does_not_have_is_void_o09(tmp_path: Path) -> None:
    """The copy gives the number of that key to the next key, which may have other roles."""
    with Coordinator(tmp_path / "c.db", auth_key="root", auth_secret="root-secret") as coordinator:
        kept = Shop(coordinator).client("viewer")
        back_up(tmp_path / "c.db", tmp_path / "copy.db")
        lost = Api(coordinator, "root", "root-secret").call("POST", "/api/keys", {"name": "lost", "roles": ["viewer"]})
        viewer = Api(coordinator, "lost", lost.json()["secret"])
    with Coordinator(tmp_path / "copy.db", auth_key="root", auth_secret="root-secret") as coordinator:
        admin = Api(coordinator, "root", "root-secret")
        made = admin.call("POST", "/api/keys", {"name": "made", "roles": ["admin"]}).json()["secret"]
        for client, expected in ((viewer, 401), (kept, 200), (Api(coordinator, "made", made), 200)):
            client.root = admin.root
            assert client.status("GET", "/api/version") == expected


def test_two_secrets_overlap_after_a_rotation_and_tokens_survive_a_restart_o01(tmp_path: Path) -> None:
    clock = FakeClock()
    database = tmp_path / "c.db"
    with Coordinator(database, clock=clock, auth_key="root", auth_secret="root-secret") as coordinator:
        shop = Shop(coordinator)
        old = shop.client("worker")
        old_secret = shop.secrets["worker"]
        rotated = shop.admin.call("POST", "/api/keys/worker/rotate", {"overlapSeconds": 60}).json()
        shop.secrets["worker"] = rotated["secret"]
        assert Api(coordinator, "worker", old_secret).status("GET", "/api/version") == 200
        new = shop.client("worker")
        metrics = shop.client("metrics")
    with Coordinator(
        database, port=coordinator.port, clock=clock, auth_key="root", auth_secret="root-secret"
    ) as coordinator:
        for client in (old, new, metrics, shop.admin):
            assert client.status("GET", "/api/version") == 200
        bearer = {"Authorization": f"Bearer {new.headers['X-Authorization']}"}
        assert httpx.get(f"{coordinator.url}/version", headers=bearer).status_code == 200
        clock.advance(61)
        assert old.status("GET", "/api/version") == 401
        assert new.status("GET", "/api/version") == 200
        shown = {"keyId": "worker", "keySecret": old_secret}
        assert httpx.post(f"{coordinator.url}/token", json=shown).status_code == 401
        clock.advance(TOKEN_LIFETIME_S)
        assert new.status("GET", "/api/version") == 401
        assert metrics.status("GET", "/metrics") == 200, "a static token does not expire"
        keys = Api(coordinator, "root", "root-secret").call("GET", "/api/keys").json()
        (listed,) = [one for one in keys if one["name"] == "worker"]
        assert len(listed["secrets"]) == 2
    with Coordinator(database, port=coordinator.port, clock=clock, auth_key="root", auth_secret="changed") as again:
        assert shop.admin.status("GET", "/api/version") == 401, "a new secret in the environment voids its tokens"
        assert again.core is not None


def test_secrets_are_in_no_log_and_not_in_the_file_or_its_backup_o09(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with Coordinator(tmp_path / "c.db", auth_key="root", auth_secret="root-secret") as coordinator:
        shop = Shop(coordinator)
        for role in Role:
            shop.client(str(role)).call("GET", "/api/version")
        shop.admin.call("POST", "/api/keys/viewer/rotate")
        httpx.post(f"{coordinator.url}/token", json={"keyId": "viewer", "keySecret": "sesame-open"})
        back_up(tmp_path / "c.db", tmp_path / "copy.db")
        tokens = [shop.client(name).headers.get("X-Authorization", "cwm_") for name in shop.secrets]
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"api_key_secret" in kept
    for secret in [*shop.secrets.values(), *tokens, "root-secret", "sesame-open"]:
        if secret != "cwm_":
            assert secret.encode() not in kept
            assert secret not in caplog.text


def test_the_first_key_must_be_an_admins_and_the_last_one_stays_o09(tmp_path: Path) -> None:
    with Coordinator(tmp_path / "c.db") as coordinator:
        api = Api(coordinator)
        assert api.call("POST", "/api/keys", {"name": "w", "roles": ["worker"]}).status_code == 400
        assert api.status("GET", "/api/version") == 200, "without keys the coordinator is open"
        secret = api.call("POST", "/api/keys", {"name": "ada", "roles": ["admin"]}).json()["secret"]
        assert api.status("GET", "/api/version") == 401
        ada = Api(coordinator, "ada", secret)
        assert ada.call("DELETE", "/api/keys/ada").status_code == 409
        assert ada.call("POST", "/api/keys", {"name": "ada", "roles": ["viewer"]}).status_code == 409
        assert ada.call("POST", "/api/keys", {"name": "eve", "roles": ["queen"]}).status_code == 400
        assert ada.call("GET", "/api/view/key").json() == {"name": "ada", "roles": ["admin"], "taskTypes": None}
    Coordinator(tmp_path / "c.db", host="0.0.0.0")  # allowed, because the file has keys
    db = sqlite3.connect(tmp_path / "c.db")
    assert db.execute("SELECT count(*) FROM api_key").fetchone() == (1,)
    db.close()
