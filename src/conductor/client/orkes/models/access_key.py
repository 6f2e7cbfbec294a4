"""An access key, without its secret."""

from __future__ import annotations

from conductor.client.http.models.model import Model
from conductor.client.orkes.models.access_key_status import AccessKeyStatus


class AccessKey(Model):
    """An access key, without its secret, which is told only once."""

    id: str
    status: AccessKeyStatus | None = None
    created_at: int | None = None
