from asyncio import Semaphore

# Global rate limiter (5 concurrent API calls max)
api_semaphore = Semaphore(5)

@worker_task(task_definition_name='rate_limited')
async def rate_limited_worker(task):
    async with api_semaphore:  # Wait for available slot
        async with httpx.AsyncClient() as client:
            response = await client.get(task.input_data['url'])
    return {'data': response.json()}
