from conductor.client.http.models.model import Model


class TagString(Model):
    """A tag with a text as its value."""

    key: str | None = None
    type: str | None = None
    value: str | None = None
