from conductor.client.http.models.model import Model


class Token(Model):
    """An access token."""

    token: str | None = None
