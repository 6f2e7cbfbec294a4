# Before (Sync)
@worker_task(task_definition_name='my_task')
def my_worker(task):
    import requests
    response = requests.get(task.input_data['url'])
    return {'data': response.json()}

# After (Async)
@worker_task(task_definition_name='my_task')
async def my_worker(task):
    import httpx
    async with httpx.AsyncClient() as client:
        response = await client.get(task.input_data['url'])
    return {'data': response.json()}
