from conductor.client.automator.task_handler_asyncio import TaskHandlerAsyncIO
from conductor.client.worker.worker_task import worker_task
import httpx

@worker_task(task_definition_name='fetch_data')
async def fetch_data(url: str) -> dict:
    """Async worker - runs directly in event loop"""
    async with httpx.AsyncClient() as client:
        response = await client.get(url)
    return {'data': response.json()}

# Use TaskHandlerAsyncIO (single process)
async def main():
    async with TaskHandlerAsyncIO(configuration=config) as handler:
        await handler.wait()

asyncio.run(main())
