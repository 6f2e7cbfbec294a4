@worker_task(task_definition_name='my_task')
async def my_worker(task: Task) -> TaskResult:
    pass
