"""The table of routes: one small file for each resource, each with its own ROUTES.

- `tasks`: polls, logs, queues. `reports`: what workers say. `by_reference`: updates by workflow and reference name.
- `signals`: ends of WAITs. `workflows`: starting and reading. `workflow_actions`: pause, retry and the like.
- `schedules`: workflows started by the clock.
- `settings`: secrets and the environment.
- `events`: event handlers.
- `search`: searches. `metadata`: definitions. `schemas`: JSON schemas. `admin`: health, version, documentation.
- `metrics`: what Prometheus reads.
- `dry_runs`: workflows with made-up outputs. `maintenance`: what operators of Conductor ask for.
- `views`: what people look at, on the page and in the terminal.
"""

from __future__ import annotations

from conductor.coordinator.http.routes import (
    admin,
    by_reference,
    dry_runs,
    events,
    maintenance,
    metadata,
    metrics,
    reports,
    schedules,
    schemas,
    search,
    settings,
    signals,
    tasks,
    views,
    workflow_actions,
    workflows,
)
from conductor.coordinator.http.routing import Route

_RESOURCES = (
    tasks,
    reports,
    by_reference,
    signals,
    metadata,
    schemas,
    workflows,
    workflow_actions,
    schedules,
    events,
    settings,
    dry_runs,
    maintenance,
    search,
    views,
    metrics,
    admin,
)

#: Everything the coordinator answers.
ROUTES: list[Route] = [route for resource in _RESOURCES for route in resource.ROUTES]
