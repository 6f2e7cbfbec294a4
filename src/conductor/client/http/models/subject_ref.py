"""Who gets a right."""

from __future__ import annotations

from enum import StrEnum

from conductor.client.http.models.model import Model


class SubjectType(StrEnum):
    """What kind of one gets a right."""

    USER = "USER"
    ROLE = "ROLE"
    GROUP = "GROUP"
    TAG = "TAG"


class SubjectRef(Model):
    """Who gets a right: a `SubjectType` and an id."""

    type: str | None = None
    id: str | None = None
