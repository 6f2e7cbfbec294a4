"""`/api/scheduler` over HTTP, with our client and as Conductor 3.32.3 answered the same requests."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from conductor.client.ai.schedule import Schedule, ScheduleInfo
from conductor.client.configuration.configuration import Configuration
from conductor.client.http.api.metadata_resource_api import MetadataResourceApi
from conductor.client.http.errors import ApiException, NotFoundException
from conductor.client.http.models.save_schedule_request import SaveScheduleRequest
from conductor.client.http.models.start_workflow_request import StartWorkflowRequest
from conductor.client.http.models.workflow_def import WorkflowDef
from conductor.client.http.models.workflow_task import WorkflowTask
from conductor.client.scheduler_client import SchedulerClient
from conductor.client.workflow.executor.workflow_executor import WorkflowExecutor
from conductor.coordinator import Coordinator
from conductor.testing import FakeClock

NEW_YEAR = {
    "name": "s1",
    "cronExpression": "0 0 0 1 1 *",
    "startWorkflowRequest": {"name": "wf", "version": 1, "input": {"a": 1}},
}
#: POST /scheduler/schedules of the above, as Conductor 3.32.3 answered it, without its times.
CONDUCTORS = {
    "name": "s1",
    "cronExpression": "0 0 0 1 1 *",
    "runCatchupScheduleInstances": False,
    "paused": False,
    "startWorkflowRequest": {"name": "wf", "version": 1, "input": {"a": 1}, "taskToDomain": {}, "priority": 0},
    "zoneId": "UTC",
    "createdBy": "",
    "updatedBy": "",
    "cronSchedules": [],
}
TIMES = ("createTime", "updatedTime", "nextRunTime")


@pytest.fixture
def api() -> Iterator[httpx.Client]:
    with Coordinator() as coordinator, httpx.Client(base_url=coordinator.url, timeout=30) as api:
        yield api


def saved(api: httpx.Client, **fields: Any) -> dict[str, Any]:
    found: dict[str, Any] = api.post("/scheduler/schedules", json={**NEW_YEAR, **fields}).raise_for_status().json()
    return found


class TestAsConductorAnswers:
    def test_a_schedule_looks_as_there(self, api: httpx.Client) -> None:
        found = saved(api)
        assert {name: value for name, value in found.items() if name not in TIMES} == CONDUCTORS
        assert api.get("/scheduler/schedules/s1").json() == found
        assert api.get("/scheduler/schedules").json() == [found]
        assert api.get("/scheduler/schedules?workflowName=wf").json() == [found]
        assert api.get("/scheduler/schedules?workflowName=other").json() == []
        assert api.get("/scheduler/schedules/search").json() == {"totalHits": 1, "results": [found]}
        assert api.get("/scheduler/schedules/search?paused=true").json() == {"totalHits": 0, "results": []}
        for query in ("scheduleName=s1&sort=name:DESC", "freeText=s1", "freeText=*", "paused=false"):
            assert api.get(f"/scheduler/schedules/search?{query}").json()["totalHits"] == 1

    def test_statuses_and_bodies_are_those_of_conductor(self, api: httpx.Client) -> None:
        saved(api)
        asked: list[tuple[str, str, Any]] = [
            ("GET", "/scheduler/schedules/nope", None),
            ("GET", "/scheduler/schedules/s1/pause", None),
            ("PUT", "/scheduler/schedules/s1/pause?reason=holiday", None),
            ("PUT", "/scheduler/schedules/s1/resume", None),
            ("PUT", "/scheduler/schedules/nope/pause", None),
            ("PUT", "/scheduler/bulk/pause", ["s1", "nope"]),
            ("PUT", "/scheduler/bulk/resume", ["s1", "nope"]),
            ("PUT", "/scheduler/bulk/pause", []),
            ("GET", "/scheduler/admin/pause", None),
            ("GET", "/scheduler/admin/resume", None),
            ("GET", "/scheduler/admin/requeue", None),
            ("GET", "/scheduler/search/executions", None),
            ("DELETE", "/scheduler/schedules/s1", None),
            ("DELETE", "/scheduler/schedules/s1", None),
        ]
        answers = [api.request(method, path, json=body) for method, path, body in asked]
        bulk = {"bulkErrorResults": {"nope": "Schedule 'nope' not found"}, "bulkSuccessfulResults": ["s1"]}
        assert [(answer.status_code, answer.json() if answer.content else None) for answer in answers] == [
            (404, answers[0].json() | {"message": "Schedule 'nope' not found"}),
            (405, answers[1].json() | {"message": "Request method 'GET' is not supported"}),
            (200, None),
            (200, None),
            (404, answers[4].json() | {"message": "Schedule 'nope' not found"}),
            (200, bulk),
            (200, bulk),
            (400, answers[7].json() | {"message": "Validation failed, check below errors for detail."}),
            (200, {"status": "done"}),
            (200, {"status": "done"}),
            (200, {"sampleIds": [], "recordIds.size": 0}),
            (200, {"totalHits": 0, "results": []}),
            (200, None),
            (200, None),
        ]

    def test_the_next_moments_are_at_most_five_and_within_bounds(self, api: httpx.Client) -> None:
        midnight = {"cronExpression": "0 0 0 * * *"}
        assert len(api.get("/scheduler/nextFewSchedules", params={**midnight, "limit": 10}).json()) == 5
        bounds = {"scheduleStartTime": 1_900_000_000_000, "scheduleEndTime": 1_900_100_000_000}
        assert api.get("/scheduler/nextFewSchedules", params={**midnight, **bounds}).json() == [1_900_022_400_000]

    def test_a_schedule_that_conductor_accepts_and_never_runs_is_refused(self, api: httpx.Client) -> None:
        """There: 200 for all but the zone, which is a 500; the log alone says that nothing will ever happen."""
        for fields, why in (
            ({"cronExpression": "nonsense"}, "cron expression 'nonsense' has 1 fields, not 6"),
            ({"cronExpression": "0 0 0 30 2 *"}, "is never due: no date matches it"),
            ({"cronSchedules": [{"cronExpression": "bad"}]}, "cron expression 'bad' has 1 fields"),
            ({"zoneId": "Mars/One"}, "unknown time zone 'Mars/One'"),
            ({"name": ""}, "a schedule needs a name"),
        ):
            answer = api.post("/scheduler/schedules", json={**NEW_YEAR, **fields})
            assert (answer.status_code, why in answer.json()["message"]) == (400, True), answer.text
        assert api.get("/scheduler/nextFewSchedules?cronExpression=bad").status_code == 400
        assert api.get("/scheduler/nextFewSchedules").status_code == 400

    def test_tags_are_not_there_and_say_so(self, api: httpx.Client) -> None:
        answer = api.get("/scheduler/schedules/s1/tags")
        assert answer.status_code == 404
        assert "no tags of schedules" in answer.json()["message"]


def test_the_client_saves_pauses_and_finds(api: httpx.Client) -> None:
    asked = SaveScheduleRequest(
        name="nightly",
        cron_expression="0 0 3 * * *",
        zone_id="Europe/Berlin",
        start_workflow_request=StartWorkflowRequest(name="wf"),
    )
    with SchedulerClient(Configuration(str(api.base_url))) as scheduler:
        scheduler.save_schedule(asked)
        assert [one.name for one in scheduler.get_all_schedules()] == ["nightly"]
        scheduler.pause_schedule("nightly", "holiday")
        assert scheduler.get_schedule("nightly").paused_reason == "holiday"
        scheduler.resume_schedule("nightly")
        scheduler.pause_all_schedules()
        scheduler.resume_all_schedules()
        scheduler.requeue_all_execution_records()
        assert len(scheduler.get_next_few_schedule_execution_times("0 0 3 * * *", limit=2)) == 2
        assert scheduler.search_schedule_executions().total_hits == 0
        scheduler.delete_schedule("nightly")
        with pytest.raises(NotFoundException):
            scheduler.get_schedule("nightly")


class SetClock(FakeClock):
    """A clock whose wall time can be set; durations do not notice."""

    ahead_ms = 0

    def wall_ms(self) -> int:
        return super().wall_ms() + self.ahead_ms


def test_a_clock_that_is_set_forward_is_noticed_by_the_next_commit() -> None:
    clock = SetClock()
    with Coordinator(clock=clock) as coordinator, httpx.Client(base_url=coordinator.url, timeout=30) as api:
        note = {"name": "n", "taskReferenceName": "n", "type": "SET_VARIABLE", "inputParameters": {"a": 1}}
        api.post("/metadata/workflow", json={"name": "wf", "tasks": [note]}).raise_for_status()
        saved(api, cronExpression="0 0 * * * *", startWorkflowRequest={"name": "wf"})
        clock.wait_sleeping(1)
        clock.ahead_ms = 7_200_000
        api.post("/workflow/wf", json={}).raise_for_status()
        gives_up = time.monotonic() + 60
        while api.get("/scheduler/search/executions").json()["totalHits"] == 0:
            assert time.monotonic() < gives_up, "nothing was started"


def test_the_alarm_of_a_running_coordinator_starts_what_is_due_and_sleeps_until_then() -> None:
    clock = FakeClock()
    with Coordinator(clock=clock) as coordinator, httpx.Client(base_url=coordinator.url, timeout=30) as api:
        note = {"name": "n", "taskReferenceName": "n", "type": "SET_VARIABLE", "inputParameters": {"a": 1}}
        api.post("/metadata/workflow", json={"name": "wf", "tasks": [note]}).raise_for_status()
        due_ms = saved(api, cronExpression="0 0 * * * *", startWorkflowRequest={"name": "wf"})["nextRunTime"]
        clock.wait_sleeping(2)  # the timer, and the sweep of the audit trail
        clock.advance((due_ms - clock.wall_ms()) / 1000 - 1)
        assert api.get("/scheduler/search/executions").json()["totalHits"] == 0
        clock.advance(1)
        clock.wait_sleeping(2)
        (run,) = api.get("/scheduler/search/executions").json()["results"]
        assert (run["state"], run["scheduledTime"]) == ("EXECUTED", due_ms)
        assert api.get(f"/workflow/{run['workflowId']}").json()["status"] == "COMPLETED"
        assert pytest.approx(3600) in clock.sleeps  # until the next due time


class TestSchedulesOfOneWorkflow:
    """The methods of conductor-python's client for the schedules of an agent."""

    @pytest.fixture
    def client(self, api: httpx.Client) -> Iterator[SchedulerClient]:
        with SchedulerClient(Configuration(server_api_url=str(api.base_url).rstrip("/"))) as found:
            yield found

    def test_a_list_says_which_schedules_there_are_s11(self, api: httpx.Client, client: SchedulerClient) -> None:
        saved(api, name="wf-old")
        saved(api, name="elsewhere", startWorkflowRequest={"name": "other"})
        client.reconcile("wf", [Schedule("nightly", "0 0 2 * * *", input={"a": 2}, paused=True)])
        assert {one["name"] for one in api.get("/scheduler/schedules").json()} == {"wf-nightly", "elsewhere"}
        info = ScheduleInfo.of(client.get_schedule("wf-nightly"))
        assert (info.name, info.short_name, info.agent) == ("wf-nightly", "nightly", "wf")
        assert (info.cron, info.input, info.paused, info.timezone) == ("0 0 2 * * *", {"a": 2}, True, "UTC")
        client.reconcile("wf", None)
        assert len(api.get("/scheduler/schedules?workflowName=wf").json()) == 1
        client.reconcile("wf", [])
        assert [one["name"] for one in api.get("/scheduler/schedules").json()] == ["elsewhere"]

    def test_a_list_that_cannot_be_changes_nothing_s11(self, api: httpx.Client, client: SchedulerClient) -> None:
        saved(api)
        with pytest.raises(ValueError, match="listed twice: wf-n"):
            client.reconcile("wf", [Schedule("n", "0 0 2 * * *"), Schedule("n", "0 0 3 * * *")])
        with pytest.raises(ApiException):
            client.reconcile("wf", [Schedule("n", "nonsense")])
        assert [one["name"] for one in api.get("/scheduler/schedules").json()] == ["s1"]
        for name, cron in ((" ", "x"), ("n", "")):
            with pytest.raises(ValueError, match="is empty"):
                Schedule(name, cron)
        with pytest.raises(ValueError, match="which is not after"):
            Schedule("n", "0 0 2 * * *", start_at=5, end_at=5)

    def test_the_workflow_of_a_schedule_is_started_now_s11(self, api: httpx.Client, client: SchedulerClient) -> None:
        task = {"name": "wait", "taskReferenceName": "wait", "type": "HUMAN"}
        api.post("/metadata/workflow", json={"name": "wf", "tasks": [task]}).raise_for_status()
        saved(api)
        started = client.run_now(ScheduleInfo.of(client.get_schedule("s1")))
        found = api.get(f"/workflow/{started}").json()
        assert (found["workflowName"], found["input"], found["status"]) == ("wf", {"a": 1}, "RUNNING")


def test_an_executor_has_the_generated_class_of_definitions_s11(api: httpx.Client) -> None:
    executor = WorkflowExecutor(Configuration(server_api_url=str(api.base_url).rstrip("/")))
    assert isinstance(executor.metadata_client, MetadataResourceApi)
    executor.register_workflow(WorkflowDef(name="wf", tasks=[WorkflowTask(name="a", task_reference_name="a")]))
    assert executor.metadata_client.get("wf").name == "wf"
    with pytest.raises(ApiException, match="already exists"):
        executor.register_workflow(
            WorkflowDef(name="wf", tasks=[WorkflowTask(name="a", task_reference_name="a")]), overwrite=False
        )
