from conductor.client.automator.task_handler import TaskHandler
from conductor.client.worker.worker_task import worker_task

# Async worker example
@worker_task(task_definition_name='api_call')
async def call_api(url: str) -> dict:
    async with httpx.AsyncClient() as client:
        response = await client.get(url)
    return response.json()

# Sync worker example
@worker_task(task_definition_name='process_data')
def process_data(data: dict) -> dict:
    result = expensive_computation(data)
    return {'result': result}

# Start handler (handles both sync and async workers)
handler = TaskHandler(configuration=config)
handler.start_processes()
handler.join_processes()
