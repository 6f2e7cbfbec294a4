"""Secrets, and the environment."""

from __future__ import annotations

import msgspec

from conductor.coordinator.http.answer import DONE, Answer, as_json, as_text
from conductor.coordinator.http.request import Request
from conductor.coordinator.http.routing import Route
from conductor.coordinator.request_errors import ApiError, bad_request
from conductor.coordinator.settings.environment import environment


async def secret_names(request: Request) -> Answer:
    """GET /secrets: the names of all secrets; their values are never told."""
    return as_json(request.core.secrets.names())


async def put_secret(request: Request) -> Answer:
    """PUT /secrets/{key}: keep a secret; the body is its value, as text or as a JSON string."""
    value = _text(request)
    await request.core.write(lambda tx: request.core.secrets.put(tx, request.params["key"], value))
    return DONE


def _text(request: Request) -> str:
    said_json = "json" in request.header(b"content-type")
    try:
        if said_json and request.body.startswith(b'"'):
            return msgspec.json.decode(request.body, type=str)
        return request.body.decode()
    except (UnicodeDecodeError, msgspec.DecodeError):
        raise bad_request("the body is the secret's value, as text in UTF-8 or as a JSON string") from None


async def read_secret(request: Request) -> Answer:
    """GET /secrets/{key}: always a 403; a secret is handed to workers and shown to nobody."""
    raise ApiError(403, f"the value of secret {request.params['key']} is handed to workers and shown to nobody")


async def has_secret(request: Request) -> Answer:
    """GET /secrets/{key}/exists: whether there is such a secret."""
    return as_json(request.params["key"] in request.core.secrets.names())


async def remove_secret(request: Request) -> Answer:
    """DELETE /secrets/{key}: forget a secret that came through the API."""
    await request.core.write(lambda tx: request.core.secrets.remove(tx, request.params["key"]))
    return DONE


async def variables(_request: Request) -> Answer:
    """GET /environment: names and values of what `${workflow.env.X}` stands for."""
    return as_json([{"name": name, "value": value} for name, value in environment().items()])


async def variable(request: Request) -> Answer:
    """GET /environment/{key}: one value as text; empty if there is none."""
    found = environment().get(request.params["key"])
    return DONE if found is None else as_text(found)


ROUTES = [
    Route("GET", "/api/secrets", secret_names),
    Route("POST", "/api/secrets", secret_names),
    Route("GET", "/api/secrets/{key}", read_secret),
    Route("PUT", "/api/secrets/{key}", put_secret, text_body=True),
    Route("DELETE", "/api/secrets/{key}", remove_secret),
    Route("GET", "/api/secrets/{key}/exists", has_secret),
    Route("GET", "/api/environment", variables),
    Route("GET", "/api/environment/{key}", variable),
]
