"""The base of listeners, under its path in conductor-python."""

from conductor.client.event.task_runner_events import TaskRunnerEventsListener

__all__ = ["TaskRunnerEventsListener"]
