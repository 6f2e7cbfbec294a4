# 1. Adjust connection pool
http_client = httpx.AsyncClient(
    limits=httpx.Limits(
        max_keepalive_connections=50,  # Increase for high throughput
        max_connections=200
    )
)

# 2. Tune polling interval
@worker_task(task_definition_name='task', poll_interval=100)
async def worker(task):
    pass

# 3. Adjust worker concurrency
runner = TaskRunnerAsyncIO(
    worker=worker,
    configuration=config,
    max_concurrent_tasks=5  # Allow 5 concurrent executions
)

# 4. Monitor event loop
import asyncio
loop = asyncio.get_running_loop()
loop.set_debug(True)  # Warn on slow callbacks
