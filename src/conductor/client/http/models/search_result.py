"""One page of what a search found."""

from __future__ import annotations

from typing import Generic, TypeVar

from conductor.client.http.models.model import Model, OrDefault, sent

T = TypeVar("T")


class SearchResult(Model, Generic[T], kw_only=True):
    """One page of a search. `total_hits` counts all pages."""

    total_hits: OrDefault[int] = sent(int)
    results: OrDefault[list[T]] = sent(list)
