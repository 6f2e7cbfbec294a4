"""An embedded, durable server that speaks Conductor's REST API and decides truth: who holds a task, and what counts."""

try:
    from conductor.coordinator.server import Coordinator
except ModuleNotFoundError as missing:
    if (missing.name or "").partition(".")[0] == "conductor":
        raise
    raise ModuleNotFoundError(
        f"the coordinator needs {missing.name}: pip install 'conductor-worker[server]'", name=missing.name
    ) from None

__all__ = ["Coordinator"]
