from conductor.client.http.models.model import Model


class GenerateTokenRequest(Model):
    """An access key, to be exchanged for a token."""

    key_id: str | None = None
    key_secret: str | None = None
