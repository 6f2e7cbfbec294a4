from conductor.client.http.models.model import Model
from conductor.client.http.models.role import Role


class Group(Model):
    """A group of users with the same roles."""

    id: str | None = None
    description: str | None = None
    roles: list[Role] | None = None
    default_access: dict[str, list[str]] | None = None
    contact_information: dict[str, str] | None = None
