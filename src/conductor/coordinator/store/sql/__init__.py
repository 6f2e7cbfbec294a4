"""Loads the SQL files of this package. Each statement follows a line `-- name: <its name>` and a description."""

from __future__ import annotations

from importlib.resources import files


def _load() -> dict[str, str]:
    named: dict[str, str] = {}
    for file in (
        "tasks.sql", "steps.sql", "workflows.sql", "definitions.sql", "schedules.sql", "settings.sql", "events.sql",
        "messages.sql", "views.sql", "keys.sql", "audit.sql",
    ):  # fmt: skip
        for name, statement in _chunks(file, "-- name: "):
            if name in named:
                raise ValueError(f"two SQL statements are named {name!r}")
            named[name] = statement
    return named


def _chunks(file: str, mark: str) -> list[tuple[str, str]]:
    chunks = files(__name__).joinpath(file).read_text("utf-8").split(mark)[1:]
    parted = [chunk.partition("\n") for chunk in chunks]
    return [(name.strip(), statement.strip()) for name, _, statement in parted]


#: The version of `schema.sql`.
SCHEMA_VERSION = 7
#: The schema of a new file.
SCHEMA = files(__name__).joinpath("schema.sql").read_text("utf-8")
#: The scripts that migrate a file from version n to n + 1.
MIGRATIONS: dict[int, str] = {int(version): script for version, script in _chunks("migrations.sql", "-- from: ")}
#: Every named statement.
STATEMENTS = _load()
