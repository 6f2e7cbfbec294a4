from conductor.client.http.models.model import Model


class CreateOrUpdateApplicationRequest(Model):
    """The new name of an application."""

    name: str | None = None
