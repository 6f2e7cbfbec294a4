from conductor.client.http.models.group import Group
from conductor.client.http.models.model import Model
from conductor.client.http.models.role import Role


class ConductorUser(Model):
    """A user of a server."""

    id: str | None = None
    name: str | None = None
    roles: list[Role] | None = None
    groups: list[Group] | None = None
    uuid: str | None = None
    application_user: bool | None = None
    encrypted_id: bool | None = None
    encrypted_id_display_value: str | None = None
    contact_information: dict[str, str] | None = None
    namespace: str | None = None
