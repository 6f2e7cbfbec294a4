"""The listener base under the path where other Conductor code looks for it."""

from conductor.client.event.task_runner_events import TaskRunnerEventsListener

__all__ = ["TaskRunnerEventsListener"]
