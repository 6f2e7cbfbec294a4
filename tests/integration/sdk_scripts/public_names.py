"""The public names of a package as JSON: functions and methods with their parameters, the rest by its kind.

public_names.py PACKAGE           all names that the package has
public_names.py PACKAGE NAME...   those names, looked up one by one; null for what is not there
"""

from __future__ import annotations

import enum
import importlib
import inspect
import json
import pkgutil
import sys

SPECIAL = ("__init__", "__call__", "__rshift__")


def main(package: str, names: list[str]) -> dict:
    found = dict(walk(package))
    if not names:
        return found
    return {name: found.get(name) if name in found else look_up(package, name) for name in names}


def walk(package: str):
    root = importlib.import_module(package)
    modules = [package, *(m.name for m in pkgutil.walk_packages(root.__path__, package + "."))]
    for name in sorted(modules):
        module = importlib.import_module(name)
        for own in getattr(module, "__all__", ()):
            value = getattr(module, own, None)
            yield f"{name}.{own}", "class" if isinstance(value, type) else shape(value)
        for own, value in vars(module).items():
            if not own.startswith("_") and getattr(value, "__module__", None) == name:
                yield from described(f"{name}.{own}", value)


def described(path: str, value):
    if isinstance(value, type) and issubclass(value, enum.Enum):
        yield path, {member.name: member.value for member in value}
        return
    if isinstance(value, type):
        yield path, "class"
        for name in dir(value):
            if name in SPECIAL and name in vars(value) or not name.startswith("_"):
                found = getattr(value, name, None)  # a descriptor may return the method
                yield (
                    f"{path}.{name}",
                    shape(found if inspect.isfunction(found) else inspect.getattr_static(value, name)),
                )
        return
    yield path, shape(value)


def shape(value):
    if isinstance(value, (staticmethod, classmethod)):
        value = value.__func__
    if inspect.isfunction(value):
        return [[p.name, default(p)] for p in inspect.signature(value).parameters.values()]
    return "value"


def default(parameter) -> str:
    if parameter.default is parameter.empty:
        return "required" if parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL) else "rest"
    value = parameter.default
    return repr(value.value) if isinstance(value, enum.Enum) else repr(value)


def look_up(package: str, path: str):
    """A name that is at another place in our package, or on an instance, counts as there."""
    parts = path.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            value = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        rest = parts[cut:]
        for name in rest[:-1]:
            value = getattr(value, name, None)
        if not rest or value is None:
            return None
        if hasattr(value, rest[-1]):
            found = getattr(value, rest[-1])  # a descriptor may return the method
            static = inspect.getattr_static(value, rest[-1])
            return dict(described(path, found if inspect.isfunction(found) else static))[path]
        # An attribute that every instance has: set by its constructor, under that name.
        made = isinstance(value, type) and f"self.{rest[-1]} = " in inspect.getsource(value)
        return "value" if made else None
    return None


if __name__ == "__main__":
    json.dump(main(sys.argv[1], sys.argv[2:]), sys.stdout)
