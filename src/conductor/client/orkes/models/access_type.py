"""What may be done with a thing."""

from __future__ import annotations

from enum import StrEnum


class AccessType(StrEnum):
    """What may be done with a thing."""

    CREATE = "CREATE"
    READ = "READ"
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    EXECUTE = "EXECUTE"
