from typing import Generic, TypeVar

from conductor.client.http.models.model import Model, OrDefault, sent_default

T = TypeVar("T")


class SearchResult(Model, Generic[T], kw_only=True):
    """A page of a search. `total_hits` counts the results of all pages."""

    total_hits: OrDefault[int] = sent_default(int)
    results: OrDefault[list[T]] = sent_default(list)
