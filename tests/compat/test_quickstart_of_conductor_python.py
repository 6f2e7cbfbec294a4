"""The calls that conductor-python's quickstart and README teach for workflows, as programs on a coordinator."""

from __future__ import annotations

from pathlib import Path

from conductor.coordinator import Coordinator
from tests.compat.user_program import Program

QUICKSTART = """
from conductor.client.automator.task_handler import TaskHandler
from conductor.client.configuration.configuration import Configuration
from conductor.client.orkes_clients import OrkesClients
from conductor.client.worker.worker_task import worker_task
from conductor.client.workflow.conductor_workflow import ConductorWorkflow


@worker_task(task_definition_name="say_hello")
def say_hello(name: str) -> str:
    return f"Hello {name}"


def main():
    config = Configuration()
    clients = OrkesClients(configuration=config)
    executor = clients.get_workflow_executor()

    workflow = ConductorWorkflow(name="hello_there", version=1, executor=executor)
    said = say_hello(task_ref_name="said", name=workflow.input("name"))
    workflow >> said
    workflow.output_parameters({"result": said.output("result")})
    workflow.register(overwrite=True)

    with TaskHandler(workers=[], configuration=config, scan_for_annotated_workers=True) as handler:
        handler.start_processes()
        run = executor.execute(name="hello_there", version=1, workflow_input={"name": "Ada"}, wait_for_seconds=30)
        print("execute:", run.status, run.output["result"])
        print("inline:", workflow.execute(workflow_input={"name": "Grace"}, wait_for_seconds=30).output)
        print("called:", workflow(name="Joan").is_successful())


if __name__ == "__main__":
    main()
"""

README = """
from conductor.client.automator.task_handler import TaskHandler
from conductor.client.configuration.configuration import Configuration
from conductor.client.http.models import RerunWorkflowRequest, StartWorkflowRequest, TaskResultStatus
from conductor.client.orkes_clients import ConductorClients
from conductor.client.worker.worker_task import worker_task
from conductor.client.workflow.conductor_workflow import ConductorWorkflow
from conductor.client.workflow.task.do_while_task import LoopTask
from conductor.client.workflow.task.set_variable_task import SetVariableTask
from conductor.client.workflow.task.switch_task import SwitchTask
from conductor.client.workflow.task.timeout_policy import TimeoutPolicy
from conductor.client.workflow.task.wait_task import WaitTask


@worker_task(task_definition_name="price")
def price(sku: str, count: int = 1) -> dict:
    return {"total": 5 * count, "sku": sku}


@worker_task(task_definition_name="mail")
async def mail(to: str) -> dict:
    return {"to": to}


def main():
    config = Configuration()
    clients = ConductorClients(config)
    executor, workflows, tasks = (
        clients.get_workflow_executor(), clients.get_workflow_client(), clients.get_task_client()
    )
    workflow = ConductorWorkflow(executor, "buy", version=1, description="Buys")
    workflow.timeout_policy(TimeoutPolicy.TIME_OUT_WORKFLOW).timeout_seconds(600).owner_email("ada@example.com")
    total = price(task_ref_name="total", sku=workflow.input("sku"), count=3)
    approval = WaitTask("approval")
    kind = SwitchTask("kind", approval.output("kind")).switch_case("gift", [mail(task_ref_name="card", to="friend")])
    kind.default_case([SetVariableTask("plain").input_parameter("plain", True)])
    reminders = LoopTask("reminders", 2, [mail(task_ref_name="reminder", to=workflow.input("to"))])
    workflow >> total >> [mail(task_ref_name="shop", to="shop"), mail(task_ref_name="boss", to="boss")]
    workflow >> approval >> kind >> reminders
    workflow.output_parameters({"total": total.output("total"), "by": approval.output("by")})
    workflow.register(True)

    with TaskHandler(configuration=config, scan_for_annotated_workers=True) as handler:
        handler.start_processes()
        request = StartWorkflowRequest(name="buy", version=1, input={"sku": "chair", "to": "me"})
        run = executor.execute_workflow(request, wait_until_task_ref="approval", wait_for_seconds=30)
        print("waiting:", run.status)
        executor.update_task_by_ref_name_sync({"kind": "gift", "by": "Ada"}, run.workflow_id, "approval", "COMPLETED")
        while workflows.get_workflow_status(run.workflow_id).is_running():
            pass
        done = executor.get_workflow(run.workflow_id, include_tasks=True)
        print("done:", done.status, done.output, done.get_task(task_reference_name="card").output_data)
        other = workflow.start_workflow_with_input({"sku": "desk", "to": "you"}, correlation_id="c-1")
        executor.pause(other)
        executor.resume(other)
        executor.terminate(other, "enough")
        print("other:", workflows.get_workflow(other, False).status)
        found = executor.get_by_correlation_ids("buy", ["c-1"], include_closed=True)
        print("found:", [one.workflow_id for one in found["c-1"]] == [other])


if __name__ == "__main__":
    main()
"""


def run(code: str, tmp_path: Path) -> str:
    file = tmp_path / "program.py"
    file.write_text(code)
    with Coordinator(tmp_path / "quickstart.db") as coordinator:
        program = Program([file], tmp_path, {"CONDUCTOR_SERVER_URL": coordinator.url})
        try:
            assert program.ended() == 0, program.output
        finally:
            program.__exit__(None, None, None)
    return program.output


def test_the_quickstart_of_conductor_python_runs(tmp_path: Path) -> None:
    output = run(QUICKSTART, tmp_path)
    assert "execute: COMPLETED Hello Ada" in output
    assert "inline: {'result': 'Hello Grace'}" in output
    assert "called: True" in output


def test_the_workflow_parts_of_the_readme(tmp_path: Path) -> None:
    output = run(README, tmp_path)
    assert "waiting: RUNNING" in output
    assert "done: COMPLETED {'total': 15, 'by': 'Ada'} {'to': 'friend'}" in output
    assert "other: TERMINATED" in output
    assert "found: True" in output
