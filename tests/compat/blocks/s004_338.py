@worker_task(task_definition_name='api_calls')
async def call_external_api(task):
    # Mostly waiting for network responses
    async with httpx.AsyncClient() as client:
        response = await client.get(task.input_data['url'])
        data = await client.post('/process', json=response.json())
    return {'result': data}
