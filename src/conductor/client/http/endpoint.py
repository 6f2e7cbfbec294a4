"""Paths of REST endpoints."""

from __future__ import annotations

from urllib.parse import quote


def quote_segment(value: object) -> str:
    """Return a value quoted as one segment of a path."""
    return quote(str(value), safe="")
