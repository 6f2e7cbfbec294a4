"""Workflow definitions."""

import json

from conductor.client.http.models.cache_config import CacheConfig
from conductor.client.http.models.model import Definition, OrDefault, sent_default
from conductor.client.http.models.rate_limit_config import RateLimitConfig
from conductor.client.http.models.schema_def import SchemaDef
from conductor.client.http.models.workflow_task import WorkflowTask
from conductor.protocol.json_types import JsonObject


class WorkflowDef(Definition, kw_only=True):
    """A named, versioned workflow definition.

    A field that is None is not sent, so the server's default applies.
    """

    name: OrDefault[str] = sent_default(str)
    #: The server's default is 1.
    version: int | None = None
    tasks: OrDefault[list[WorkflowTask]] = sent_default(list)
    description: str | None = None
    #: The names of the inputs, as documentation.
    input_parameters: list[str] | None = None
    #: Expressions for the output of the workflow.
    output_parameters: JsonObject | None = None
    input_template: JsonObject | None = None
    variables: JsonObject | None = None
    #: The name of the workflow that starts when this workflow fails.
    failure_workflow: str | None = None
    failure_workflow_version: int | None = None
    #: Servers accept only version 2.
    schema_version: OrDefault[int] = sent_default(2)
    #: The server's default is True.
    restartable: bool | None = None
    owner_email: str | None = None
    #: ALERT_ONLY (the server's default) or TIME_OUT_WF.
    timeout_policy: str | None = None
    #: The time limit of the workflow in seconds; 0 means no limit.
    timeout_seconds: OrDefault[int] = sent_default(int)
    workflow_status_listener_enabled: bool | None = None
    workflow_status_listener_sink: str | None = None
    rate_limit_config: RateLimitConfig | None = None
    input_schema: SchemaDef | None = None
    output_schema: SchemaDef | None = None
    #: The server's default is True.
    enforce_schema: bool | None = None
    metadata: JsonObject | None = None
    cache_config: CacheConfig | None = None
    masked_fields: list[str] | None = None
    owner_app: str | None = None
    create_time: int | None = None
    update_time: int | None = None
    created_by: str | None = None
    updated_by: str | None = None

    def toJSON(self) -> JsonObject:  # noqa: N802 (its name in conductor-python)
        """Return the same as `to_dict`."""
        return self.to_dict()


def to_workflow_def(data: str | None = None, json_data: JsonObject | None = None) -> WorkflowDef:
    """Make a workflow definition from JSON, as text or as a dict."""
    if data is not None and json_data is None:
        json_data = json.loads(data)
    elif data is not None or json_data is None:
        raise ValueError("to_workflow_def takes either data, as text, or json_data, a dict")
    return WorkflowDef.from_dict(json_data or {})
