"""Permissions of a subject."""

from __future__ import annotations

from conductor.client.http.models.model import Model, OrDefault, sent_default
from conductor.client.http.models.target_ref import TargetRef


class GrantedPermission(Model):
    """The access to one target."""

    target: TargetRef | None = None
    access: OrDefault[list[str]] = sent_default(list)


class GrantedAccess(Model, kw_only=True):
    """All permissions of a subject."""

    granted_access: OrDefault[list[GrantedPermission]] = sent_default(list)
