from conductor.client.automator.task_handler_asyncio import TaskHandlerAsyncIO
from conductor.client.configuration.configuration import Configuration
from conductor.client.worker.worker_task import worker_task
import asyncio

@worker_task(task_definition_name='simple_task')
async def my_worker(task):
    # Can also be sync - will run in thread pool
    return {'result': 'done'}

async def main():
    config = Configuration("http://localhost:8080/api")
    async with TaskHandlerAsyncIO(configuration=config) as handler:
        await handler.wait()

if __name__ == '__main__':
    asyncio.run(main())
