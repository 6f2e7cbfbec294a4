"""The page and what it reads, over real sockets: files, headers, the list of workflows, queues, one workflow."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import httpx
import pytest

from conductor.coordinator import Coordinator
from conductor.coordinator.http.web_ui import CONTENT_SECURITY_POLICY, ENTRY_PATHS, FILES
from conductor.coordinator.views import change_feed, recent_workflows

#: All files of the page together: a few hundred kilobytes at most.
MAX_PAGE_BYTES = 300_000
LOCAL = re.compile(r"https?://(?!www\.w3\.org/2000/svg)")


@pytest.fixture
def coordinator(tmp_path: Path) -> Iterator[Coordinator]:
    with Coordinator(tmp_path / "coordinator.db") as found:
        yield found


@pytest.fixture
def page(coordinator: Coordinator) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=coordinator.url.removesuffix("/api")) as client:
        yield client


@pytest.fixture
def api(coordinator: Coordinator) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=coordinator.url) as client:
        yield client


def start(api: httpx.Client, name: str = "flow", task: str = "work", **more: Any) -> str:
    flow = {"name": name, "tasks": [{"name": task, "taskReferenceName": task}]}
    answer = api.post("/workflow", json={"name": name, "workflowDef": flow, **more})
    assert answer.status_code == 200, answer.text
    return answer.text


def work(api: httpx.Client, task: str = "work", status: str = "COMPLETED", **more: Any) -> str:
    (taken,) = api.get(f"/tasks/poll/batch/{task}", params={"timeout": 0, "workerid": "w1"}).json()
    said = {name: taken[name] for name in ("taskId", "workflowInstanceId", "leaseId", "workerId")}
    assert api.post("/tasks", json={**said, "status": status, **more}).status_code == 200
    return str(taken["taskId"])


def see(api: httpx.Client, path: str, **query: Any) -> Any:
    answer = api.get(f"/view/{path}", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


class TestFiles:
    @pytest.mark.parametrize("path", [entry.replace("{id}", "x").replace("{name}", "x") for entry in ENTRY_PATHS])
    def test_every_address_of_the_page_answers_with_it(self, page: httpx.Client, path: str) -> None:
        answer = page.get(path)
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/html;charset=utf-8"
        assert "<!doctype html>" in answer.text

    def test_a_browser_gets_the_web_ui_for_an_unknown_path_and_a_program_an_error_u5_14(
        self, page: httpx.Client
    ) -> None:
        for path in ("/nope", "/queues/drive"):
            shown = page.get(path, headers={"Accept": "text/html,application/xhtml+xml"})
            assert (shown.status_code, shown.headers["content-security-policy"]) == (404, CONTENT_SECURITY_POLICY)
            assert "<!doctype html>" in shown.text
            assert page.get(path).json()["status"] == 404
        assert page.get("/api/nope", headers={"Accept": "text/html"}).json()["status"] == 404
        assert page.post("/nope", headers={"Accept": "text/html"}, json={}).json()["status"] == 404

    def test_the_link_in_a_workers_log_leads_to_the_web_ui(self, page: httpx.Client) -> None:
        assert "<!doctype html>" in page.get("/taskDef/process_order").text
        assert "<!doctype html>" in page.get("/execution/some-id").text

    @pytest.mark.parametrize("name", sorted(FILES))
    def test_every_file_comes_with_a_strict_policy(self, page: httpx.Client, name: str) -> None:
        answer = page.get(f"/page/{name}")
        assert answer.status_code == 200
        assert answer.headers["content-security-policy"] == CONTENT_SECURITY_POLICY
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-cache"

    def test_the_policy_lets_in_nothing_inline_and_nobody_else(self) -> None:
        assert CONTENT_SECURITY_POLICY.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
        assert "unsafe" not in CONTENT_SECURITY_POLICY
        assert "frame-ancestors 'none'" in CONTENT_SECURITY_POLICY
        assert "*" not in CONTENT_SECURITY_POLICY

    def test_an_unchanged_file_is_not_sent_again(self, page: httpx.Client) -> None:
        first = page.get("/page/page.js")
        again = page.get("/page/page.js", headers={"If-None-Match": first.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        other = page.get("/page/page.js", headers={"If-None-Match": '"other"'})
        assert (other.status_code, other.content) == (200, first.content)

    def test_a_file_that_is_not_there_is_named(self, page: httpx.Client) -> None:
        answer = page.get("/page/..%2Fserver.py")
        assert answer.status_code == 404
        assert "the web UI has no file" in answer.json()["message"]

    def test_the_web_ui_is_small(self) -> None:
        assert sum(len(file.body) for file in FILES.values()) < MAX_PAGE_BYTES

    def test_every_file_of_the_folder_is_served(self) -> None:
        folder = files("conductor.coordinator").joinpath("web_ui")
        assert {path.name for path in folder.iterdir()} == set(FILES)

    @pytest.mark.parametrize("name", sorted(FILES))
    def test_the_web_ui_has_no_inline_code_and_no_foreign_host(self, name: str) -> None:
        text = FILES[name].body.decode()
        assert not LOCAL.search(text)
        assert "innerHTML" not in text
        if name.endswith(".html"):
            assert not re.search(r"<script(?![^>]*\bsrc=)", text)
            assert not re.search(r"\sstyle=|\son\w+=", text)

    def test_every_module_that_a_file_imports_is_there(self) -> None:
        for name, file in FILES.items():
            for imported in re.findall(rb'from "\./([^"]+)"', file.body):
                assert imported.decode() in FILES, name

    def test_the_web_ui_is_not_served_under_a_foreign_host_name(self, page: httpx.Client) -> None:
        assert page.get("/", headers={"Host": "evil.example"}).status_code == 403


class TestKeyAndSecret:
    def test_the_page_is_for_everybody_and_what_it_shows_is_not(self) -> None:
        with Coordinator(auth_key="key", auth_secret="secret") as coordinator:
            root = coordinator.url.removesuffix("/api")
            assert httpx.get(root + "/").status_code == 200
            assert httpx.get(root + "/page/page.js").status_code == 200
            for path in (
                "overview",
                "activity",
                "failures",
                "workers",
                "workflows",
                "workflow-ids",
                "queues",
                "inbox",
                "schedules",
                "secrets",
                "leases",
                "server",
                "workflow/x",
                "workflow/x/waiting",
            ):
                assert httpx.get(f"{coordinator.url}/view/{path}").status_code == 401
            shown = {"keyId": "key", "keySecret": "secret"}
            token = httpx.post(f"{coordinator.url}/token", json=shown).json()["token"]
            headers = {"X-Authorization": token}
            assert httpx.get(f"{coordinator.url}/view/overview", headers=headers).status_code == 200


class TestOverview:
    def test_the_overview_counts_what_runs_waits_and_failed(self, api: httpx.Client) -> None:
        for _ in range(3):
            start(api)
        start(api, "other", "charge")
        work(api)
        work(api, status="FAILED_WITH_TERMINAL_ERROR")
        found = see(api, "overview")
        assert (found["running"], found["waiting"], found["failedLately"]) == (2, 2, 1)
        assert found["healthy"] is True
        assert [one["ref"] for one in found["unpolled"]] == ["charge"]
        assert found["unpolled"][0]["sentence"].startswith("no worker has polled charge since the server started")

    def test_the_overview_of_nothing_is_zero(self, api: httpx.Client) -> None:
        found = see(api, "overview")
        assert (found["running"], found["waiting"], found["oldestMs"], found["unpolled"]) == (0, 0, None, [])
        assert found["fastLoops"] == []


class TestListOfWorkflows:
    def test_the_list_of_workflows_is_newest_first_page_by_page(self, api: httpx.Client) -> None:
        ids = [start(api) for _ in range(5)]
        first = see(api, "workflows", size=2)
        second = see(api, "workflows", size=2, before=first["next"])
        third = see(api, "workflows", size=2, before=second["next"])
        seen = [one["workflowId"] for page in (first, second, third) for one in page["results"]]
        assert seen == ids[::-1]
        assert third["next"] is None

    def test_the_list_of_workflows_says_why_each_waits(self, api: httpx.Client) -> None:
        start(api, task="lonely")
        (one,) = see(api, "workflows")["results"]
        assert one["waiting"]["kind"] == "unpolled"
        assert one["waiting"]["urgent"] is True

    def test_the_list_of_workflows_says_which_are_sub_workflows(self, api: httpx.Client) -> None:
        inner = {"name": "inner", "tasks": [{"name": "work", "taskReferenceName": "work"}]}
        step = {"name": "step", "taskReferenceName": "step", "type": "SUB_WORKFLOW"}
        outer = {
            "name": "outer",
            "tasks": [{**step, "subWorkflowParam": {"name": "inner", "workflowDefinition": inner}}],
        }
        api.post("/workflow", json={"name": "outer", "workflowDef": outer}).raise_for_status()
        found = {one["name"]: one.get("isSubWorkflow", False) for one in see(api, "workflows")["results"]}
        assert found == {"inner": True, "outer": False}

    def test_the_list_of_workflows_can_be_filtered_by_status_and_name(self, api: httpx.Client) -> None:
        done = start(api)
        work(api)
        running, other = start(api), start(api, "other")
        assert [one["workflowId"] for one in see(api, "workflows", status="RUNNING")["results"]] == [other, running]
        assert [one["workflowId"] for one in see(api, "workflows", status="COMPLETED")["results"]] == [done]
        assert len(see(api, "workflows", status="COMPLETED,RUNNING")["results"]) == 3
        assert [one["workflowId"] for one in see(api, "workflows", name="other")["results"]] == [other]

    def test_the_list_of_workflows_is_searched_by_id_correlation_id_and_word(self, api: httpx.Client) -> None:
        first = start(api, "order_flow", correlationId="order-8842")
        start(api, "order_flow", correlationId="order-8843")
        second = start(api, "invoice")

        def found(text: str) -> list[str]:
            return [one["workflowId"] for one in see(api, "workflows", text=text)["results"]]

        assert found(first) == [first]
        assert found("order-8842") == [first]
        assert found("VOICE") == [second]
        assert len(found("884")) == 2
        assert found("%") == []

    def test_the_list_of_workflows_reads_a_limited_number_at_once_and_continues(
        self, api: httpx.Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(recent_workflows, "MAX_EXAMINED", 2)
        wanted = start(api, "rare")
        for _ in range(4):
            start(api)
        page, looked, before = see(api, "workflows", name="rare"), 1, None
        while not page["results"]:
            assert page["lookedAtEnough"] is True
            before = page["next"]
            page, looked = see(api, "workflows", name="rare", before=before), looked + 1
        assert [one["workflowId"] for one in page["results"]] == [wanted]
        assert looked == 3

    @pytest.mark.parametrize(
        ("query", "said"), [({"status": "BAD"}, "is not a status"), ({"size": 0}, "between 1 and 200")]
    )
    def test_the_list_of_workflows_says_what_it_cannot_do(
        self, api: httpx.Client, query: dict[str, Any], said: str
    ) -> None:
        answer = api.get("/view/workflows", params=query)
        assert answer.status_code == 400
        assert said in answer.json()["message"]

    def test_the_list_is_filtered_by_text_input_time_and_parent_u5_3_u1_13(self, api: httpx.Client) -> None:
        inner = {"name": "inner", "tasks": [{"name": "work", "taskReferenceName": "work"}]}
        step = {"name": "step", "taskReferenceName": "step", "type": "SUB_WORKFLOW"}
        child = {**step, "subWorkflowParam": {"name": "inner", "workflowDefinition": inner}}
        order = {"order": {"id": 17, "gift": True}, "note": "for Ada's 100% <b>"}
        start(api, "order_flow", input=order, correlationId="order-43")
        api.post("/workflow", json={"name": "outer", "workflowDef": {"name": "outer", "tasks": [child]}})
        other = start(api, "other", correlationId="my-order-430")

        def found(**query: Any) -> list[str]:
            return [one["name"] for one in see(api, "workflows", **query)["results"]]

        assert found(topLevel="true") == ["other", "outer", "order_flow"]
        assert found(input="order.id=17") == found(input=" order.id = '17' ") == ["order_flow"]
        assert found(input="order.gift=true") == found(input="ADA'S 100%") == ["order_flow"]
        assert found(input="order.id=1") == found(input="id.order=17") == found(input="%order%") == []
        assert found(text="order-43") == ["other", "order_flow"]
        began = see(api, f"workflow/{other}")["workflow"]["createTime"]
        assert found(startedFrom=began)[0] == "other"
        assert found(startedFrom=began + 60_000) == []
        assert found(startedTo=began + 1, name="other") == ["other"]
        assert found(startedTo=1) == []

    def test_the_list_counts_and_names_all_that_match_u5_3(
        self, api: httpx.Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ids = [start(api) for _ in range(5)]
        work(api, status="FAILED_WITH_TERMINAL_ERROR", reasonForIncompletion="ConnectionError: bank.example refused")
        page = see(api, "workflows", size=2, total="true")
        assert (len(page["results"]), page["total"], page["totalIsLimited"]) == (2, 5, False)
        assert see(api, "workflows", size=2)["total"] is None
        assert see(api, "workflow-ids")["statuses"] == dict.fromkeys(ids[::-1], "RUNNING") | {ids[0]: "FAILED"}
        assert list(see(api, "workflow-ids", text="bank.example")["statuses"]) == ids[:1]
        monkeypatch.setattr(recent_workflows, "MAX_COUNTED", 3)
        monkeypatch.setattr(recent_workflows, "MAX_IDS", 3)
        page = see(api, "workflows", total="true")
        assert (page["total"], page["totalIsLimited"]) == (3, True)
        known = see(api, "workflow-ids")
        assert (list(known["statuses"]), known["hasMore"]) == (ids[:1:-1], True)

    def test_a_filter_that_is_too_long_is_rejected(self, api: httpx.Client) -> None:
        answer = api.get("/view/workflows", params={"input": "x" * 1001})
        assert answer.status_code == 400
        assert "at most 1000 characters" in answer.json()["message"]


class TestActivityAndFailures:
    def test_the_activity_and_the_causes_of_failures_are_read(self, api: httpx.Client) -> None:
        failed = [start(api), start(api)]
        for number in range(2):
            reason = f"TimeoutError: bank took {number + 30} s"
            work(api, status="FAILED_WITH_TERMINAL_ERROR", reasonForIncompletion=reason)
        found = see(api, "activity", hours=24)
        assert (sum(found["started"]), sum(found["failed"]), found["attempts"]) == (2, 2, 2)
        assert [(one["name"], one["failed"]) for one in found["taskTypes"]] == [("work", 2)]
        (group,) = see(api, "failures")["groups"]
        assert (group["cause"], group["count"]) == ("TimeoutError: bank took # s", 2)
        assert see(api, f"failures/{group['key']}")["statuses"] == dict.fromkeys(failed[::-1], "FAILED")
        assert api.get("/view/failures/unknown").status_code == 404
        assert api.get("/view/activity", params={"hours": 0}).status_code == 400


class TestEvents:
    """The stream of changes for open web UIs."""

    def test_changes_are_streamed_and_a_stream_is_resumed(self, api: httpx.Client) -> None:
        with api.stream("GET", "/view/events") as answer:
            assert answer.headers["content-type"] == "text/event-stream;charset=utf-8"
            events = read_events(answer)
            kind, first_id, _ = next(events)
            assert kind == "open"
            started = start(api)
            _, change_id, data = next(one for one in events if one[0] == "change")
            assert data == {"workflows": [started], "all": False}
        work(api)
        with api.stream("GET", "/view/events", headers={"Last-Event-ID": change_id}) as answer:
            events = read_events(answer)
            assert next(events)[0] == "open"
            assert next(events) == ("change", ANY, {"workflows": [started], "all": False})
        for unknown in ("other-1", first_id.partition("-")[0] + "-999", first_id.partition("-")[0] + "-x"):
            with api.stream("GET", "/view/events", headers={"Last-Event-ID": unknown}) as answer:
                assert next(read_events(answer))[0] == "reset"

    def test_a_task_that_a_worker_takes_is_a_change(self, api: httpx.Client) -> None:
        started = start(api)
        with api.stream("GET", "/view/events") as answer:
            events = read_events(answer)
            assert next(events)[0] == "open"
            api.get("/tasks/poll/work").raise_for_status()
            assert next(events)[2] == {"workflows": [started], "all": False}

    def test_too_many_streams_are_refused_and_a_closed_one_makes_room(
        self, api: httpx.Client, coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(change_feed, "MAX_STREAMS", 1)
        with api.stream("GET", "/view/events") as answer:
            events = read_events(answer)  # kept, because the end of a generator closes the connection
            next(events)
            refused = api.get("/view/events")
            assert (refused.status_code, "event streams" in refused.json()["message"]) == (503, True)
        assert api.head("/view/events").status_code in (200, 503)
        assert eventually(lambda: httpx_opens(api))

    def test_a_stream_ends_when_the_coordinator_stops(self, tmp_path: Path) -> None:
        with Coordinator(tmp_path / "coordinator.db") as found:
            client = httpx.Client(base_url=found.url)
            context = client.stream("GET", "/view/events")
            events = read_events(context.__enter__())
            assert next(events)[0] == "open"
        assert list(events) == []
        client.close()


def read_events(answer: httpx.Response) -> Iterator[tuple[str, str, Any]]:
    """Parse server-sent events: name, id and data."""
    fields: dict[str, str] = {}
    for line in answer.iter_lines():
        name, _, value = line.partition(": ")
        if line:
            fields[name] = value
        elif "event" in fields:
            yield fields["event"], fields["id"], json.loads(fields["data"])
            fields = {}


def httpx_opens(api: httpx.Client) -> bool:
    with api.stream("GET", "/view/events") as answer:
        return answer.status_code == 200


def eventually(check: Callable[[], bool]) -> bool:
    """Repeat a request until it succeeds, for at most a minute."""
    ends = time.monotonic() + 60
    while not (found := check()) and time.monotonic() < ends:
        pass
    return found


class TestWorkers:
    def test_workers_tell_their_slots_and_versions_and_others_are_listed_too(self, api: httpx.Client) -> None:
        start(api)
        said: dict[str, Any] = {
            "timeout": 0,
            "workerid": "host-1-7",
            "slots": 20,
            "client": "conductor-worker 9, Python 3.12.1",
        }
        api.get("/tasks/poll/batch/work", params=said).raise_for_status()
        api.get("/tasks/poll/batch/pack", params={**said, "slots": 3, "domain": "gpu"}).raise_for_status()
        api.get("/tasks/poll/charge", params={"workerid": "java-1"}, headers={"User-Agent": "Java/21"})
        api.get("/tasks/poll/batch/conductor_worker_doctor", params={"timeout": 0, "workerid": "d"})  # is not a worker
        own, other = sorted(see(api, "workers")["workers"], key=lambda one: one["workerId"])
        assert (own["workerId"], own["slots"], own["inHand"], own["isLive"]) == ("host-1-7", 23, 1, True)
        assert own["client"] == "conductor-worker 9, Python 3.12.1"
        pack, done = own["queues"]
        assert (pack["name"], pack["domain"], pack["slots"], "inHand" in pack) == ("pack", "gpu", 3, False)
        assert (done["name"], done["inHand"]) == ("work", 1)
        assert (other["workerId"], other["client"], "slots" in other) == ("java-1", "Java/21", False)


class TestOneWorkflow:
    def test_the_view_of_a_workflow_has_every_attempt_and_why_it_waits(self, api: httpx.Client) -> None:
        started = start(api)
        work(api, status="FAILED", reasonForIncompletion="refused")
        found = see(api, f"workflow/{started}")
        first, second = found["tasks"]
        assert (first["status"], first["reason"], first["workerId"], first["retried"]) == (
            "FAILED",
            "refused",
            "w1",
            True,
        )
        assert (second["status"], second["retryCount"]) == ("SCHEDULED", 1)
        assert second["waiting"]["kind"] == "retry"
        assert found["waiting"]["sentence"].startswith("work waits for retry 1 of 3 at ")
        assert found["workflow"]["workflowDefinition"]["name"] == "flow"

    def test_the_view_of_a_workflow_without_its_definition_is_shorter(self, api: httpx.Client) -> None:
        started = start(api)
        assert "workflowDefinition" not in see(api, f"workflow/{started}", definition="false")["workflow"]

    def test_the_view_of_a_workflow_says_what_a_switch_chose_and_who_holds_a_lease(self, api: httpx.Client) -> None:
        flow = {
            "name": "chosen",
            "tasks": [
                {
                    "name": "way",
                    "taskReferenceName": "way",
                    "type": "SWITCH",
                    "evaluatorType": "value-param",
                    "expression": "to",
                    "inputParameters": {"to": "left"},
                    "decisionCases": {"left": [{"name": "work", "taskReferenceName": "work"}]},
                }
            ],
        }
        started = api.post("/workflow", json={"name": "chosen", "workflowDef": flow}).text
        api.get("/tasks/poll/work", params={"workerid": "host-7"})
        way, work_line = see(api, f"workflow/{started}")["tasks"]
        assert way["chosen"] == "left"
        assert (work_line["workerId"], work_line["status"]) == ("host-7", "IN_PROGRESS")
        assert work_line["leaseUntilMs"] > 0
        assert work_line["waiting"]["sentence"].startswith("has been running on host-7 for ")

    def test_the_view_of_a_workflow_names_its_parents_and_its_innermost_cause_u5_9(self, api: httpx.Client) -> None:
        inner: dict[str, Any] = {"name": "inner", "tasks": [{"name": "work", "taskReferenceName": "work"}]}
        for name in ("middle", "outer"):
            step = {"name": "step", "taskReferenceName": "step", "type": "SUB_WORKFLOW"}
            inner = {"name": name, "tasks": [{**step, "subWorkflowParam": {"name": "x", "workflowDefinition": inner}}]}
        outer = api.post("/workflow", json={"name": "outer", "workflowDef": inner}).text
        found = see(api, f"workflow/{outer}")
        assert found["parents"] == []
        middle, innermost = found["causes"]
        assert [one["name"] for one in (middle, innermost)] == ["middle", "inner"]
        assert innermost["waiting"]["sentence"].startswith("work waits for a worker")
        parents = see(api, f"workflow/{innermost['workflowId']}")["parents"]
        assert [one["workflowId"] for one in parents] == [outer, middle["workflowId"]]
        work(api, status="FAILED_WITH_TERMINAL_ERROR", reasonForIncompletion="no paper")
        causes = see(api, f"workflow/{outer}")["causes"]
        assert causes[-1]["waiting"]["sentence"] == "work failed for good, without retries: no paper"

    def test_a_workflow_that_a_durable_step_has_called_is_a_cause(self, api: httpx.Client) -> None:
        inner = {"name": "inner", "tasks": [{"name": "pack", "taskReferenceName": "pack"}]}
        assert api.put("/metadata/workflow", json=[inner]).status_code == 200
        outer = start(api)
        step = {"name": "inner", "kind": "WORKFLOW", "state": "WAITING", "result": {}}
        work(api, status="IN_PROGRESS", suspended=True, reportId="r1", steps=[step])
        (cause,) = see(api, f"workflow/{outer}")["causes"]
        assert cause["name"] == "inner"
        assert cause["waiting"]["sentence"].startswith("pack waits for a worker")
        work(api, task="pack")
        assert see(api, f"workflow/{outer}")["causes"] == []

    def test_the_sentence_alone_for_a_workflow_and_for_a_task(self, api: httpx.Client) -> None:
        started = start(api)
        task = work(api, status="FAILED_WITH_TERMINAL_ERROR", reasonForIncompletion="refused")
        assert see(api, f"workflow/{started}/waiting")["sentence"] == "work failed for good, without retries: refused"
        assert see(api, f"task/{task}/waiting")["kind"] == "failed"
        assert api.get("/view/workflow/unknown/waiting").status_code == 404
        assert api.get("/view/task/unknown/waiting").status_code == 404
        assert api.get("/view/workflow/unknown").status_code == 404


class TestQueues:
    def test_queues_say_how_much_waits_who_polls_and_how_fast(self, api: httpx.Client) -> None:
        for _ in range(3):
            start(api)
        work(api)
        api.get("/tasks/poll/work", params={"workerid": "host-7"})
        (found,) = see(api, "queues")["queues"]
        assert (found["name"], found["ready"], found["inHand"], found["lastWorker"]) == ("work", 1, 1, "host-7")
        assert [(one["workerId"], one["inHand"]) for one in found["holders"]] == [("host-7", 1)]
        assert (found["stats"]["tasks"], found["stats"]["scheduledPerMin"], found["stats"]["endedPerMin"]) == (3, 3, 1)
        assert found["stats"]["runP50Ms"] >= 0
        assert "problem" not in found

    def test_queues_that_nobody_polls_come_first_with_the_reason(self, api: httpx.Client) -> None:
        start(api)
        work(api)
        start(api, task="alone", taskToDomain={"alone": "gpu"})
        api.get("/tasks/poll/alone", params={"workerid": "host-7"})
        first, second = see(api, "queues")["queues"]
        assert (first["name"], first["domain"], first["problem"]["kind"]) == ("alone", "gpu", "domain")
        assert second["name"] == "work"

    def test_queues_tell_the_verdicts_of_their_reports(self, api: httpx.Client) -> None:
        start(api)
        start(api, task="other")
        start(api, task="other", taskToDomain={"other": "gpu"})
        start(api, task="silent")
        work(api)
        work(api, "other")
        (lost,) = api.get("/tasks/poll/batch/other", params={"timeout": 0, "workerid": "w1", "domain": "gpu"}).json()
        said = {name: lost[name] for name in ("taskId", "workflowInstanceId", "leaseId", "workerId")}
        api.delete(f"/workflow/{lost['workflowInstanceId']}")
        assert api.post("/tasks", json={**said, "status": "COMPLETED"}).status_code == 409
        assert api.post("/tasks", json={**said, "status": "FAILED"}).status_code == 409
        api.post("/tasks", json={**said, "extendLease": True})  # a heartbeat is no report
        found = {(one["name"], one.get("domain")): one.get("verdicts") for one in see(api, "queues")["queues"]}
        assert found == {
            ("work", None): {"COMMITTED": 1},
            ("other", None): {"COMMITTED": 1},
            ("other", "gpu"): {"CANCELLED": 1, "REJECTED": 1},
            ("silent", None): None,
        }


class TestLeases:
    def test_leases_that_end_soonest_come_first_and_end_with_their_report(self, api: httpx.Client) -> None:
        limits = {"retryCount": 0, "timeoutSeconds": 0}
        times = [{"name": "long", "responseTimeoutSeconds": 900}, {"name": "short", "responseTimeoutSeconds": 60}]
        assert api.post("/metadata/taskdefs", json=[{**limits, **one} for one in times]).status_code == 200
        for task in ("long", "short"):
            start(api, task=task, taskToDomain={"long": "gpu"})
            api.get(f"/tasks/poll/batch/{task}", params={"timeout": 0, "workerid": "w1", "domain": "gpu"})
            api.get(f"/tasks/poll/batch/{task}", params={"timeout": 0, "workerid": "w1"})
        found = see(api, "leases")
        assert [(one["name"], one.get("domain"), one["workerId"]) for one in found["leases"]] == [
            ("short", None, "w1"),
            ("long", "gpu", "w1"),
        ]
        assert found["leases"][0]["untilMs"] > found["nowMs"]
        assert see(api, "leases", size=1)["leases"] == found["leases"][:1]
        said = {"taskId": found["leases"][0]["taskId"], "workflowInstanceId": found["leases"][0]["workflowId"]}
        assert api.post("/tasks", json={**said, "workerId": "w1", "status": "COMPLETED"}).status_code == 200
        assert [one["name"] for one in see(api, "leases")["leases"]] == ["long"]

    def test_leases_are_not_listed_without_end(self, api: httpx.Client) -> None:
        answer = api.get("/view/leases", params={"size": 201})
        assert answer.status_code == 400
        assert "between 1 and 200" in answer.json()["message"]


class TestSchedulesAndSecrets:
    def test_schedules_are_said_in_words_with_their_next_runs_in_their_zone_u1_11(self, api: httpx.Client) -> None:
        start_request = {"name": "nobody_knows"}
        known = {"name": "flow", "tasks": [{"name": "work", "taskReferenceName": "work"}]}
        api.post("/metadata/workflow", json=known).raise_for_status()
        for name, zone, request in (
            ("lost", "Europe/Berlin", start_request),
            ("nightly", "America/New_York", {"name": "flow"}),
        ):
            one = {"name": name, "cronExpression": "0 0 2 * * *", "zoneId": zone, "startWorkflowRequest": request}
            api.post("/scheduler/schedules", json=one).raise_for_status()
        lost, nightly = see(api, "schedules")["schedules"]
        assert lost["schedule"]["name"] == "lost"
        assert lost["warnings"] == ["there is no workflow 'nobody_knows', so every run fails until it is registered"]
        assert nightly["warnings"] == []
        (cron,) = nightly["times"]
        assert (cron["words"], cron["zone"], cron["problem"]) == ("every day at 02:00", "America/New_York", None)
        assert len(cron["next"]) == 5
        assert all(due["local"].endswith(" 02:00:00") for due in cron["next"])
        assert [one["schedule"]["name"] for one in see(api, "schedules", workflow="flow")["schedules"]] == ["nightly"]
        assert [one["schedule"]["name"] for one in see(api, "schedules", name="lost")["schedules"]] == ["lost"]
        assert api.get("/view/schedules", params={"name": "x"}).status_code == 404

    def test_a_cron_expression_can_be_tried(self, api: httpx.Client) -> None:
        assert see(api, "cron", expression="0 0 2 * * *")["words"] == "every day at 02:00"
        assert "has 5 fields, not 6" in see(api, "cron", expression="0 2 * * *")["problem"]
        assert "unknown time zone" in see(api, "cron", expression="0 0 2 * * *", zone="Mars")["problem"]
        assert see(api, "cron", expression="0 0 0 29 2 *", zone="+02:00")["next"]

    def test_secrets_are_listed_without_their_values(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("CONDUCTOR_SECRET_FROM_ENV", "v-1")
        with Coordinator() as coordinator, httpx.Client(base_url=coordinator.url) as api:
            api.put("/secrets/FROM_API", json="v-2").raise_for_status()
            answer = api.get("/view/secrets")
            assert answer.json() == {
                "secrets": [
                    {"name": "FROM_API", "fromEnvironment": False, "fromApi": True},
                    {"name": "FROM_ENV", "fromEnvironment": True, "fromApi": False},
                ],
                "areStored": False,
            }


class TestInbox:
    def test_the_inbox_lists_what_waits_for_a_person_oldest_first(self, api: httpx.Client) -> None:
        human: dict[str, Any] = {"name": "approve", "taskReferenceName": "approve", "type": "HUMAN"}
        human["inputParameters"] = {
            "amount": "${workflow.input.amount}",
            "large": "${workflow.input.large}",
            "nested": {"a": 1},
            "__humanTaskDefinition": {"displayName": "Approve it"},
        }
        ends = {
            "name": "pause",
            "taskReferenceName": "pause",
            "type": "WAIT",
            "inputParameters": {"duration": "2 days"},
        }
        flow = {"name": "approved", "tasks": [human, ends]}
        ids = [
            api.post("/workflow", json={"name": "approved", "workflowDef": flow, "input": given}).text
            for given in ({"amount": 5}, {"amount": 6, "large": "x" * 20_000}, {"amount": 7})
        ]
        start(api)
        first = see(api, "inbox", size=2)
        second = see(api, "inbox", size=2, after=first["next"])
        assert (first["count"], see(api, "overview")["inbox"], second["next"]) == (3, 3, None)
        assert [one["workflowId"] for page in (first, second) for one in page["tasks"]] == ids
        one, large = first["tasks"]
        assert (one["ref"], one["type"], one["title"], one["facts"]) == (
            "approve",
            "HUMAN",
            "Approve it",
            {"amount": 5},
        )
        assert "facts" not in large  # a large input is not read for a list
        api.post(f"/tasks/{ids[0]}/approve/COMPLETED", json={}).raise_for_status()
        api.delete(f"/workflow/{ids[1]}").raise_for_status()
        assert [task["workflowId"] for task in see(api, "inbox")["tasks"]] == ids[2:]

    @pytest.mark.parametrize(("query", "said"), [({"size": 0}, "between 1 and 200"), ({"after": "x"}, "id of a task")])
    def test_the_inbox_says_what_it_cannot_do(self, api: httpx.Client, query: dict[str, Any], said: str) -> None:
        answer = api.get("/view/inbox", params=query)
        assert answer.status_code == 400
        assert said in answer.json()["message"]


def test_the_server_tells_about_itself(api: httpx.Client, coordinator: Coordinator) -> None:
    start(api)
    found = see(api, "server")
    assert found["healthy"] is True
    assert found["database"] == coordinator.database
    assert found["fileBytes"] > 0
    assert found["commits"] >= 1
    assert found["committedCallers"] >= found["commits"]
    assert found["keepFinishedS"] is None


def test_a_coordinator_in_memory_has_no_file(tmp_path: Path) -> None:
    with Coordinator() as coordinator:
        assert httpx.get(f"{coordinator.url}/view/server").json()["fileBytes"] is None
