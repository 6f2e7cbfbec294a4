from conductor.client.http.models.model import Model


class Permission(Model):
    """A permission of a role."""

    name: str | None = None
