from conductor.client.http.models.model import Model
from conductor.client.orkes.models.access_key_status import AccessKeyStatus


class AccessKey(Model):
    """An access key without its secret."""

    id: str
    status: AccessKeyStatus | None = None
    created_at: int | None = None
