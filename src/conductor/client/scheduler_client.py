"""Workflows started by the clock, on servers that have a scheduler."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from conductor.client.ai.schedule import Schedule, ScheduleInfo, server_name
from conductor.client.configuration.configuration import Configuration
from conductor.client.http.api.async_resource_api import api_client_of
from conductor.client.http.api.async_scheduler_resource_api import AsyncSchedulerResourceApi
from conductor.client.http.api.async_workflow_resource_api import AsyncWorkflowResourceApi
from conductor.client.http.async_api_client import AsyncApiClient
from conductor.client.http.models.start_workflow_request import StartWorkflowRequest
from conductor.client.http.sync_face import SyncClient, blocking


class AsyncSchedulerClient(AsyncSchedulerResourceApi):
    """Workflows started by the clock, on servers that have a scheduler."""

    def __init__(
        self, configuration: Configuration | AsyncApiClient | None = None, *, http_client: Any | None = None
    ) -> None:
        super().__init__(api_client_of(configuration, http_client))

    async def delete(self, wire_name: str) -> None:
        """Delete a schedule, as `delete_schedule`."""
        await self.delete_schedule(wire_name)

    async def pause(self, wire_name: str, reason: str | None = None) -> None:
        """Start nothing by this schedule until `resume`, as `pause_schedule`."""
        await self.pause_schedule(wire_name, reason)

    async def resume(self, wire_name: str) -> None:
        """Go on after `pause`, as `resume_schedule`."""
        await self.resume_schedule(wire_name)

    async def preview_next(
        self, cron: str, n: int = 5, start_at: int | None = None, end_at: int | None = None
    ) -> list[int]:
        """The next `n` times at which a cron expression would be due, in epoch milliseconds."""
        return await self.get_next_few_schedule_execution_times(cron, start_at, end_at, n)

    async def run_now(self, info: ScheduleInfo) -> str:
        """Start the workflow of a schedule once, with the schedule's input.

        Args:
            info: The schedule, such as `ScheduleInfo.of(client.get_schedule("orders-nightly"))`.

        Returns:
            The id of the execution.
        """
        start = StartWorkflowRequest(name=info.agent, input=dict(info.input))
        return await AsyncWorkflowResourceApi(self.api_client).start_workflow(start)

    async def reconcile(self, agent_name: str, desired: Sequence[Schedule] | None) -> None:
        """Make the schedules of a workflow those that are listed.

        Args:
            agent_name: The workflow.
            desired: Its schedules from now on. An empty list deletes all of them; None changes nothing.

        Raises:
            ValueError: Two of them have the same name. Nothing has changed then.
        """
        if desired is None:
            return
        names = [server_name(agent_name, schedule.name) for schedule in desired]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"these schedules of {agent_name} are listed twice: {', '.join(twice)}")
        for schedule in desired:
            await self.save_schedule(schedule.to_save_request(agent_name))
        for known in await self.get_all_schedules(agent_name):
            if known.name is not None and known.name not in names:
                await self.delete_schedule(known.name)


class SchedulerClient(SyncClient[AsyncSchedulerClient]):
    """Workflows started by the clock, on servers that have a scheduler. For code without an event loop."""

    def __init__(self, configuration: Configuration | AsyncApiClient | None = None) -> None:
        super().__init__(AsyncSchedulerClient(configuration))

    save_schedule = blocking(AsyncSchedulerClient.save_schedule)
    get_schedule = blocking(AsyncSchedulerClient.get_schedule)
    get_all_schedules = blocking(AsyncSchedulerClient.get_all_schedules)
    get_next_few_schedule_execution_times = blocking(AsyncSchedulerClient.get_next_few_schedule_execution_times)
    delete_schedule = blocking(AsyncSchedulerClient.delete_schedule)
    pause_schedule = blocking(AsyncSchedulerClient.pause_schedule)
    resume_schedule = blocking(AsyncSchedulerClient.resume_schedule)
    pause_all_schedules = blocking(AsyncSchedulerClient.pause_all_schedules)
    resume_all_schedules = blocking(AsyncSchedulerClient.resume_all_schedules)
    requeue_all_execution_records = blocking(AsyncSchedulerClient.requeue_all_execution_records)
    search_schedule_executions = blocking(AsyncSchedulerClient.search_schedule_executions)
    set_scheduler_tags = blocking(AsyncSchedulerClient.set_scheduler_tags)
    get_scheduler_tags = blocking(AsyncSchedulerClient.get_scheduler_tags)
    delete_scheduler_tags = blocking(AsyncSchedulerClient.delete_scheduler_tags)
    delete = blocking(AsyncSchedulerClient.delete)
    pause = blocking(AsyncSchedulerClient.pause)
    resume = blocking(AsyncSchedulerClient.resume)
    preview_next = blocking(AsyncSchedulerClient.preview_next)
    run_now = blocking(AsyncSchedulerClient.run_now)
    reconcile = blocking(AsyncSchedulerClient.reconcile)
