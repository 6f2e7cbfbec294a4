@worker_task(task_definition_name='batch_processor')
async def batch_processor(task):
    items = task.input_data['items']

    # Process in parallel with limited concurrency
    semaphore = asyncio.Semaphore(10)  # Max 10 concurrent

    async def process_item(item):
        async with semaphore:
            return await do_processing(item)

    results = await asyncio.gather(*[
        process_item(item) for item in items
    ])

    return {'results': results}
