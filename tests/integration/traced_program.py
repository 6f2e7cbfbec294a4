"""A program whose trace goes through a workflow: it starts one inside a span, and runs its workers in three ways.

`python traced_program.py memory <file> [traceparent]` keeps its spans in memory, those of its worker process in the
file; it prints all. With a traceparent, it is itself called inside that span. `python traced_program.py otlp` sends
its spans where OTEL_EXPORTER_OTLP_ENDPOINT says.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from conductor import Configuration, TaskHandler, TaskHandlerAsyncIO, worker_task
from conductor.client.http.models.start_workflow_request import StartWorkflowRequest
from conductor.client.orkes_clients import OrkesClients
from conductor.coordinator import Coordinator
from conductor.telemetry import tracing

FLOW = {
    "name": "traced",
    "schemaVersion": 2,
    "tasks": [
        {"name": "plain", "taskReferenceName": "plain", "type": "SIMPLE"},
        {
            "name": "inner",
            "taskReferenceName": "inner",
            "type": "SUB_WORKFLOW",
            "subWorkflowParam": {
                "name": "inner",
                "version": 1,
                "workflowDefinition": {
                    "name": "inner",
                    "version": 1,
                    "schemaVersion": 2,
                    "tasks": [{"name": "waiting", "taskReferenceName": "waiting", "type": "SIMPLE"}],
                },
            },
        },
        {"name": "apart", "taskReferenceName": "apart", "type": "SIMPLE"},
    ],
}


def own_span(name: str) -> None:
    """Start a span of the user's own, inside a task."""
    with trace.get_tracer("shop").start_as_current_span(f"own {name}"):
        pass


@worker_task("plain", register_task_def=False)
def plain() -> None:
    own_span("plain")


@worker_task("waiting", register_task_def=False)
async def waiting() -> None:
    await asyncio.sleep(0)
    own_span("waiting")


@worker_task("apart", register_task_def=False)
def apart() -> dict[str, int]:
    own_span("apart")
    return {"pid": os.getpid()}


class FileExporter(SpanExporter):
    """Writes one line of JSON per span, because a worker process cannot share the memory of its parent."""

    def __init__(self, path: str) -> None:
        self._path = path

    def export(self, spans: Any) -> SpanExportResult:
        with Path(self._path).open("a") as file:
            file.writelines(json.dumps(described(span)) + "\n" for span in spans)
        return SpanExportResult.SUCCESS


def described(span: ReadableSpan) -> dict[str, Any]:
    context = span.get_span_context()
    assert context is not None
    return {
        "name": span.name,
        "trace": f"{context.trace_id:032x}",
        "span": f"{context.span_id:016x}",
        "parent": None if span.parent is None else f"{span.parent.span_id:016x}",
        "attributes": dict(span.attributes or {}),
        "pid": os.getpid(),
    }


def set_up_worker() -> None:
    """The function that CONDUCTOR_TRACING names, called in each worker process."""
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(FileExporter(os.environ["SPANS"])))
    trace.set_tracer_provider(provider)


def workers(*names: str) -> list[Any]:
    from conductor.client.worker.registry import list_workers

    return [worker for worker in list_workers() if worker.task_definition_name in names]


async def run(url: str) -> tuple[str, dict[str, Any]]:
    configuration = Configuration(url)
    clients = OrkesClients(Configuration(url))
    with TaskHandler(workers("apart"), configuration) as processes:
        processes.start_processes()
        async with TaskHandlerAsyncIO(workers("plain", "waiting"), configuration):
            caller = tracing.Tracer().read_parent(sys.argv[3]) if len(sys.argv) > 3 else None
            with trace.get_tracer("shop").start_as_current_span("order", caller):
                started = await asyncio.to_thread(start, clients)
            workflow = clients.get_workflow_client()
            while (await asyncio.to_thread(workflow.get_workflow, started, False)).status == "RUNNING":
                await asyncio.sleep(0.05)
            done = await asyncio.to_thread(workflow.get_workflow, started, True)
    return started, {task.reference_task_name: task.output_data for task in done.tasks}


def start(clients: OrkesClients) -> str:
    request = StartWorkflowRequest(name="traced", workflow_def=FLOW)  # type: ignore[arg-type]
    return str(clients.get_workflow_client().start_workflow(request))


def main() -> None:
    kept = InMemorySpanExporter()
    if sys.argv[1] == "memory":
        os.environ["SPANS"] = sys.argv[2]
        os.environ["CONDUCTOR_TRACING"] = "traced_program:set_up_worker"
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(kept))
        trace.set_tracer_provider(provider)
    else:
        tracing.set_up(tracing.AUTO)
    with Coordinator() as coordinator:
        started, outputs = asyncio.run(run(coordinator.url))
    tracing.flush()
    spans = [described(span) for span in kept.get_finished_spans()]
    if sys.argv[1] == "memory":
        spans += [json.loads(line) for line in Path(sys.argv[2]).read_text().splitlines()]
    print(json.dumps({"workflow": started, "outputs": outputs, "spans": spans, "pid": os.getpid()}))


if __name__ == "__main__":
    main()
