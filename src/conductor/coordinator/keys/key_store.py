"""The keys in the database, and the current ones in memory.

The database stores a digest of each secret. A secret has 32 random bytes and cannot be guessed, so a fast digest
protects it as well as a slow one, which passwords need.
Changes run in transactions. The commit puts the new keys into `Notes.keys`, and `core` passes them to `Keys.replace`,
so memory never differs from the database, not even after a failed commit.
"""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Callable
from hashlib import blake2b

import msgspec

from conductor.common.clock import Clock
from conductor.coordinator.keys.roles import Identity, Role, make_identity
from conductor.coordinator.limits import MAX_KEYS
from conductor.coordinator.request_errors import bad_request, conflict, not_found
from conductor.coordinator.store.statements import (
    ADD_KEY,
    ADD_KEY_SECRET,
    DROP_KEY,
    DROP_KEY_SECRETS,
    END_KEY_SECRETS,
    FORGET_KEY_SECRETS,
    KEY_SECRETS,
    KeySecret,
)
from conductor.coordinator.store.transaction import Tx
from conductor.protocol.json_types import JsonObject

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_SECRET_BYTES = 32
#: Static tokens begin with this text, so that searches for leaked credentials find them.
STATIC_PREFIX = "cwm_"
#: The number of the secret that comes from CONDUCTOR_AUTH_SECRET. Secrets in the database have higher numbers.
CONFIGURED = 0
DEFAULT_OVERLAP_S = 24 * 3600
MAX_OVERLAP_S = 365 * 24 * 3600


class KeyRequest(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """The body of `POST /api/keys`."""

    name: str
    roles: list[Role]
    task_types: list[str] | None = None

    def check(self) -> None:
        """Raise a 400 unless the name is valid and the roles and task types can be combined."""
        if not _NAME.fullmatch(self.name):
            raise bad_request(
                f"the name of a key has up to 100 letters, digits, '.', '_' and '-', not {self.name[:100]!r}"
            )
        if not self.roles:
            raise bad_request(f"a key needs at least one role of {', '.join(Role)}")
        if self.task_types is not None and Role.WORKER not in self.roles:
            raise bad_request("task types limit the role worker, which this key does not have")
        if self.task_types == [] or "" in (self.task_types or ()):
            raise bad_request(
                "taskTypes needs at least one name, and no empty one; leave taskTypes out to allow all task types"
            )
        if self.task_types is not None and {Role.OPERATOR, Role.ADMIN} & set(self.roles):
            raise bad_request("task types limit only workers; a key with role operator or admin may report every task")
        if Role.METRICS in self.roles and len(set(self.roles)) > 1:
            raise bad_request("a key with role metrics has a static token, so it can have no other role")


class NewSecret(msgspec.Struct, rename="camel", omit_defaults=True):
    """The answer with a new secret. No later answer contains the secret again."""

    name: str
    roles: list[Role]
    #: The secret to exchange for tokens at `POST /api/token`.
    secret: str | None = None
    #: The static token of a key with role metrics.
    token: str | None = None


class Keys:
    """The current keys. Methods with a `tx` run in transactions, all others on the event loop."""

    def __init__(self, salt: bytes, clock: Clock) -> None:
        self._salt = salt
        self._clock = clock
        self._stored: list[KeySecret] = []
        self._by_name: dict[str, list[KeySecret]] = {}
        self._static: dict[bytes, KeySecret] = {}
        self._by_secret: dict[int, Identity] = {}
        self._expiry: dict[int, int | None] = {}
        self._digests: dict[int, bytes] = {}
        #: The key from the environment variables: its name, and the digest of its secret.
        self._configured: tuple[str, bytes] | None = None
        #: When each secret was last exchanged for a token, since the start.
        self._used_ms: dict[int, int] = {}
        #: Called on the event loop after the keys have changed.
        self.on_change: Callable[[], None] = lambda: None

    # -- on the event loop

    def load(self, tx: Tx) -> None:
        """Read the keys before the coordinator serves."""
        self.replace(tx.rows(KEY_SECRETS))

    def configure(self, key: str, secret: str) -> None:
        """Add the admin key of the environment, which is not in the database."""
        self._configured = key, self._digest(secret)
        self.replace(self._stored)

    def replace(self, stored: list[KeySecret]) -> None:
        """Replace the keys in memory by those of the last commit."""
        by_name: dict[str, list[KeySecret]] = {}
        static, by_secret = {}, {}
        for one in stored:
            roles = frozenset(map(Role, msgspec.json.decode(one.roles)))
            types = None if one.task_types is None else frozenset(msgspec.json.decode(one.task_types))
            by_secret[one.secret] = make_identity(one.name, roles, types, one.secret)
            if Role.METRICS in roles:
                static[one.digest] = one
            else:
                by_name.setdefault(one.name, []).append(one)
        if self._configured is not None:
            name, _ = self._configured
            by_name.pop(name, None)  # the key of the environment takes precedence
            by_secret = {number: one for number, one in by_secret.items() if one.key != name}
            by_secret[CONFIGURED] = make_identity(name, frozenset({Role.ADMIN}), None, CONFIGURED)
        self._stored, self._by_name, self._static, self._by_secret = stored, by_name, static, by_secret
        self._expiry = {one.secret: one.expires_ms for one in stored}
        self._digests = {one.secret: one.digest for one in stored}
        self.on_change()

    @property
    def are_required(self) -> bool:
        """Whether requests need a key, which is the case as soon as a key exists."""
        return bool(self._by_secret)

    def exchange(self, name: str, secret: str) -> Identity | None:
        """Return the identity of a key and its secret; None if one of them is wrong or the secret has expired."""
        digest = self._digest(secret)
        found: Identity | None = None
        candidates = [(one.secret, one.digest) for one in self._by_name.get(name, ())]
        if self._configured is not None and hmac.compare_digest(name.encode(), self._configured[0].encode()):
            candidates = [(CONFIGURED, self._configured[1])]
        # An unknown name also costs a comparison, so that the duration does not reveal whether the name or the secret
        # is wrong.
        for number, expected in candidates or [(-1, bytes(len(digest)))]:
            if hmac.compare_digest(digest, expected) and number >= 0:
                found = self.identity(number)
        if found is not None and found.secret is not None:
            self._used_ms[found.secret] = self._clock.wall_ms()
        return found

    def find_static(self, token: str) -> Identity | None:
        """Return the identity of a static token; None if it is unknown or has expired."""
        found = self._static.get(self._digest(token))
        return None if found is None else self.identity(found.secret)

    def identity(self, secret: int) -> Identity | None:
        """Return the identity to which the secret with this number belongs; None if it was removed or has expired."""
        expires_ms = self._expiry.get(secret)
        if expires_ms is not None and expires_ms <= self._clock.wall_ms():
            return None
        return self._by_secret.get(secret)

    def expires_ms(self, secret: int) -> int | None:
        """Return when the secret with this number expires; None if it does not."""
        return self._expiry.get(secret)

    def digest(self, secret: int) -> bytes:
        """Return the digest of the stored secret with this number; empty if there is none."""
        return self._digests.get(secret, b"")

    def is_current(self, identity: Identity) -> bool:
        """Return whether a request that was admitted with this identity would still be admitted."""
        if identity.secret is None:
            return not self.are_required
        return self.identity(identity.secret) is not None

    def list_wire(self) -> list[JsonObject]:
        """Return the keys without their secrets, sorted by name."""
        listed: dict[str, JsonObject] = {}
        for one in self._stored:
            if self._configured is None or one.name != self._configured[0]:
                listed.setdefault(one.name, _describe_key(one))["secrets"].append(
                    self._describe_secret(one.secret, one.secret_created_ms, one.expires_ms)
                )
        if self._configured is not None:
            secret = self._describe_secret(CONFIGURED, None, None)
            name = self._configured[0]
            listed[name] = {"name": name, "roles": [Role.ADMIN], "isConfigured": True, "secrets": [secret]}
        return [listed[name] for name in sorted(listed)]

    def _describe_secret(self, number: int, created_ms: int | None, expires_ms: int | None) -> JsonObject:
        facts = {"createdTime": created_ms, "expiresTime": expires_ms, "lastUsedTime": self._used_ms.get(number)}
        return {name: value for name, value in facts.items() if value is not None}

    # -- in transactions

    def create(self, tx: Tx, wanted: KeyRequest) -> NewSecret:
        """Create a key and its first secret. Return the secret.

        Raises:
            ApiError: The request is invalid, the name is taken, or the first key is not an admin's.
        """
        wanted.check()
        stored = tx.rows(KEY_SECRETS)
        names = {one.name for one in stored}
        if wanted.name in names or (self._configured is not None and wanted.name == self._configured[0]):
            raise conflict(f"there is already a key {wanted.name}; rotate it, or revoke it first")
        if len(names) >= MAX_KEYS:
            raise bad_request(f"there are already {MAX_KEYS} keys, the limit; revoke one first")
        if not stored and self._configured is None and Role.ADMIN not in wanted.roles:
            raise bad_request(
                "the first key must have role admin: from then on every request needs a key, "
                "and only an admin can manage keys"
            )
        types = None if wanted.task_types is None else msgspec.json.encode(sorted(set(wanted.task_types))).decode()
        roles = [role for role in Role if role in wanted.roles]
        tx.run(ADD_KEY, wanted.name, msgspec.json.encode(roles).decode(), types, tx.now_ms)
        return self._add_secret(tx, wanted.name, roles)

    def rotate(self, tx: Tx, name: str, overlap_s: int) -> NewSecret:
        """Add a secret to a key and return it. The newest old secret stays valid for `overlap_s`; others end at once.

        Raises:
            ApiError: There is no such key (404).
        """
        if not 0 <= overlap_s <= MAX_OVERLAP_S:
            raise bad_request(f"the overlap is from 0 to {MAX_OVERLAP_S} seconds, not {overlap_s}")
        self._require_stored(tx, name)
        own = [one for one in tx.rows(KEY_SECRETS) if one.name == name]
        newest = own[-1]
        tx.run(FORGET_KEY_SECRETS, newest.key, newest.secret)
        if overlap_s:
            tx.run(END_KEY_SECRETS, tx.now_ms + overlap_s * 1000, newest.key)
        else:
            tx.run(DROP_KEY_SECRETS, newest.key)
        return self._add_secret(tx, name, [Role(role) for role in msgspec.json.decode(newest.roles)])

    def revoke(self, tx: Tx, name: str, *, is_offline: bool = False) -> None:
        """Remove a key and its secrets. Tokens, parked polls and streams of the key end with the commit.

        Args:
            tx: The transaction.
            name: The name of the key.
            is_offline: Whether no coordinator serves the file. Only then can the last admin key be removed. In a
                running coordinator no client could manage the remaining keys, and without remaining keys every client
                would be admitted.

        Raises:
            ApiError: There is no such key (404), or it is the last admin key (409).
        """
        self._require_stored(tx, name)
        stored = tx.rows(KEY_SECRETS)
        admins = {one.name for one in stored if one.expires_ms is None and Role.ADMIN in msgspec.json.decode(one.roles)}
        if admins == {name} and self._configured is None and not is_offline:
            raise conflict(f"{name} is the last admin key, and only an admin key can manage keys; create another first")
        key = next(one.key for one in stored if one.name == name)
        tx.run(DROP_KEY_SECRETS, key)
        tx.run(DROP_KEY, key)
        self._note_change(tx)

    def _require_stored(self, tx: Tx, name: str) -> None:
        if self._configured is not None and name == self._configured[0]:
            raise conflict(
                f"key {name} comes from CONDUCTOR_AUTH_KEY; change the variables and restart the coordinator"
            )
        if all(one.name != name for one in tx.rows(KEY_SECRETS)):
            raise not_found(f"there is no key {name[:100]}")

    def _add_secret(self, tx: Tx, name: str, roles: list[Role]) -> NewSecret:
        is_static = Role.METRICS in roles
        secret = (STATIC_PREFIX if is_static else "") + secrets.token_urlsafe(_SECRET_BYTES)
        tx.run(ADD_KEY_SECRET, name=name, digest=self._digest(secret), now_ms=tx.now_ms)
        self._note_change(tx)
        return NewSecret(name, roles, **{"token" if is_static else "secret": secret})

    def _note_change(self, tx: Tx) -> None:
        tx.notes.keys = tx.rows(KEY_SECRETS)

    def _digest(self, secret: str) -> bytes:
        return blake2b(secret.encode("utf-8", "surrogatepass"), digest_size=32, key=self._salt, person=b"key").digest()


def _describe_key(stored: KeySecret) -> JsonObject:
    described: JsonObject = {"name": stored.name, "roles": msgspec.json.decode(stored.roles)}
    if stored.task_types is not None:
        described["taskTypes"] = msgspec.json.decode(stored.task_types)
    return {**described, "createdTime": stored.created_ms, "secrets": []}
