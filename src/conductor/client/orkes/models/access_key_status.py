from enum import StrEnum


class AccessKeyStatus(StrEnum):
    """Whether an access key is active."""

    ACTIVE = "ACTIVE"
    INACTIVE = "INACTIVE"
