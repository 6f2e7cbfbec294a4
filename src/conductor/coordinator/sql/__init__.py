"""SQL in files beside this one: each statement follows a line `-- name: <its name>`."""

from __future__ import annotations

from importlib.resources import files


def _load() -> dict[str, str]:
    named: dict[str, str] = {}
    for entry in files(__name__).iterdir():
        if entry.name.endswith(".sql") and entry.name != "schema.sql":
            for chunk in entry.read_text("utf-8").split("-- name: ")[1:]:
                name, _, statement = chunk.partition("\n")
                if name.strip() in named:
                    raise ValueError(f"two SQL statements are named {name.strip()!r}")
                named[name.strip()] = statement.strip()
    return named


#: The schema of a new file.
SCHEMA = files(__name__).joinpath("schema.sql").read_text("utf-8")
#: Every named statement.
STATEMENTS = _load()
