"""A page of a search for workflows."""

from conductor.client.http.models.search_result import SearchResult
from conductor.client.http.models.workflow import Workflow

__all__ = ["SearchResultWorkflow"]

SearchResultWorkflow = SearchResult[Workflow]
