"""Registered definitions, and the copies that running workflows use.

In reading order:

- `task_defs`: task definitions: their fields, limits and storage.
- `workflow_defs`: workflow definitions: their defaults and storage.
- `validation`: which workflow definitions can be registered.
- `likely_mistakes`: parts of a valid definition that are probably mistakes, which cause warnings.
- `json_schemas`: registered JSON schemas, and the validation of inputs.
- `plain_schema`: a schema with references inside itself only.
- `schema_cost`: how much work a schema can cause.
- `event_handlers`: event handlers, and the published events that wait for them.
- `workflow_plan`: a workflow definition as a graph, read once.
- `definition_snapshots`: the definitions of a workflow as they were at its start.
"""
