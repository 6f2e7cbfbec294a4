"""`/scheduler`: workflows started by the clock."""

from __future__ import annotations

from conductor.client.http.api.optional_resource_api import OptionalResourceApi
from conductor.client.http.models.save_schedule_request import SaveScheduleRequest
from conductor.client.http.models.search_result import SearchResult
from conductor.client.http.models.tag_object import TagObject
from conductor.client.http.models.workflow_schedule import WorkflowSchedule
from conductor.client.http.models.workflow_schedule_execution_model import WorkflowScheduleExecutionModel


class AsyncSchedulerResourceApi(OptionalResourceApi):
    """The endpoints of `/scheduler`."""

    had_by = "Conductor 3.32 and newer"

    async def save_schedule(self, save_schedule_request: SaveScheduleRequest) -> None:
        """Create a schedule, or replace the one of that name."""
        await self._call(str, "POST", "/scheduler/schedules", body=save_schedule_request)

    async def get_schedule(self, name: str) -> WorkflowSchedule:
        """Read a schedule; `NotFoundException` when there is none."""
        return await self._call(WorkflowSchedule, "GET", "/scheduler/schedules/{name}", name)

    async def get_all_schedules(self, workflow_name: str | None = None) -> list[WorkflowSchedule]:
        """Read all schedules, or those of a workflow."""
        return await self._call(
            list[WorkflowSchedule], "GET", "/scheduler/schedules", query={"workflowName": workflow_name}
        )

    async def get_next_few_schedule_execution_times(
        self,
        cron_expression: str,
        schedule_start_time: int | None = None,
        schedule_end_time: int | None = None,
        limit: int | None = None,
    ) -> list[int]:
        """When a cron expression would be due next, in epoch milliseconds."""
        return await self._call(
            list[int],
            "GET",
            "/scheduler/nextFewSchedules",
            query={
                "cronExpression": cron_expression,
                "scheduleStartTime": schedule_start_time,
                "scheduleEndTime": schedule_end_time,
                "limit": limit,
            },
        )

    async def delete_schedule(self, name: str) -> None:
        """Delete a schedule."""
        await self._call(str, "DELETE", "/scheduler/schedules/{name}", name)

    async def pause_schedule(self, name: str, reason: str | None = None) -> None:
        """Start nothing by this schedule until `resume_schedule`."""
        await self._call(str, "PUT", "/scheduler/schedules/{name}/pause", name, query={"reason": reason})

    async def resume_schedule(self, name: str) -> None:
        """Go on after `pause_schedule`."""
        await self._call(str, "PUT", "/scheduler/schedules/{name}/resume", name)

    async def pause_all_schedules(self) -> None:
        """Start nothing by any schedule until `resume_all_schedules`."""
        await self._call(str, "GET", "/scheduler/admin/pause")

    async def resume_all_schedules(self) -> None:
        """Go on after `pause_all_schedules`."""
        await self._call(str, "GET", "/scheduler/admin/resume")

    async def requeue_all_execution_records(self) -> None:
        """Let the server look at all due starts again."""
        await self._call(str, "GET", "/scheduler/admin/requeue")

    async def search_schedule_executions(
        self,
        start: int | None = None,
        size: int | None = None,
        sort: str | None = None,
        free_text: str | None = None,
        query: str | None = None,
    ) -> SearchResult[WorkflowScheduleExecutionModel]:
        """Search the starts that schedules made."""
        return await self._call(
            SearchResult[WorkflowScheduleExecutionModel],
            "GET",
            "/scheduler/search/executions",
            query={"start": start, "size": size, "sort": sort, "freeText": free_text, "query": query},
        )

    async def set_scheduler_tags(self, tags: list[TagObject], name: str) -> None:
        """Replace a schedule's tags."""
        await self._call(str, "PUT", "/scheduler/schedules/{name}/tags", name, body=tags)

    async def get_scheduler_tags(self, name: str) -> list[TagObject]:
        """Read a schedule's tags."""
        return await self._call(list[TagObject], "GET", "/scheduler/schedules/{name}/tags", name)

    async def delete_scheduler_tags(self, tags: list[TagObject], name: str) -> list[TagObject]:
        """Take tags off a schedule; the answer is what is left."""
        return await self._call(list[TagObject], "DELETE", "/scheduler/schedules/{name}/tags", name, body=tags)
