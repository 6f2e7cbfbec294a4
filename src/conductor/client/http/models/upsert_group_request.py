from conductor.client.http.models.model import Model


class UpsertGroupRequest(Model):
    """New settings for a group."""

    description: str | None = None
    roles: list[str] | None = None
    default_access: dict[str, list[str]] | None = None
