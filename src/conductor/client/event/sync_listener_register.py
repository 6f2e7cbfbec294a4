"""The registration of listeners, at the import path that it has in conductor-python."""

from __future__ import annotations

from conductor.client.event.sync_event_dispatcher import SyncEventDispatcher


def register_task_runner_listener(listener: object, dispatcher: SyncEventDispatcher) -> None:
    """Register every `on_…` method of the listener with the dispatcher."""
    dispatcher.register_listener(listener)
