"""What a right is for."""

from __future__ import annotations

from enum import StrEnum

from conductor.client.http.models.model import Model


class TargetType(StrEnum):
    """What kind of thing a right is for."""

    WORKFLOW_DEF = "WORKFLOW_DEF"
    TASK_DEF = "TASK_DEF"
    APPLICATION = "APPLICATION"
    USER = "USER"
    SECRET = "SECRET"  # noqa: S105 (a kind of thing)
    SECRET_NAME = "SECRET_NAME"  # noqa: S105
    TAG = "TAG"
    DOMAIN = "DOMAIN"


class TargetRef(Model):
    """What a right is for: a `TargetType` and an id."""

    type: str | None = None
    id: str | None = None
