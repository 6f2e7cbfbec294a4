"""What was registered, and what a running workflow keeps of it. In reading order:

- `task_defs`: task definitions: their fields and bounds, and where they are kept.
- `workflow_defs`: workflow definitions, the same.
- `validation`: what may be registered as a workflow; everything else is refused by name.
- `json_schemas`: JSON schemas: those that are kept under a name, and the check of an input against one.
- `plain_schema`: a schema with references inside itself only.
- `schema_cost`: how much work a schema can cause.
- `event_handlers`: what is done when an event is published, and the events that wait for it.
- `workflow_plan`: a workflow definition as a graph, read once.
- `definition_snapshots`: a definition as it was when a workflow started, with the task definitions of that moment.
"""
