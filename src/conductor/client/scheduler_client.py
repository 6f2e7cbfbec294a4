"""Workflows that start on a schedule, on servers that have a scheduler."""

# mypy: disable-error-code="empty-body"
from __future__ import annotations

from collections.abc import Sequence

from conductor.client.ai.schedule import Schedule, ScheduleInfo, server_name
from conductor.client.http.models.save_schedule_request import SaveScheduleRequest
from conductor.client.http.models.search_result import SearchResult
from conductor.client.http.models.start_workflow_request import StartWorkflowRequest
from conductor.client.http.models.tag_object import TagObject
from conductor.client.http.models.workflow_schedule import WorkflowSchedule
from conductor.client.http.models.workflow_schedule_execution_model import WorkflowScheduleExecutionModel
from conductor.client.http.operation import AsyncClient, Operations, SyncClient, endpoint, operation
from conductor.client.workflow_client import AsyncWorkflowClient

__all__ = ["AsyncSchedulerClient", "SchedulerClient"]

_SCHEDULES = "/scheduler/schedules"
_SCHEDULE = _SCHEDULES + "/{name}"


class SchedulerOperations(Operations):
    """The operations of `AsyncSchedulerClient` and `SchedulerClient`."""

    only_on = "Conductor 3.32 and newer"

    @endpoint("POST", _SCHEDULES, body="save_schedule_request")
    async def save_schedule(self, save_schedule_request: SaveScheduleRequest) -> None:
        """Create a schedule, or replace the one with the same name."""

    @endpoint("GET", _SCHEDULE)
    async def get_schedule(self, name: str) -> WorkflowSchedule:
        """Return a schedule. Raises `NotFoundException` if there is none."""

    @endpoint("GET", _SCHEDULES)
    async def get_all_schedules(self, workflow_name: str | None = None) -> list[WorkflowSchedule]:
        """Return all schedules, or those of one workflow."""

    @endpoint("GET", "/scheduler/nextFewSchedules")
    async def get_next_few_schedule_execution_times(
        self,
        cron_expression: str,
        schedule_start_time: int | None = None,
        schedule_end_time: int | None = None,
        limit: int | None = None,
    ) -> list[int]:
        """Return the next times of a cron expression, in epoch milliseconds."""

    @endpoint("DELETE", _SCHEDULE)
    async def delete_schedule(self, name: str) -> None:
        """Delete a schedule."""

    @endpoint("PUT", _SCHEDULE + "/pause")
    async def pause_schedule(self, name: str, reason: str | None = None) -> None:
        """Start no workflows of a schedule until `resume_schedule`."""

    @endpoint("PUT", _SCHEDULE + "/resume")
    async def resume_schedule(self, name: str) -> None:
        """Continue a paused schedule."""

    @endpoint("GET", "/scheduler/admin/pause")
    async def pause_all_schedules(self) -> None:
        """Start no workflows of any schedule until `resume_all_schedules`."""

    @endpoint("GET", "/scheduler/admin/resume")
    async def resume_all_schedules(self) -> None:
        """Continue all schedules after `pause_all_schedules`."""

    @endpoint("GET", "/scheduler/admin/requeue")
    async def requeue_all_execution_records(self) -> None:
        """Let the server check all due schedules again."""

    @endpoint("GET", "/scheduler/search/executions")
    async def search_schedule_executions(
        self,
        start: int | None = None,
        size: int | None = None,
        sort: str | None = None,
        free_text: str | None = None,
        query: str | None = None,
    ) -> SearchResult[WorkflowScheduleExecutionModel]:
        """Search the workflows that schedules have started, and return one page of results."""

    @endpoint("PUT", _SCHEDULE + "/tags", body="tags")
    async def set_scheduler_tags(self, tags: list[TagObject], name: str) -> None:
        """Replace the tags of a schedule."""

    @endpoint("GET", _SCHEDULE + "/tags")
    async def get_scheduler_tags(self, name: str) -> list[TagObject]:
        """Return the tags of a schedule."""

    @endpoint("DELETE", _SCHEDULE + "/tags", body="tags")
    async def delete_scheduler_tags(self, tags: list[TagObject], name: str) -> list[TagObject]:
        """Remove tags from a schedule. Return the remaining tags."""

    @operation
    async def delete(self, wire_name: str) -> None:
        """Delete a schedule. Same as `delete_schedule`."""
        await self.delete_schedule(wire_name)

    @operation
    async def pause(self, wire_name: str, reason: str | None = None) -> None:
        """Pause a schedule until `resume`. Same as `pause_schedule`."""
        await self.pause_schedule(wire_name, reason)

    @operation
    async def resume(self, wire_name: str) -> None:
        """Resume a paused schedule. Same as `resume_schedule`."""
        await self.resume_schedule(wire_name)

    @operation
    async def preview_next(
        self, cron: str, n: int = 5, start_at: int | None = None, end_at: int | None = None
    ) -> list[int]:
        """Return the next `n` times of a cron expression, in epoch milliseconds."""
        return await self.get_next_few_schedule_execution_times(cron, start_at, end_at, n)

    @operation
    async def run_now(self, info: ScheduleInfo) -> str:
        """Start the workflow of a schedule once, with the schedule's input.

        Args:
            info: The schedule, such as `ScheduleInfo.of(client.get_schedule("orders-nightly"))`.

        Returns:
            The id of the workflow.
        """
        start = StartWorkflowRequest(name=info.agent, input=dict(info.input))
        return await AsyncWorkflowClient(self.api_client).start_workflow(start)

    @operation
    async def reconcile(self, agent_name: str, desired: Sequence[Schedule] | None) -> None:
        """Make the listed schedules the only ones of a workflow.

        Args:
            agent_name: The name of the workflow.
            desired: Its schedules from now on. An empty list deletes all of them; None changes nothing.

        Raises:
            ValueError: Two schedules have the same name. Nothing is changed.
        """
        if desired is None:
            return
        names = [server_name(agent_name, schedule.name) for schedule in desired]
        if duplicates := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"these schedules of {agent_name} are listed twice: {', '.join(duplicates)}")
        for schedule in desired:
            await self.save_schedule(schedule.to_save_request(agent_name))
        for stored in await self.get_all_schedules(agent_name):
            if stored.name is not None and stored.name not in names:
                await self.delete_schedule(stored.name)


class AsyncSchedulerClient(SchedulerOperations, AsyncClient):
    """Workflows that start on a schedule, for async code."""


class SchedulerClient(SchedulerOperations, SyncClient[AsyncSchedulerClient]):
    """Workflows that start on a schedule.

    Example:
        with SchedulerClient(Configuration()) as schedules:
            schedules.reconcile("orders", [Schedule("nightly", "0 0 2 * * *")])
    """

    async_class = AsyncSchedulerClient
