"""The wish to give or take a right."""

from __future__ import annotations

from conductor.client.http.models.model import Model
from conductor.client.http.models.subject_ref import SubjectRef
from conductor.client.http.models.target_ref import TargetRef


class AuthorizationRequest(Model):
    """Who may do what with which thing."""

    subject: SubjectRef | None = None
    target: TargetRef | None = None
    access: list[str] | None = None
