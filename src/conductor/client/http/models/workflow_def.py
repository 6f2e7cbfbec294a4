"""A workflow: its steps and how it may end."""

from __future__ import annotations

import json
from typing import Any

from conductor.client.http.models.cache_config import CacheConfig
from conductor.client.http.models.model import Definition, OrDefault, sent
from conductor.client.http.models.rate_limit_config import RateLimitConfig
from conductor.client.http.models.schema_def import SchemaDef
from conductor.client.http.models.workflow_task import WorkflowTask


def _two() -> int:
    return 2


class WorkflowDef(Definition, kw_only=True):
    """A named, versioned workflow. What is None is not sent: the server's own default, named here, applies."""

    name: OrDefault[str] = sent(str)
    #: 1
    version: int | None = None
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

    def toJSON(self) -> dict[str, Any]:  # noqa: N802 (its name in conductor-python)
        """What travels, as `to_dict`."""
        return self.to_dict()


def to_workflow_def(data: str | None = None, json_data: dict[str, Any] | None = None) -> WorkflowDef:
    """A definition from JSON: as text, or as the dict that it is."""
    if data is not None and json_data is None:
        json_data = json.loads(data)
    elif data is not None or json_data is None:
        raise ValueError("to_workflow_def takes either data, as text, or json_data, a dict")
    return WorkflowDef.from_dict(json_data or {})
