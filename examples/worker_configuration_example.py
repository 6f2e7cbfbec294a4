"""Print which source each option of a worker comes from: variables, code or default. Ends by itself.

    CONDUCTOR_WORKER_PROCESS_ORDER_THREAD_COUNT=50 CONDUCTOR_WORKER_ALL_DOMAIN=production \
        python examples/worker_configuration_example.py
"""

from conductor import Worker, worker_task
from conductor.client.worker.worker import get_code_options
from conductor.client.worker.worker_config import resolve_worker_config
from conductor.client.worker.worker_loader import WorkerLoader


@worker_task(task_definition_name="process_order", poll_interval_millis=1000, thread_count=5, domain="dev")
def process_order(order_id: str) -> dict[str, str]:
    return {"order": order_id}


@worker_task(task_definition_name="validate_order", strict_schema=True)
async def validate_order(amount: float) -> bool:
    return amount > 0


def explain(worker: Worker) -> None:
    """Print the options of the worker and the source of each value."""
    config = resolve_worker_config(worker.task_definition_name, get_code_options(worker))
    print(f"\n{worker.task_definition_name}")
    for name, value in config.items():
        if config.source(name) != "default":
            print(f"  {name:22} {value!s:12} {config.source(name)}")


if __name__ == "__main__":
    loader = WorkerLoader()
    loader.scan_module(__name__)
    for found in loader.get_workers():
        explain(found)
