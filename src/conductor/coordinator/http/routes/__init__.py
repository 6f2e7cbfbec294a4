"""The route handlers, one module per resource. Each module has a list ROUTES.

- `tasks`: poll, read and requeue tasks. `reports`: reports and heartbeats of workers.
- `by_reference`: update a task by its workflow and reference name. `signals`: complete an open WAIT.
- `workflows`: start and read workflows. `workflow_actions`: pause, retry, terminate and the like.
- `messages`: send messages to running workflows, and set their variables.
- `search`: search workflows and tasks. `dry_runs`: run a workflow with mocked task outputs.
- `schedules`: start workflows on a schedule. `events`: event handlers.
- `metadata`: task and workflow definitions. `schemas`: JSON schemas. `settings`: secrets and the environment.
- `keys`: keys for the API. `views`: the data of the web UI and the command line. `metrics`: Prometheus.
- `admin`: health, version, OpenAPI document. `maintenance`: Conductor's routes for operators.
"""

from __future__ import annotations

from conductor.coordinator.http.routes import (
    admin,
    by_reference,
    dry_runs,
    events,
    keys,
    maintenance,
    messages,
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
    messages,
    schedules,
    events,
    settings,
    keys,
    dry_runs,
    maintenance,
    search,
    views,
    metrics,
    admin,
)

#: All routes of the API.
ROUTES: list[Route] = [route for resource in _RESOURCES for route in resource.ROUTES]
