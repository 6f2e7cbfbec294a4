"""Registering a listener with a dispatcher, under the path where conductor-python has it."""

from __future__ import annotations

from conductor.client.event.sync_event_dispatcher import SyncEventDispatcher


def register_task_runner_listener(listener: object, dispatcher: SyncEventDispatcher) -> None:
    """Call every `on_…` method that the listener has for the events of its name."""
    dispatcher.register_listener(listener)
