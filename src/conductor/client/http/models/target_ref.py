"""Targets of permissions."""

from enum import StrEnum

from conductor.client.http.models.model import Model


class TargetType(StrEnum):
    """The kinds of targets that permissions are for."""

    WORKFLOW_DEF = "WORKFLOW_DEF"
    TASK_DEF = "TASK_DEF"
    APPLICATION = "APPLICATION"
    USER = "USER"
    SECRET = "SECRET"  # noqa: S105 (a kind of thing)
    SECRET_NAME = "SECRET_NAME"  # noqa: S105
    TAG = "TAG"
    DOMAIN = "DOMAIN"


class TargetRef(Model):
    """A target that permissions are for: a `TargetType` and an id."""

    type: str | None = None
    id: str | None = None
