from conductor.client.automator.task_handler import TaskHandler
from conductor.client.worker.worker_task import worker_task
import httpx

@worker_task(task_definition_name='fetch_data')
async def fetch_data(url: str) -> dict:
    """Async worker - automatically uses BackgroundEventLoop"""
    async with httpx.AsyncClient() as client:
        response = await client.get(url)
    return {'data': response.json()}

# Use TaskHandler (multiprocessing)
handler = TaskHandler(configuration=config)
handler.start_processes()
handler.join_processes()
