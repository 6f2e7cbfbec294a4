"""The fields of models, and the names in enums, of whichever package is installed, as JSON.

model_fields.py           of all models that the package has
model_fields.py NAME...   of those, looked up one by one, where they are there
"""

from __future__ import annotations

import enum
import importlib
import inspect
import json
import pkgutil
import sys

PACKAGES = ["conductor.client.http.models", "conductor.client.orkes.models"]


def main(names: list[str]) -> dict:
    found = {name: look_up(name) for name in names or all_models()}
    return {name: fields(value) for name, value in found.items() if value is not None}


def all_models():
    for package in PACKAGES:
        for info in pkgutil.iter_modules(importlib.import_module(package).__path__, package + "."):
            for name, value in vars(importlib.import_module(info.name)).items():
                if isinstance(value, type) and value.__module__ == info.name and not name.startswith("_"):
                    yield f"{info.name}.{name}"


def look_up(path: str):
    module, _, name = path.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name, None)
    except ModuleNotFoundError:
        return None


def fields(value) -> list[str]:
    if isinstance(value, type) and issubclass(value, enum.Enum):
        return [member.name for member in value]
    parameters = inspect.signature(getattr(value, "__origin__", value)).parameters.values()
    plumbing = ("swagger_types", "attribute_map")
    return [p.name for p in parameters if p.kind is not p.VAR_KEYWORD and p.name not in plumbing]


if __name__ == "__main__":
    json.dump(main(sys.argv[1:]), sys.stdout)
