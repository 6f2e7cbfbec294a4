"""What somebody may do with a thing."""

from __future__ import annotations

from conductor.client.http.models.model import Model, OrDefault, sent
from conductor.client.http.models.target_ref import TargetRef


class GrantedPermission(Model):
    """What somebody may do with a thing."""

    target: TargetRef | None = None
    access: OrDefault[list[str]] = sent(list)


class GrantedAccess(Model, kw_only=True):
    """Everything that somebody was granted, as a server answers it."""

    granted_access: OrDefault[list[GrantedPermission]] = sent(list)
