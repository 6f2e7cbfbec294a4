from conductor.client.http.models.model import Model


class UpsertUserRequest(Model):
    """New settings for a user."""

    name: str | None = None
    roles: list[str] | None = None
    groups: list[str] | None = None
    contact_information: dict[str, str] | None = None
