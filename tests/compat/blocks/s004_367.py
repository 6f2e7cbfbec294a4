@worker_task(task_definition_name='database_query')
async def query_database(task):
    # Database I/O
    async with aiopg.create_pool() as pool:
        async with pool.acquire() as conn:
            result = await conn.fetch(query)
    return {'records': result}
