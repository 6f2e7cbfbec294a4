@worker_task(task_definition_name='long_task')
async def long_running_task(task):
    try:
        # Your work here
        for i in range(100):
            await do_work(i)
            await asyncio.sleep(0.1)
    except asyncio.CancelledError:
        # Cleanup on cancellation
        logger.info("Task cancelled, cleaning up...")
        await cleanup()
        raise  # Re-raise to propagate cancellation
