"""What happens when a workflow publishes an event. In reading order:

- `event_handler_loop`: takes published events from the store and runs the handlers that apply.
- `event_actions`: each action of a handler, made true: start or end a workflow, end a task, set variables.

The handlers themselves, and what publishes an event, are in `definitions/event_handlers.py`, below the workflows. An
event is written by the transaction that ends its EVENT task. Each action of its handlers is carried out by one
transaction, which also removes the event or keeps the actions that are left: each counts once.
"""
