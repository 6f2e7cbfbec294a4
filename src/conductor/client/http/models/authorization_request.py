from conductor.client.http.models.model import Model
from conductor.client.http.models.subject_ref import SubjectRef
from conductor.client.http.models.target_ref import TargetRef


class AuthorizationRequest(Model):
    """A request to grant or revoke access to a target."""

    subject: SubjectRef | None = None
    target: TargetRef | None = None
    access: list[str] | None = None
