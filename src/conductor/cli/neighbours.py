"""The other distribution that is imported as `conductor`."""

from __future__ import annotations

from importlib import metadata

OTHER = "conductor-python"


def clash() -> str | None:
    """A line about conductor-python when it is installed beside us, for both write into the same directory."""
    try:
        found = metadata.version(OTHER)
    except metadata.PackageNotFoundError:
        return None
    return (
        f"{OTHER} {found} is installed too, and both are imported as 'conductor': "
        f"pip uninstall {OTHER}, then pip install --force-reinstall conductor-worker"
    )
