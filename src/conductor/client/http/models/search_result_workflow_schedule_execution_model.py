"""A page of a search for starts by schedules."""

from conductor.client.http.models.search_result import SearchResult
from conductor.client.http.models.workflow_schedule_execution_model import WorkflowScheduleExecutionModel

__all__ = ["SearchResultWorkflowScheduleExecutionModel"]

SearchResultWorkflowScheduleExecutionModel = SearchResult[WorkflowScheduleExecutionModel]
