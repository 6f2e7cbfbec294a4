from conductor.client.http.models.model import Model


class ExternalStorageLocation(Model):
    """Where a large payload is stored outside the server."""

    uri: str | None = None
    path: str | None = None
