"""Roles of keys, the access levels of routes, and the identity that a request has.

Each route has one access level. A key may use a route if one of its roles is in the level of the route. The role
`admin` is in every level.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum


class Role(StrEnum):
    """A role of a key, which decides the routes that the key may use."""

    #: Read workflows, tasks, definitions, schedules and queues.
    VIEWER = "viewer"
    #: Poll and report tasks, of all types or of the types that the key names.
    WORKER = "worker"
    #: Start registered workflows, and read a workflow by its id.
    STARTER = "starter"
    #: Everything a viewer and a starter may do; act on workflows, complete tasks by hand, manage schedules.
    OPERATOR = "operator"
    #: Everything, including definitions, secrets and keys.
    ADMIN = "admin"
    #: Only `GET /metrics`, with a static token instead of a secret.
    METRICS = "metrics"


class Access(Enum):
    """The access level of a route: the roles that may use it."""

    #: Needs no key at all.
    PUBLIC = ()
    #: Any valid key.
    ANY_KEY = (Role.VIEWER, Role.WORKER, Role.STARTER, Role.OPERATOR, Role.METRICS, Role.ADMIN)
    #: Reads the metrics.
    SCRAPE = (Role.VIEWER, Role.OPERATOR, Role.METRICS, Role.ADMIN)
    READ = (Role.VIEWER, Role.OPERATOR, Role.ADMIN)
    #: Reads one workflow by its id. A starter knows only the ids of the workflows that it has started.
    READ_BY_ID = (Role.VIEWER, Role.STARTER, Role.OPERATOR, Role.ADMIN)
    #: Reads one task or one task type. For a worker's key, the handler checks that the key includes the task type.
    READ_TASK = (Role.VIEWER, Role.WORKER, Role.OPERATOR, Role.ADMIN)
    #: For a worker's key, the handler checks that the key includes the task type.
    POLL = (Role.WORKER, Role.ADMIN)
    #: For a worker's key, the handler checks that the key includes the task type.
    REPORT = (Role.WORKER, Role.OPERATOR, Role.ADMIN)
    #: The handler rejects definitions inside the request, unless the key is an admin's.
    START = (Role.STARTER, Role.OPERATOR, Role.ADMIN)
    OPERATE = (Role.OPERATOR, Role.ADMIN)
    ADMIN = (Role.ADMIN,)

    def describe(self) -> str:
        """Return the roles as a text, such as `operator or admin`."""
        names = [str(role) for role in self.value]
        return " or ".join(filter(None, (", ".join(names[:-1]), names[-1]))) if names else "no key"


@dataclass(frozen=True, slots=True, eq=False)
class Identity:
    """The key that a request uses, and its permissions. `OPEN` is the identity of a request without a key."""

    #: None if the coordinator has no keys.
    key: str | None
    roles: frozenset[Role]
    #: The task types of a worker's key; None for all.
    task_types: frozenset[str] | None = None
    #: The number of the secret that the client has used; `CONFIGURED` for the one from the environment variables.
    secret: int | None = None
    #: The access levels that include one of the roles.
    levels: frozenset[Access] = frozenset(Access)

    @property
    def is_admin(self) -> bool:
        """Whether the key may do everything."""
        return Role.ADMIN in self.roles

    def may_work_on(self, task_type: str) -> bool:
        """Return whether a worker's key includes a task type."""
        return self.task_types is None or task_type in self.task_types


def make_identity(
    key: str | None, roles: frozenset[Role], task_types: frozenset[str] | None = None, secret: int | None = None
) -> Identity:
    """Return the identity of a key, with the access levels of its roles."""
    levels = frozenset(level for level in Access if level is Access.PUBLIC or roles.intersection(level.value))
    return Identity(key, roles, task_types, secret, levels)


#: Every request has this identity while the coordinator has no keys.
OPEN = make_identity(None, frozenset({Role.ADMIN}))
