import httpx
import aiopg
import aiofiles

@worker_task(task_definition_name='api_call')
async def call_api(task):
    async with httpx.AsyncClient() as client:
        response = await client.get(task.input_data['url'])

    async with aiopg.create_pool() as pool:
        async with pool.acquire() as conn:
            await conn.execute("INSERT ...")

    async with aiofiles.open('file.txt', 'w') as f:
        await f.write(response.text)
