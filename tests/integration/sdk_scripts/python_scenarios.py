"""conductor-python as a client: `python python_scenarios.py URL`. A line of JSON a scenario: name and failure."""

import json
import sys
import time
import traceback

from conductor.client.configuration.configuration import Configuration
from conductor.client.http.models.rerun_workflow_request import RerunWorkflowRequest
from conductor.client.http.models.start_workflow_request import StartWorkflowRequest
from conductor.client.http.models.task_def import TaskDef
from conductor.client.http.models.task_result import TaskResult
from conductor.client.http.models.workflow_def import WorkflowDef
from conductor.client.http.models.workflow_task import WorkflowTask
from conductor.client.http.rest import ApiException
from conductor.client.orkes_clients import OrkesClients

clients = OrkesClients(configuration=Configuration(server_api_url=sys.argv[1]))
workflows, tasks, metadata = clients.get_workflow_client(), clients.get_task_client(), clients.get_metadata_client()


def define(name, *steps, response_s=60, retries=3, **more):
    for step in steps:
        definition = TaskDef(
            name=step,
            retry_count=retries,
            retry_logic="FIXED",
            retry_delay_seconds=0,
            timeout_seconds=0,
            response_timeout_seconds=response_s,
        )
        metadata.register_task_def(definition)
    metadata.register_workflow_def(
        WorkflowDef(
            name=name,
            version=1,
            tasks=[_step(step, index) for index, step in enumerate(steps)],
            timeout_seconds=0,
            **more,
        ),
        overwrite=True,
    )


def _step(name, index):
    given = {key: f"${{workflow.input.{key}}}" for key in ("n", "failures", "rounds", "seconds")}
    if name == "second":
        given["doubled"] = "${first.output.doubled}"
    return WorkflowTask(name=name, task_reference_name=name, type="SIMPLE", input_parameters=given)


def start(name, correlation_id=None, **given):
    return workflows.start_workflow(
        StartWorkflowRequest(name=name, version=1, input=given, correlation_id=correlation_id)
    )


def wait(workflow_id, status="COMPLETED", timeout_s=60):
    deadline = time.monotonic() + timeout_s
    while True:
        workflow = workflows.get_workflow(workflow_id, include_tasks=True)
        if workflow.status == status:
            return workflow
        assert time.monotonic() < deadline, f"{workflow_id} is {workflow.status}, not {status}: {workflow.to_dict()}"
        time.sleep(0.1)


def wait_for(condition, timeout_s=30):
    deadline = time.monotonic() + timeout_s
    while not (value := condition()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.1)
    return value


def sixty_workflows_of_two_steps():
    define("two_steps", "first", "second", output_parameters={"sum": "${second.output.sum}"})
    ids = [start("two_steps", n=n) for n in range(60)]
    for n, id_ in enumerate(ids):
        workflow = wait(id_)
        assert workflow.output["sum"] == 2 * n + 1, workflow.output
        assert [task.status for task in workflow.tasks] == ["COMPLETED", "COMPLETED"]


def retries_of_a_sync_worker():
    _retried("flaky")


def retries_of_an_async_worker():
    _retried("flaky_async")


def _retried(task):
    define(f"with_{task}", task)
    workflow = wait(start(f"with_{task}", failures=2))
    assert [task.status for task in workflow.tasks] == ["FAILED", "FAILED", "COMPLETED"]
    assert [task.retry_count for task in workflow.tasks] == [0, 1, 2]
    assert workflow.tasks[2].output_data == {"attempts": 3}
    assert workflow.tasks[1].retried_task_id == workflow.tasks[0].task_id
    assert "failure 0" in workflow.tasks[0].reason_for_incompletion


def retries_run_out():
    define("runs_out", "flaky", retries=1)
    workflow = wait(start("runs_out", failures=9), "FAILED")
    assert [task.status for task in workflow.tasks] == ["FAILED", "FAILED"]
    define("with_flaky", "flaky")


def terminal_failure():
    define("with_doomed", "doomed")
    workflow = wait(start("with_doomed"), "FAILED")
    (task,) = workflow.tasks
    assert task.status == "FAILED_WITH_TERMINAL_ERROR"
    assert "no such order" in task.reason_for_incompletion
    assert workflow.failed_reference_task_names == {"doomed"}


def task_in_progress():
    define("with_patient", "patient")
    workflow = wait(start("with_patient", rounds=3))
    (task,) = workflow.tasks
    assert (task.poll_count, task.output_data) == (3, {"polls": 3})


def domains():
    define("with_painted", "painted")
    id_ = workflows.start_workflow(
        StartWorkflowRequest(name="with_painted", version=1, input={}, task_to_domain={"painted": "blue"})
    )
    (task,) = wait(id_).tasks
    assert (task.domain, task.output_data) == ("blue", {"colour": "blue"})
    undelivered = start("with_painted")
    assert wait_for(lambda: workflows.get_workflow(undelivered).tasks)[0].status == "SCHEDULED"
    workflows.terminate_workflow(undelivered, "nobody works without a domain")


def heartbeats_of_a_sync_worker():
    _outlives_its_lease("long")


def heartbeats_of_an_async_worker():
    _outlives_its_lease("long_async")


def _outlives_its_lease(task):
    define(f"with_{task}", task, response_s=5)
    workflow = wait(start(f"with_{task}", seconds=8.0))
    assert [task.status for task in workflow.tasks] == ["COMPLETED"], "it was not executed twice"


def late_result():
    define("with_late", "late")
    ended = start("with_late", seconds=3.0)
    wait_for(lambda: workflows.get_workflow(ended, include_tasks=True).tasks[0].status == "IN_PROGRESS")
    workflows.terminate_workflow(ended, "enough")
    assert [task.status for task in wait(start("with_late", seconds=0.0)).tasks] == ["COMPLETED"]
    assert [task.output_data for task in workflows.get_workflow(ended, include_tasks=True).tasks] == [{}]


def logs():
    define("with_talkative", "talkative")
    (task,) = wait(start("with_talkative")).tasks
    tasks.add_task_log(task.task_id, "three")
    assert [entry.log for entry in tasks.get_task_logs(task.task_id)] == ["one", "two", "three"]


def search():
    define("searched", "first")
    ids = {start("searched", n=n) for n in range(3)}
    for id_ in ids:
        wait(id_)
    found = workflows.search(query="workflowType = 'searched' AND status = 'COMPLETED'", size=10)
    assert {one.workflow_id for one in found.results} == ids
    assert workflows.search(query="workflowType = 'searched' AND status = 'FAILED'").results == []


def correlation():
    define("correlated", "first")
    id_ = start("correlated", correlation_id="order-7", n=1)
    wait(id_)
    found = workflows.get_by_correlation_ids("correlated", ["order-7"], include_completed=True, include_tasks=True)
    assert [workflow.workflow_id for workflow in found["order-7"]] == [id_]


def terminate():
    define("ended", "nobody")
    id_ = start("ended")
    workflows.terminate_workflow(id_, "enough")
    workflow = wait(id_, "TERMINATED")
    assert workflow.reason_for_incompletion == "enough"
    assert [task.status for task in workflow.tasks] == ["CANCELED"]


def pause_and_resume():
    define("paused", "by_hand", "first")
    id_ = start("paused", n=4)
    workflows.pause_workflow(id_)
    assert workflows.get_workflow_status(id_).status == "PAUSED"
    tasks.update_task_by_ref_name(id_, "by_hand", "COMPLETED", {"by": "hand"})
    workflow = workflows.get_workflow(id_)
    assert [task.status for task in workflow.tasks] == ["COMPLETED"], "nothing new while paused"
    workflows.resume_workflow(id_)
    workflow = wait(id_)
    assert [task.output_data for task in workflow.tasks] == [{"result": {"by": "hand"}}, {"doubled": 8}]


def retry():
    define("retried", "by_hand", retries=0)
    id_ = start("retried")
    tasks.update_task_by_ref_name(id_, "by_hand", "FAILED", {})
    wait(id_, "FAILED")
    workflows.retry_workflow(id_)
    wait(id_, "RUNNING")
    tasks.update_task_by_ref_name(id_, "by_hand", "COMPLETED", {})
    assert [task.status for task in wait(id_).tasks] == ["FAILED", "COMPLETED"]


def restart():
    define("restarted", "first")
    id_ = start("restarted", n=1)
    before = wait(id_).tasks[0].task_id
    workflows.restart_workflow(id_)
    after = wait_for(lambda: [t for t in workflows.get_workflow(id_).tasks if t.task_id != before])
    assert len(after) == 1
    assert len(wait(id_).tasks) == 1


def rerun():
    define("rerun", "first", "second")
    id_ = start("rerun", n=1)
    second = wait(id_).tasks[1].task_id
    assert workflows.rerun_workflow(id_, RerunWorkflowRequest(re_run_from_task_id=second)) == id_
    workflow = wait(id_)
    assert workflow.tasks[0].output_data == {"doubled": 2}


def remove():
    define("removed", "first")
    id_ = start("removed", n=1)
    wait(id_)
    workflows.delete_workflow(id_)
    try:
        workflows.get_workflow(id_)
    except ApiException as error:
        assert error.status == 404
    else:
        raise AssertionError("it is still there")


def _polled(task):
    """A poll that finds nothing gives this client a task without an id."""
    found = tasks.poll_task(task, worker_id="me")
    return found if found and found.task_id else None


def polling_by_hand():
    define("polled", "by_hand")
    ids = [start("polled") for _ in range(3)]
    assert tasks.get_queue_size_for_task("by_hand") >= 3
    got = wait_for(lambda: _polled("by_hand"))
    rest = tasks.batch_poll_tasks("by_hand", worker_id="me", count=5, timeout_in_millisecond=100)
    mine = [task for task in [got, *rest] if task.workflow_instance_id in ids]
    assert len(mine) == 3
    assert not _polled("by_hand")
    for task in mine:
        answer = tasks.update_task(
            TaskResult(
                task_id=task.task_id,
                workflow_instance_id=task.workflow_instance_id,
                worker_id="me",
                status="COMPLETED",
                output_data={"by": "poll"},
            )
        )
        assert answer == task.task_id
        assert tasks.get_task(task.task_id).status == "COMPLETED"
    for id_ in ids:
        wait(id_)
    assert any(data.queue_name == "by_hand" for data in tasks.get_task_poll_data("by_hand"))


def executed_and_waited_for():
    define("executed", "first")
    run = workflows.execute_workflow(
        StartWorkflowRequest(name="executed", version=1, input={"n": 5}), request_id="r1", wait_for_seconds=20
    )
    assert (run.status, run.output) == ("COMPLETED", {"doubled": 10}), run.to_dict()


def definitions():
    define("described", "first")
    assert metadata.get_task_def("first").name == "first"
    assert any(one.name == "first" for one in metadata.get_all_task_defs())
    assert any(one.name == "described" for one in metadata.get_all_workflow_defs())
    metadata.update_task_def(TaskDef(name="first", description="new", timeout_seconds=0))
    assert metadata.get_task_def("first").description == "new"
    metadata.register_task_def(TaskDef(name="short lived", timeout_seconds=0))
    metadata.unregister_task_def("short lived")
    metadata.unregister_workflow_def("described", 1)
    assert not any(one.name == "described" for one in metadata.get_all_workflow_defs())


def mistakes():
    for mistake, status in (
        (lambda: start("there is no such workflow"), 404),
        (lambda: workflows.get_workflow("nothing"), 404),
        (lambda: tasks.get_task("nothing"), 404),
    ):
        try:
            mistake()
        except ApiException as error:
            assert error.status == status, error
        else:
            raise AssertionError("no error")


SCENARIOS = [
    sixty_workflows_of_two_steps,
    retries_of_a_sync_worker,
    retries_of_an_async_worker,
    retries_run_out,
    terminal_failure,
    task_in_progress,
    domains,
    heartbeats_of_a_sync_worker,
    heartbeats_of_an_async_worker,
    late_result,
    logs,
    search,
    correlation,
    terminate,
    pause_and_resume,
    retry,
    restart,
    rerun,
    remove,
    polling_by_hand,
    executed_and_waited_for,
    definitions,
    mistakes,
]

if __name__ == "__main__":
    for scenario in SCENARIOS:
        failure = None
        try:
            scenario()
        except Exception:
            failure = traceback.format_exc()
        print(json.dumps({"scenario": scenario.__name__, "failure": failure}), flush=True)
