"""`conductor-worker version`."""

from __future__ import annotations

import platform

import typer


def version() -> None:
    """Print the version."""
    from conductor.version import __version__

    typer.echo(f"conductor-worker {__version__} (Python {platform.python_version()})")
