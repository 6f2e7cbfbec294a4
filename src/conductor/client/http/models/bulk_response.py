from conductor.client.http.models.model import Model, OrDefault, sent_default


class BulkResponse(Model, kw_only=True):
    """The result of each item of a bulk call."""

    bulk_error_results: OrDefault[dict[str, str]] = sent_default(dict)
    bulk_successful_results: OrDefault[list[str]] = sent_default(list)
    message: str | None = None

    def append_successful_response(self, result: str) -> None:
        """Add an item that succeeded."""
        self.bulk_successful_results.append(result)

    def append_failed_response(self, id: str, error_message: str) -> None:  # noqa: A002 (its name in conductor-python)
        """Add an item that failed."""
        self.bulk_error_results[id] = error_message
