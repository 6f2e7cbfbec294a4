"""Secrets and the environment of workflows."""

from __future__ import annotations

import msgspec

from conductor.coordinator.audit import Action
from conductor.coordinator.http.answer import DONE, Answer, as_json, as_text
from conductor.coordinator.http.request import ApiRequest
from conductor.coordinator.http.routing import Route
from conductor.coordinator.keys.roles import Access
from conductor.coordinator.request_errors import ApiError, bad_request
from conductor.coordinator.settings.environment import environment
from conductor.coordinator.store.transaction import Tx


async def list_secret_names(request: ApiRequest) -> Answer:
    """GET /secrets: return the names of all secrets; their values are never sent."""
    return as_json(request.core.secrets.names())


async def view_secrets(request: ApiRequest) -> Answer:
    """GET /view/secrets: return the names of all secrets and where each comes from; values are never sent."""
    return as_json(request.core.secrets.view())


async def put_secret(request: ApiRequest) -> Answer:
    """PUT /secrets/{key}: store a secret; the body is its value, as text or as a JSON string."""
    value = _read_secret_value(request)

    def change(tx: Tx) -> None:
        request.core.secrets.put(tx, request.params["key"], value)
        request.audit(tx, Action.SET_SECRET, request.params["key"])

    await request.write(change)
    return DONE


def _read_secret_value(request: ApiRequest) -> str:
    is_json = "json" in request.header(b"content-type")
    try:
        if is_json and request.body.startswith(b'"'):
            return msgspec.json.decode(request.body, type=str)
        return request.body.decode()
    except (UnicodeDecodeError, msgspec.DecodeError):
        raise bad_request("the body must be the value of the secret, as UTF-8 text or as a JSON string") from None


async def reject_reading_secret(request: ApiRequest) -> Answer:
    """GET /secrets/{key}: return a 403; only workers get the value of a secret."""
    raise ApiError(
        403, f"the value of secret {request.params['key']} is sent only to workers that execute a task with it"
    )


async def has_secret(request: ApiRequest) -> Answer:
    """GET /secrets/{key}/exists: return whether a secret exists."""
    return as_json(request.params["key"] in request.core.secrets.names())


async def remove_secret(request: ApiRequest) -> Answer:
    """DELETE /secrets/{key}: delete a secret that was stored by the API."""

    def change(tx: Tx) -> None:
        request.core.secrets.remove(tx, request.params["key"])
        request.audit(tx, Action.DELETE_SECRET, request.params["key"])

    await request.write(change)
    return DONE


async def list_variables(_request: ApiRequest) -> Answer:
    """GET /environment: return the variables that definitions read as `${workflow.env.NAME}`, with their values."""
    return as_json([{"name": name, "value": value} for name, value in environment().items()])


async def get_variable(request: ApiRequest) -> Answer:
    """GET /environment/{key}: return the value of a variable as text; an empty answer if the variable is not set."""
    found = environment().get(request.params["key"])
    return DONE if found is None else as_text(found)


ROUTES = [
    Route("GET", "/api/secrets", list_secret_names, Access.READ),
    Route("POST", "/api/secrets", list_secret_names, Access.READ),
    Route("GET", "/api/secrets/{key}", reject_reading_secret, Access.ADMIN),
    Route("PUT", "/api/secrets/{key}", put_secret, Access.ADMIN, text_body=True),
    Route("DELETE", "/api/secrets/{key}", remove_secret, Access.ADMIN),
    Route("GET", "/api/secrets/{key}/exists", has_secret, Access.READ),
    Route("GET", "/api/environment", list_variables, Access.READ),
    Route("GET", "/api/environment/{key}", get_variable, Access.READ),
    Route("GET", "/api/view/secrets", view_secrets, Access.READ),
]
