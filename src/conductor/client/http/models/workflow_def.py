"""A workflow: its steps and how it may end."""

from __future__ import annotations

from typing import Any

from conductor.client.http.models.cache_config import CacheConfig
from conductor.client.http.models.model import Model, OrDefault, sent
from conductor.client.http.models.rate_limit_config import RateLimitConfig
from conductor.client.http.models.schema_def import SchemaDef
from conductor.client.http.models.workflow_task import WorkflowTask


def _first() -> int:
    return 1


def _two() -> int:
    return 2


class WorkflowDef(Model, kw_only=True):
    """A named, versioned workflow. What is None is not sent: the server's own default, named here, applies."""

    name: OrDefault[str] = sent(str)
    version: OrDefault[int] = sent(_first)
    tasks: OrDefault[list[WorkflowTask]] = sent(list)
    description: str | None = None
    #: Names of the inputs, for people.
    input_parameters: list[str] | None = None
    #: Expressions that make the workflow's output.
    output_parameters: dict[str, Any] | None = None
    input_template: dict[str, Any] | None = None
    variables: dict[str, Any] | None = None
    #: The workflow started when this one fails.
    failure_workflow: str | None = None
    failure_workflow_version: int | None = None
    #: The only one a server accepts is 2.
    schema_version: OrDefault[int] = sent(_two)
    #: True
    restartable: bool | None = None
    owner_email: str | None = None
    #: ALERT_ONLY; or TIME_OUT_WF.
    timeout_policy: str | None = None
    #: 0 = none
    timeout_seconds: OrDefault[int] = sent(int)
    #: False
    workflow_status_listener_enabled: bool | None = None
    workflow_status_listener_sink: str | None = None
    rate_limit_config: RateLimitConfig | None = None
    input_schema: SchemaDef | None = None
    output_schema: SchemaDef | None = None
    #: True
    enforce_schema: bool | None = None
    metadata: dict[str, Any] | None = None
    cache_config: CacheConfig | None = None
    masked_fields: list[str] | None = None
    owner_app: str | None = None
    create_time: int | None = None
    update_time: int | None = None
    created_by: str | None = None
    updated_by: str | None = None
