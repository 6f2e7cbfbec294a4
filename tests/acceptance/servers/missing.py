"""The error for a tool that a server needs and this machine does not have."""

from __future__ import annotations


class Missing(Exception):
    """Names what is missing and how to get it. At home it skips a test, in CI it fails."""
