@worker_task(
    task_definition_name='my_task',
    domain='my_domain',
    poll_interval=500,  # milliseconds
    worker_id='custom_id'
)
def my_worker(task: Task) -> TaskResult:
    pass
