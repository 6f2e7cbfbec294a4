"""Something a server needs is not on this machine."""

from __future__ import annotations


class Missing(Exception):
    """Names what is missing and how to get it. At home it skips a test, in CI it fails."""
