"""Paths of Conductor that this coordinator does not support.

They are answered with a 404 that names the missing feature, because a bare 404 looks as if an id were wrong.
"""

from __future__ import annotations

#: Path → the feature of Conductor that is missing. An entry also applies to all paths below it.
UNSUPPORTED = {
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
}
