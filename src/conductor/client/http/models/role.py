from conductor.client.http.models.model import Model
from conductor.client.http.models.permission import Permission


class Role(Model):
    """A named set of permissions."""

    name: str | None = None
    permissions: list[Permission] | None = None
