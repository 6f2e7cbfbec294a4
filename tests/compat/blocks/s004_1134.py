# Sync worker (runs in thread pool)
@worker_task(task_definition_name='legacy_sync')
def sync_worker(task):
    # Existing synchronous code
    result = blocking_database_call()
    return {'result': result}

# Async worker (runs in event loop)
@worker_task(task_definition_name='modern_async')
async def async_worker(task):
    # Modern async code
    async with httpx.AsyncClient() as client:
        result = await client.get(task.input_data['url'])
    return {'result': result.json()}

# Both work together!
workers = [sync_worker, async_worker]
handler = TaskHandlerAsyncIO(workers=workers)
