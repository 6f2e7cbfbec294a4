"""A page of a search for tasks."""

from conductor.client.http.models.search_result import SearchResult
from conductor.client.http.models.task import Task

__all__ = ["SearchResultTask"]

SearchResultTask = SearchResult[Task]
