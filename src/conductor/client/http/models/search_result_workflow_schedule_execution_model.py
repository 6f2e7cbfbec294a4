"""One page of a search for what schedules have started, under its name in conductor-python."""

from __future__ import annotations

from conductor.client.http.models.search_result import SearchResult
from conductor.client.http.models.workflow_schedule_execution_model import WorkflowScheduleExecutionModel

__all__ = ["SearchResultWorkflowScheduleExecutionModel"]

SearchResultWorkflowScheduleExecutionModel = SearchResult[WorkflowScheduleExecutionModel]
