"""The work of `work.py` under conductor-python: `python conductor_python_workers.py URL LOG`, a process per worker."""

import asyncio
import logging
import sys
import time

from execution_log import ExecutionLog
from work import Work

from conductor.client.automator.task_handler import TaskHandler
from conductor.client.configuration.configuration import Configuration
from conductor.client.context.task_context import TaskInProgress, get_task_context
from conductor.client.event.task_runner_events import TaskUpdateFailure
from conductor.client.worker.exception import NonRetryableException
from conductor.client.worker.worker_task import worker_task

execution_log = ExecutionLog(sys.argv[2])


def begin(plan: dict) -> tuple:
    context = get_task_context()
    work = Work(execution_log, plan, task=context.get_task_id(), lease=None)
    ending = work.ending(context.get_retry_count(), context.get_poll_count())
    if ending == "fail":
        raise RuntimeError("planned failure")
    if ending == "refuse":
        raise NonRetryableException("planned refusal")
    return work, ending


@worker_task(task_definition_name="chaos_sync", thread_count=12, lease_extend_enabled=True)
def work_in_a_thread(plan: dict) -> object:
    work, ending = begin(plan)
    if ending == "later":
        return TaskInProgress(callback_after_seconds=1)
    time.sleep(work.half_s)
    work.effect()
    time.sleep(work.half_s)
    return work.ended()


@worker_task(task_definition_name="chaos_async", thread_count=25, lease_extend_enabled=True)
async def work_on_the_loop(plan: dict) -> object:
    work, ending = begin(plan)
    if ending == "later":
        return TaskInProgress(callback_after_seconds=0)
    await asyncio.sleep(work.half_s)
    work.effect()
    await asyncio.sleep(work.half_s)
    return work.ended()


class Told:
    """Logs the results that conductor-python gives up."""

    def on_task_update_failure(self, event: TaskUpdateFailure) -> None:
        execution_log.write("given up", task=event.task_id, journaled=False)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(process)d %(levelname)s %(name)s %(message)s")
    handler = TaskHandler(configuration=Configuration(server_api_url=sys.argv[1]), event_listeners=[Told()])
    with handler:
        handler.start_processes()
        handler.join_processes()
