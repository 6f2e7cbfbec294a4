"""One page of a search for tasks, in short, under its name in conductor-python."""

from __future__ import annotations

from conductor.client.http.models.search_result import SearchResult
from conductor.client.http.models.task_summary import TaskSummary

__all__ = ["SearchResultTaskSummary"]

SearchResultTaskSummary = SearchResult[TaskSummary]
