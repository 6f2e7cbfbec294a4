@worker_task(task_definition_name='process_batch')
async def process_batch(task):
    items = task.input_data['items']
    results = []

    for i, item in enumerate(items):
        result = expensive_computation(item)
        results.append(result)

        # Yield every 100 items to let other workers run
        if i % 100 == 0:
            await asyncio.sleep(0)  # Yield to event loop

    return {'results': results}
