"""The errors of calls to a server, at the import path that they have in conductor-python."""

from conductor.client.http.errors import ApiException, AuthorizationException, ConductorError, TransportError

#: An older name of `ApiException`.
RestException = ApiException

__all__ = ["ApiException", "AuthorizationException", "ConductorError", "RestException", "TransportError"]
