"""Execution of event handlers.

In reading order:

- `event_handler_loop`: takes published events from the store and runs the handlers that apply.
- `event_actions`: the actions of handlers: start or terminate a workflow, end a task, set variables.

`definitions/event_handlers.py` stores the handlers and the published events; it is a lower layer than the workflows,
which publish events. The transaction that ends an EVENT task writes its event. One transaction carries out one action
of a handler and also removes the event or stores the remaining actions, so each action happens once.
"""
