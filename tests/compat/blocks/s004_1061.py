@worker_task(task_definition_name='external_api')
async def call_external_api(task):
    try:
        async with httpx.AsyncClient() as client:
            # Set per-request timeout
            response = await asyncio.wait_for(
                client.get(task.input_data['url']),
                timeout=10.0  # 10 second max
            )
        return {'data': response.json()}
    except asyncio.TimeoutError:
        return {'error': 'API call timed out'}
