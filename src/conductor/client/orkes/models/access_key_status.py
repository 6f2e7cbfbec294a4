"""Whether an access key works."""

from __future__ import annotations

from enum import StrEnum


class AccessKeyStatus(StrEnum):
    """Whether an access key works."""

    ACTIVE = "ACTIVE"
    INACTIVE = "INACTIVE"
