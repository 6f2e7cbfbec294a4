"""Keys for the API: list, create, rotate, revoke, and the key of the request itself."""

from __future__ import annotations

import msgspec

from conductor.coordinator.audit import Action
from conductor.coordinator.http.answer import DONE, Answer, as_json
from conductor.coordinator.http.request import ApiRequest
from conductor.coordinator.http.routing import Route
from conductor.coordinator.keys.key_store import DEFAULT_OVERLAP_S, KeyRequest, NewSecret
from conductor.coordinator.keys.roles import Access
from conductor.coordinator.store.transaction import Tx

#: A header of answers that contain a secret: no cache may store them.
_NOT_STORED = ("Cache-Control", "no-store")


class Rotation(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """The body of a rotation: how long the old secret stays valid."""

    overlap_seconds: int = DEFAULT_OVERLAP_S


async def list_keys(request: ApiRequest) -> Answer:
    """GET /keys: return all keys without their secrets."""
    return as_json(request.core.keys.list_wire())


async def create_key(request: ApiRequest) -> Answer:
    """POST /keys: create a key with roles; return its secret, which is shown only once."""
    wanted = request.json(KeyRequest)
    keys = request.core.keys

    def create(tx: Tx) -> NewSecret:
        created = keys.create(tx, wanted)
        request.audit(tx, Action.CREATE_KEY, wanted.name, reason=", ".join(created.roles))
        return created

    created = await request.write(create)
    return as_json(created, _NOT_STORED)


async def rotate_key(request: ApiRequest) -> Answer:
    """POST /keys/{name}/rotate: return a second secret; the old one ends after `overlapSeconds`, by default one day."""
    rotation = request.json(Rotation) if request.body else Rotation()
    name, keys = request.params["name"], request.core.keys

    def rotate(tx: Tx) -> NewSecret:
        created = keys.rotate(tx, name, rotation.overlap_seconds)
        request.audit(tx, Action.ROTATE_KEY, name)
        return created

    created = await request.write(rotate)
    return as_json(created, _NOT_STORED)


async def revoke_key(request: ApiRequest) -> Answer:
    """DELETE /keys/{name}: revoke a key; its tokens, parked polls and streams end at once."""
    name, keys = request.params["name"], request.core.keys

    def change(tx: Tx) -> None:
        keys.revoke(tx, name)
        request.audit(tx, Action.REVOKE_KEY, name)

    await request.write(change)
    return DONE


async def get_own_key(request: ApiRequest) -> Answer:
    """GET /view/key: return the name, the roles and the task types of the key that the request uses."""
    identity = request.identity
    types = None if identity.task_types is None else sorted(identity.task_types)
    return as_json({"name": identity.key, "roles": sorted(identity.roles), "taskTypes": types})


ROUTES = [
    Route("GET", "/api/keys", list_keys, Access.ADMIN),
    Route("POST", "/api/keys", create_key, Access.ADMIN, body=KeyRequest),
    Route("POST", "/api/keys/{name}/rotate", rotate_key, Access.ADMIN, body=Rotation),
    Route("DELETE", "/api/keys/{name}", revoke_key, Access.ADMIN),
    Route("GET", "/api/view/key", get_own_key, Access.ANY_KEY),
]
