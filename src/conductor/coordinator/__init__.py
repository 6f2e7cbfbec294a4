"""An embedded, durable server that speaks Conductor's REST API and decides truth: who holds a task, and what counts."""

from conductor.coordinator.server import Coordinator

__all__ = ["Coordinator"]
