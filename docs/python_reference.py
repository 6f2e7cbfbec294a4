"""Builds the Python section of the site: every public name with its signature and docstring."""

from __future__ import annotations

import enum
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import msgspec

from conductor.client.http.operation import Operation

#: Page to its title and its modules, in order. A package includes all its modules.
PAGES = {
    "conductor": ("conductor: the short names", ["conductor"]),
    "workers": (
        "Workers",
        [
            "conductor.client.worker",
            "conductor.client.worker.worker_task",
            "conductor.client.worker.worker",
            "conductor.client.worker.worker_interface",
            "conductor.client.worker.exception",
            "conductor.client.context",
            "conductor.client.exceptions",
        ],
    ),
    "durable": ("Durable steps", ["conductor.durable", "conductor.durable.sync", "conductor.durable.errors"]),
    "running": (
        "Running workers",
        [
            "conductor.client.automator.task_handler",
            "conductor.client.automator.task_handler_asyncio",
            "conductor.client.automator.task_runner",
            "conductor.client.automator.async_task_runner",
            "conductor.client.automator.task_runner_asyncio",
            "conductor.client.automator.run_for_duration",
        ],
    ),
    "configuration": ("Configuration", ["conductor.client.configuration"]),
    "clients": (
        "Clients",
        [
            "conductor.client.orkes_clients",
            "conductor.client.workflow_client",
            "conductor.client.task_client",
            "conductor.client.metadata_client",
            "conductor.client.scheduler_client",
            "conductor.client.ai",
            "conductor.client.schema_client",
            "conductor.client.secret_client",
            "conductor.client.authorization_client",
            "conductor.client.integration_client",
            "conductor.client.prompt_client",
            "conductor.client.event.event_client",
            "conductor.client.orkes",
            "conductor.client.http.api",
        ],
    ),
    "models": ("Models", ["conductor.client.http.models"]),
    "workflows": (
        "Workflows in Python",
        [
            "conductor.client.workflow",
            "conductor.client.workflow.conductor_workflow",
            "conductor.client.workflow.task",
            "conductor.client.workflow.executor",
            "conductor.local",
        ],
    ),
    "events": ("Events", ["conductor.client.event"]),
    "telemetry": (
        "Metrics and logs",
        ["conductor.client.telemetry.metrics_collector", "conductor.client.telemetry.task_logs"],
    ),
    "coordinator": ("The coordinator", ["conductor.coordinator", "conductor.protocol.why_waiting"]),
    "testing": ("The test kit", ["conductor.testing"]),
}
#: Packages whose modules are private; only `__all__` is public.
PACKAGES_WITH_PRIVATE_MODULES = (
    "conductor",
    "conductor.client.worker",
    "conductor.client.workflow",
    "conductor.coordinator",
    "conductor.testing",
)


def pages() -> dict[str, str]:
    """Return the pages: path to text."""
    return {f"reference/python/{name}.md": "\n\n".join(_page(*about)) + "\n" for name, about in PAGES.items()}


def public_names() -> dict[str, Any]:
    """Return every public name by its full path, and the object."""
    return {
        f"{module.__name__}.{name}": thing
        for _, modules in PAGES.values()
        for module in _modules(modules)
        for name, thing in _names(module)
    }


def _page(title: str, modules: list[str]) -> Iterator[str]:
    yield f"# {title}"
    for module in _modules(modules):
        names = list(_names(module))
        if not names:
            continue
        yield f"## `{module.__name__}`"
        yield _text(module).partition("\n\n")[0]
        for name, thing in names:
            yield from _entry(module, name, thing)


def _modules(names: list[str]) -> Iterator[ModuleType]:
    for name in names:
        module = importlib.import_module(name)
        yield module
        if hasattr(module, "__path__") and name not in PACKAGES_WITH_PRIVATE_MODULES:
            inside = [found.name for found in pkgutil.walk_packages(module.__path__, f"{name}.")]
            yield from (importlib.import_module(one) for one in sorted(inside) if "._" not in one)


def _names(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """Yield the public names of a module: its `__all__`, or the classes and functions defined in it."""
    listed = getattr(module, "__all__", None) or [name for name in vars(module) if not name.startswith("_")]
    for name in sorted(listed):
        thing = getattr(module, name)
        own = getattr(thing, "__module__", None) == module.__name__ or module.__name__ in PACKAGES_WITH_PRIVATE_MODULES
        if (inspect.isclass(thing) or inspect.isroutine(thing)) and (own or hasattr(module, "__all__")):
            yield name, thing


def _entry(module: ModuleType, name: str, thing: Any) -> Iterator[str]:
    yield f"### {name}"
    home = getattr(thing, "__module__", module.__name__)
    if home != module.__name__ and home.startswith("conductor."):
        yield f"From `{home}`."
        if module.__name__ not in PACKAGES_WITH_PRIVATE_MODULES:
            return
    yield f"```python\n{_wrap(_signature(name, thing))}\n```"
    yield _text(thing)
    if inspect.isclass(thing):
        yield from _members(thing)


def _members(thing: type) -> Iterator[str]:
    if issubclass(thing, enum.Enum):
        yield "\n".join(f"- `{one.name}`" for one in thing)
    elif issubclass(thing, msgspec.Struct):
        yield "\n".join(f"- `{one.name}`: `{_type(one.type)}`" for one in msgspec.structs.fields(thing))
    rows = []
    for name, member in sorted(inspect.getmembers_static(thing)):
        function = getattr(thing, name) if isinstance(member, Operation) else member
        function = function.__func__ if isinstance(function, classmethod | staticmethod) else function
        home = getattr(function, "__module__", "") or ""
        if name.startswith("_") or not home.startswith("conductor"):
            continue
        if inspect.isfunction(function):
            rows.append(f"- `{_signature(name, function)}`{_about(function)}")
        elif isinstance(member, property):
            rows.append(f"- `{name}`{_about(member)}")
    yield "\n".join(rows)


def _about(thing: Any) -> str:
    docstring = " ".join(_text(thing).split())
    return f": {docstring}" if docstring else ""


class _SourceAnnotation:
    """An annotation that is shown as in the source, without quotes."""

    def __init__(self, annotation: str) -> None:
        self._annotation = annotation

    def __repr__(self) -> str:
        return self._annotation


def _unquote(annotation: Any) -> Any:
    return _SourceAnnotation(annotation) if isinstance(annotation, str) else annotation


def _signature(name: str, thing: Any) -> str:
    try:
        signature = inspect.signature(thing)
    except (TypeError, ValueError):
        return name
    parameters = [
        one.replace(annotation=_unquote(one.annotation)) for one in signature.parameters.values() if one.name != "self"
    ]
    shown = signature.replace(parameters=parameters, return_annotation=_unquote(signature.return_annotation))
    # An address in memory would differ in every build.
    return name + re.sub(r" at 0x[0-9a-f]+", "", str(shown)).removesuffix(" -> None")


def _wrap(signature: str) -> str:
    """Write a long signature with one line per parameter."""
    if len(signature) <= 100:
        return signature
    return re.sub(r", (?=\*?\*?\w+(?::|=|,|\))|\*,)", ",\n    ", signature).replace("(", "(\n    ", 1)


def _type(annotation: Any) -> str:
    return annotation.__name__ if isinstance(annotation, type) else str(annotation).replace("typing.", "")


def _text(thing: Any) -> str:
    """Return the docstring as Markdown, with its arguments as a list."""
    lines = []
    for line in (inspect.getdoc(thing) or "").splitlines():
        heading = re.fullmatch(r"(Args|Attributes|Raises|Returns|Yields):", line)
        item = re.fullmatch(r"    ([*\w., ]+): (.+)", line)
        if heading:
            lines += [f"**{heading[1]}**", ""]
        elif item:
            lines.append(f"- `{item[1]}`: {item[2]}")
        else:
            lines.append(line)
    return "\n".join(lines)
