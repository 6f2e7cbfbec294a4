"""The table of routes: one small file per resource, each with its own ROUTES."""

from __future__ import annotations

from conductor.coordinator.app import Route
from conductor.coordinator.routes import (
    admin,
    by_reference,
    metadata,
    reports,
    schemas,
    search,
    signals,
    tasks,
    workflow_actions,
    workflows,
)

_RESOURCES = (tasks, reports, by_reference, signals, metadata, schemas, workflows, workflow_actions, search, admin)

#: Everything the coordinator answers.
ROUTES: list[Route] = [route for resource in _RESOURCES for route in resource.ROUTES]
