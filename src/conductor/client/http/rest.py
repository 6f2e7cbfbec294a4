"""The errors of talking to a server, at the path where programs look for them."""

from conductor.client.http.errors import ApiException, AuthorizationException, ConductorError, TransportError

#: An older name.
RestException = ApiException

__all__ = ["ApiException", "AuthorizationException", "ConductorError", "RestException", "TransportError"]
