from conductor.client.http.models.model import Model


class AuthenticationConfig(Model, kw_only=True):
    """How callers of a server's gateway authenticate."""

    id: str | None = None
    application_id: str | None = None
    authentication_type: str | None = None
    api_keys: list[str] | None = None
    audience: str | None = None
    conductor_token: str | None = None
    created_by: str | None = None
    fallback_to_default_auth: bool | None = None
    issuer_uri: str | None = None
    passthrough: bool | None = None
    token_in_workflow_input: bool | None = None
    updated_by: str | None = None
