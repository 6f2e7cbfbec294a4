from conductor.client.http.models.model import Model


class ConductorApplication(Model):
    """A program that uses a server with access keys."""

    id: str | None = None
    name: str | None = None
    created_by: str | None = None
    create_time: int | None = None
    update_time: int | None = None
    updated_by: str | None = None
