"""The table of routes: one small file per resource, each with its own ROUTES."""

from __future__ import annotations

from conductor.coordinator.app import Route
from conductor.coordinator.routes import admin, metadata, reports, tasks, workflows

#: Everything the coordinator answers.
ROUTES: list[Route] = [*tasks.ROUTES, *reports.ROUTES, *metadata.ROUTES, *workflows.ROUTES, *admin.ROUTES]
