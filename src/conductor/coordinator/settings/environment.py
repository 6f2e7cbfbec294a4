"""`${workflow.env.X}`: values that every client may read, from variables of the coordinator's process."""

from __future__ import annotations

import functools
import os

#: The variable CONDUCTOR_ENV_REGION sets `${workflow.env.REGION}`.
PREFIX = "CONDUCTOR_ENV_"


@functools.cache
def environment() -> dict[str, str]:
    """Return name → value, sorted by name. The variables are read once, at the first call."""
    return {name.removeprefix(PREFIX): os.environ[name] for name in sorted(os.environ) if name.startswith(PREFIX)}
