# Both TaskHandler and TaskHandlerAsyncIO support mixed workers!

@worker_task(task_definition_name='cpu_task')
def cpu_intensive(data: bytes) -> dict:
    """Sync worker for CPU-bound work"""
    processed = expensive_computation(data)
    return {'result': processed}

@worker_task(task_definition_name='io_task')
async def io_intensive(url: str) -> dict:
    """Async worker for I/O-bound work"""
    async with httpx.AsyncClient() as client:
        response = await client.get(url)
    return {'data': response.json()}

# Works with both handlers!
handler = TaskHandler(configuration=config)  # or TaskHandlerAsyncIO
