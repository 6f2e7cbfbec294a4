"""Compare speed and memory of a worker process and an asyncio worker. Needs psutil and a server. Ends by itself."""

import asyncio
import time

import psutil

from conductor import OrkesClients, TaskHandler, TaskHandlerAsyncIO, worker_task

TASK = {"name": "compared", "taskReferenceName": "compared", "type": "SIMPLE"}


@worker_task(task_definition_name="compared", thread_count=20)
async def compared() -> None:
    await asyncio.sleep(0.02)


def run(clients: OrkesClients, tasks: int) -> str:
    workflows, started_s = clients.get_workflow_client(), time.perf_counter()
    for workflow_id in [workflows.start_workflow_by_name("comparison") for _ in range(tasks)]:
        while not workflows.get_workflow_status(workflow_id).is_terminal:
            time.sleep(0.01)
    took_s, program = time.perf_counter() - started_s, psutil.Process()
    memory = sum(process.memory_info().rss for process in [program, *program.children(recursive=True)])
    return f"{tasks / took_s:6.0f} tasks/s {memory / 2**20:6.0f} MB"


async def on_one_loop(clients: OrkesClients) -> str:
    async with TaskHandlerAsyncIO():
        return await asyncio.to_thread(run, clients, 100)


if __name__ == "__main__":
    server, owner = OrkesClients(), {"ownerEmail": "me@example.com"}
    server.get_metadata_client().register_task_def({"name": "compared"} | owner)
    server.get_metadata_client().update_workflow_def({"name": "comparison", "tasks": [TASK]} | owner)
    with TaskHandler() as handler:
        handler.start_processes()
        print(f"multiprocessing {run(server, 1) and run(server, 100)}")  # the first run waits for the worker to start
    print(f"asyncio         {asyncio.run(on_one_loop(server))}")
