from enum import StrEnum


class AccessType(StrEnum):
    """The kinds of access to a target."""

    CREATE = "CREATE"
    READ = "READ"
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    EXECUTE = "EXECUTE"
