"""Subjects of permissions."""

from enum import StrEnum

from conductor.client.http.models.model import Model


class SubjectType(StrEnum):
    """The kinds of subjects that can have permissions."""

    USER = "USER"
    ROLE = "ROLE"
    GROUP = "GROUP"
    TAG = "TAG"


class SubjectRef(Model):
    """A subject that has permissions: a `SubjectType` and an id."""

    type: str | None = None
    id: str | None = None
