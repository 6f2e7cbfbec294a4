from conductor.client.http.models.model import Model
from conductor.client.http.models.tag_object import TagObject


class PromptTemplate(Model, kw_only=True):
    """A prompt stored on a server, with its variables."""

    created_by: str | None = None
    create_time: int | None = None
    created_on: int | None = None
    description: str | None = None
    integrations: list[str] | None = None
    name: str | None = None
    owner_app: str | None = None
    tags: list[TagObject] | None = None
    template: str | None = None
    updated_by: str | None = None
    update_time: int | None = None
    updated_on: int | None = None
    variables: list[str] | None = None
    version: int | None = None
