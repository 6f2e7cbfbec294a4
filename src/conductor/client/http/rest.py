"""The errors of calls to a server, under their path in conductor-python."""

from conductor.client.http.errors import ApiException, AuthorizationException, ConductorError, TransportError

#: An older name of `ApiException`.
RestException = ApiException

__all__ = ["ApiException", "AuthorizationException", "ConductorError", "RestException", "TransportError"]
