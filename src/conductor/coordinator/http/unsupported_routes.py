"""What Conductor has and this coordinator has not. It is refused by name: a bare 404 reads as if an id were wrong."""

from __future__ import annotations

from conductor.coordinator.request_errors import ApiError, not_found

#: Paths, with all that is below them, and what one would find there.
ABSENT = {
    "/api/agent": "agents",
    "/api/applications": "applications",
    "/api/event/queue": "queues of other systems",
    "/api/files": "file storage",
    "/api/groups": "groups",
    "/api/human": "human tasks",
    "/api/integrations": "integrations",
    "/api/metadata/tags": "tags",
    "/api/prompts": "prompts",
    "/api/providers": "providers of models",
    "/api/roles": "roles",
    "/api/scheduler/schedules/{name}/tags": "tags of schedules",
    "/api/secrets/{key}/tags": "tags of secrets",
    "/api/skills": "skills",
    "/api/tasks/externalstoragelocation": "external storage of payloads",
    "/api/users": "users",
    "/api/webhook": "webhooks",
    "/api/workflow/externalstoragelocation": "external storage of payloads",
    "/api/workflow/{id}/messages": "message queues of workflows",
}


def no_such_family(name: str, path: str) -> ApiError:
    """404 that says what is not here."""
    return not_found(f"this coordinator has no {name} ({path})")
