"""`SchedulerClient` under its name in conductor-python."""

from conductor.client.scheduler_client import SchedulerClient as OrkesSchedulerClient

__all__ = ["OrkesSchedulerClient"]
