from conductor.client.http.models.model import Model


class CreatedAccessKey(Model):
    """A new access key with its secret. A server returns the secret only once."""

    id: str
    secret: str
