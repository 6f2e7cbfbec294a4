"""Run five orders through a workflow with one process per worker, and print the results. Ends by itself.

Needs a server: `conductor-worker serve`, or any Conductor server named by CONDUCTOR_SERVER_URL.
"""

import time

from conductor import Configuration, OrkesClients, TaskDef, TaskHandler, worker_task
from conductor.client.http.models import WorkflowDef, WorkflowTask

STEPS, OWNER = ("charge_payment", "send_confirmation"), "examples@example.com"


@worker_task(task_definition_name="charge_payment")
def charge_payment(order_id: int) -> dict[str, str]:
    return {"receipt": f"receipt {order_id}"}


@worker_task(task_definition_name="send_confirmation", thread_count=10)
async def send_confirmation(order_id: int) -> dict[str, str]:
    return {"mail": f"order {order_id} is on its way"}


if __name__ == "__main__":
    clients = OrkesClients(Configuration())
    metadata, workflows = clients.get_metadata_client(), clients.get_workflow_client()
    metadata.register_task_defs([TaskDef(name=step, owner_email=OWNER) for step in STEPS])
    order = {"order_id": "${workflow.input.order_id}"}
    tasks = [WorkflowTask(name=step, task_reference_name=step, input_parameters=order) for step in STEPS]
    metadata.update_workflow_def(WorkflowDef(name="order_processing", tasks=tasks, owner_email=OWNER))
    with TaskHandler(configuration=clients.configuration) as handler:
        handler.start_processes()
        started = [workflows.start_workflow_by_name("order_processing", {"order_id": n}) for n in range(5)]
        while not all(workflows.get_workflow_status(workflow_id).is_terminal for workflow_id in started):
            time.sleep(0.1)
    for workflow_id in started:
        workflow = workflows.get_workflow(workflow_id)
        print(workflow.status, workflow.output)
