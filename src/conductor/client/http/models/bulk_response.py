"""What became of each item of a bulk call."""

from __future__ import annotations

from conductor.client.http.models.model import Model, OrDefault, sent


class BulkResponse(Model, kw_only=True):
    """Which items of a bulk call succeeded, and why the others did not."""

    bulk_error_results: OrDefault[dict[str, str]] = sent(dict)
    bulk_successful_results: OrDefault[list[str]] = sent(list)
    message: str | None = None

    def append_successful_response(self, result: str) -> None:
        """One more that succeeded."""
        self.bulk_successful_results.append(result)

    def append_failed_response(self, id: str, error_message: str) -> None:  # noqa: A002 (its name in conductor-python)
        """One more that did not, and why."""
        self.bulk_error_results[id] = error_message
