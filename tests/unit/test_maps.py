"""The docstring of a package is its map: it names every module exactly once."""

from __future__ import annotations

import importlib
import pkgutil
import re

import pytest

#: The packages whose docstring is a map.
MAPPED = [
    "conductor.cli",
    "conductor.common",
    "conductor.client.automator",
    "conductor.client.configuration",
    "conductor.client.telemetry",
    "conductor.client.worker",
    "conductor.client.worker.conversion",
    "conductor.coordinator",
    "conductor.coordinator.definitions",
    "conductor.coordinator.events",
    "conductor.coordinator.http",
    "conductor.coordinator.http.routes",
    "conductor.coordinator.keys",
    "conductor.coordinator.language",
    "conductor.coordinator.schedules",
    "conductor.coordinator.settings",
    "conductor.coordinator.store",
    "conductor.coordinator.system",
    "conductor.coordinator.tasks",
    "conductor.coordinator.views",
    "conductor.coordinator.workflows",
    "conductor.demo",
    "conductor.local",
    "conductor.protocol",
    "conductor.telemetry",
    "conductor.testing",
]


def names_in(docstring: str) -> list[str]:
    """Return the words between backticks that may be modules: no dots, no capitals, no spaces."""
    return re.findall(r"`([a-z_0-9]+)`", docstring)


@pytest.mark.parametrize("package", MAPPED)
def test_the_map_names_every_module_exactly_once(package: str) -> None:
    module = importlib.import_module(package)
    named = names_in(module.__doc__ or "")
    modules = {found.name for found in pkgutil.iter_modules(module.__path__)}
    assert {name: named.count(name) for name in sorted(modules)} == dict.fromkeys(sorted(modules), 1)


@pytest.mark.parametrize("package", MAPPED)
def test_the_map_names_no_module_that_is_not_there(package: str) -> None:
    module = importlib.import_module(package)
    modules = {found.name for found in pkgutil.iter_modules(module.__path__)}
    words = {"def", "async"}
    assert set(names_in(module.__doc__ or "")) <= modules | words
