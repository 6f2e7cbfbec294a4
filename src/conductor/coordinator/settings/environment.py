"""`${workflow.env.X}`: values that everybody may read, from variables of the coordinator's process."""

from __future__ import annotations

import functools
import os

#: CONDUCTOR_ENV_REGION is `${workflow.env.REGION}`.
PREFIX = "CONDUCTOR_ENV_"


@functools.cache
def environment() -> dict[str, str]:
    """Name → value, in the order of names; read once, for a process keeps the variables it was started with."""
    return {name.removeprefix(PREFIX): os.environ[name] for name in sorted(os.environ) if name.startswith(PREFIX)}
