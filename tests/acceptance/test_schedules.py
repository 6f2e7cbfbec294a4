"""Schedules, on the coordinator and on a Conductor server."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from conductor.client.http.errors import ApiException, NotFoundException
from conductor.client.http.models.save_schedule_request import SaveScheduleRequest
from conductor.client.http.models.start_workflow_request import StartWorkflowRequest
from conductor.client.http.models.workflow_def import WorkflowDef
from conductor.client.http.models.workflow_schedule_execution_model import WorkflowScheduleExecutionModel
from conductor.client.http.models.workflow_task import WorkflowTask
from conductor.client.scheduler_client import AsyncSchedulerClient
from tests.acceptance.server_session import Session

pytestmark = pytest.mark.targets("coordinator", "conductor-sqlite")

EVERY_SECOND = "* * * * * *"
NEW_YEAR = "0 0 0 1 1 *"


@pytest.fixture
async def scheduler(session: Session) -> AsyncIterator[Scheduler]:
    found = Scheduler(session)
    yield found
    await found.close()


class Scheduler:
    """The schedules of one test; none of them outlives it."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.client = AsyncSchedulerClient(session.configuration)
        self.workflow = session.named("by_the_clock")
        self._saved: set[str] = set()

    async def close(self) -> None:
        for name in self._saved:
            await self.client.delete_schedule(name)
        await self.client.close()

    async def define(self) -> None:
        note = WorkflowTask(name="n", task_reference_name="n", type="SET_VARIABLE", input_parameters={"a": 1})
        await self.session.metadata.register_workflow_def(WorkflowDef(name=self.workflow, tasks=[note]), overwrite=True)

    async def save(self, cron: str = EVERY_SECOND, *, workflow: str | None = None, **fields: Any) -> str:
        name = self.session.named(f"schedule{len(self._saved)}")
        start = StartWorkflowRequest(name=workflow or self.workflow, version=1, input={"given": 1})
        await self.client.save_schedule(
            SaveScheduleRequest(name=name, cron_expression=cron, start_workflow_request=start, **fields)
        )
        self._saved.add(name)
        return name

    async def runs(self, name: str, count: int = 1) -> list[WorkflowScheduleExecutionModel]:
        """Wait for `count` runs of a schedule. Return them in the order of their moments."""

        async def enough() -> list[WorkflowScheduleExecutionModel]:
            found = await self.client.search_schedule_executions(size=100, query=f"scheduleName IN ({name})")
            return list(found.results or []) if len(found.results or []) >= count else []

        found = await self.session.until(enough, f"{count} runs of {name}")
        return sorted(found, key=lambda run: run.scheduled_time or 0)


class TestASchedule:
    async def test_a_schedule_starts_its_workflow_at_each_due_moment_and_tells_it_why(
        self, scheduler: Scheduler
    ) -> None:
        await scheduler.define()
        name = await scheduler.save("*/2 * * * * *")
        runs = await scheduler.runs(name, 2)
        assert {run.state for run in runs} == {"EXECUTED"}
        moments = [run.scheduled_time or 0 for run in runs]
        assert len(set(moments)) == len(moments)
        assert all(moment % 2000 == 0 for moment in moments)
        workflow = await scheduler.session.ended(runs[0].workflow_id or "")
        assert workflow.status == "COMPLETED"
        assert workflow.input["given"] == 1
        assert workflow.input["_startedByScheduler"] == name
        assert workflow.input["_scheduledTime"] == moments[0]
        assert workflow.input["_executionId"] == runs[0].execution_id
        assert workflow.input["_schedulerCron"] == "*/2 * * * * * UTC"

    async def test_a_schedule_of_a_workflow_that_is_not_there_has_failed_runs(self, scheduler: Scheduler) -> None:
        run = (await scheduler.runs(await scheduler.save(workflow=scheduler.session.named("nowhere"))))[0]
        assert (run.state, run.workflow_id) == ("FAILED", None)
        assert "No such workflow defined" in (run.reason or "")

    async def test_a_schedule_is_kept_as_it_was_saved(self, scheduler: Scheduler) -> None:
        name = await scheduler.save(NEW_YEAR, zone_id="Europe/Berlin", description="party", schedule_end_time=2**41)
        found = await scheduler.client.get_schedule(name)
        assert (found.cron_expression, found.zone_id, found.paused) == (NEW_YEAR, "Europe/Berlin", False)
        assert (found.description, found.schedule_end_time) == ("party", 2**41)
        assert found.start_workflow_request is not None
        assert found.start_workflow_request.input == {"given": 1}
        assert name in [one.name for one in await scheduler.client.get_all_schedules(scheduler.workflow)]
        assert name not in [one.name for one in await scheduler.client.get_all_schedules("another")]

    async def test_a_schedule_that_is_removed_is_gone_and_removing_it_again_is_no_mistake(
        self, scheduler: Scheduler
    ) -> None:
        name = await scheduler.save(NEW_YEAR)
        await scheduler.client.delete_schedule(name)
        await scheduler.client.delete_schedule(name)
        with pytest.raises(NotFoundException):
            await scheduler.client.get_schedule(name)

    async def test_a_schedule_pauses_with_a_reason_and_resumes(self, scheduler: Scheduler) -> None:
        name = await scheduler.save(NEW_YEAR)
        await scheduler.client.pause_schedule(name, "holiday")
        found = await scheduler.client.get_schedule(name)
        assert (found.paused, found.paused_reason) == (True, "holiday")
        await scheduler.client.resume_schedule(name)
        found = await scheduler.client.get_schedule(name)
        assert (found.paused, found.paused_reason) == (False, None)
        for change in (scheduler.client.pause_schedule, scheduler.client.resume_schedule):
            with pytest.raises(NotFoundException):
                await change(scheduler.session.named("nope"))

    async def test_a_schedule_starts_nothing_while_it_is_paused(self, scheduler: Scheduler) -> None:
        await scheduler.define()
        name = await scheduler.save(paused=True)
        other = await scheduler.save()
        await scheduler.runs(other, 3)
        found = await scheduler.client.search_schedule_executions(query=f"scheduleName IN ({name})")
        assert found.total_hits == 0

    async def test_a_schedule_starts_nothing_after_its_end(self, scheduler: Scheduler) -> None:
        await scheduler.define()
        ends_ms = (int(time.time()) + 4) * 1000
        name = await scheduler.save(schedule_end_time=ends_ms)
        other = await scheduler.save()

        async def past_the_end() -> bool:
            return any((run.scheduled_time or 0) > ends_ms + 2000 for run in await scheduler.runs(other))

        await scheduler.session.until(past_the_end, "a run after the end of the other schedule")
        assert all((run.scheduled_time or 0) <= ends_ms for run in await scheduler.runs(name))


class TestACronExpression:
    async def test_a_cron_expression_is_due_at_these_moments(self, scheduler: Scheduler) -> None:
        for cron, starts_ms, moments in (
            ("0 15 10 ? * 6#3", 1980181530000, [1981534500000, 1984558500000]),
            ("0 0 0 LW * *", 1831401746000, [1832889600000, 1835395200000]),
            ("0 0 0 13 * FRI", 1862861072000, [1870732800000, 1878595200000]),
            ("*/15 * * * * *", 1985970127000, [1985970135000, 1985970150000]),
        ):
            found = await scheduler.client.get_next_few_schedule_execution_times(cron, starts_ms, None, 2)
            assert found == moments, cron

    async def test_a_cron_expression_that_cannot_be_read_is_refused(self, scheduler: Scheduler) -> None:
        """There with a 500, here with a 400 that says why."""
        with pytest.raises(ApiException) as refused:
            await scheduler.client.get_next_few_schedule_execution_times("* * * * *")
        assert refused.value.status == (500 if scheduler.session.target.is_conductor else 400)
