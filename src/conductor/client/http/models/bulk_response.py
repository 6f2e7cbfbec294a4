"""What became of each item of a bulk call."""

from __future__ import annotations

from conductor.client.http.models.model import Model, OrDefault, sent


class BulkResponse(Model, kw_only=True):
    """Which items of a bulk call succeeded, and why the others did not."""

    bulk_error_results: OrDefault[dict[str, str]] = sent(dict)
    bulk_successful_results: OrDefault[list[str]] = sent(list)
