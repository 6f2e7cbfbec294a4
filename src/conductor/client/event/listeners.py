"""The base class of listeners, at the import path that it has in conductor-python."""

from conductor.client.event.task_runner_events import TaskRunnerEventsListener

__all__ = ["TaskRunnerEventsListener"]
