"""A page of a search for task summaries."""

from conductor.client.http.models.search_result import SearchResult
from conductor.client.http.models.task_summary import TaskSummary

__all__ = ["SearchResultTaskSummary"]

SearchResultTaskSummary = SearchResult[TaskSummary]
