# No changes needed - works as-is!
@worker_task(task_definition_name='my_task')
def my_worker(task):
    # Sync code still works
    result = blocking_call()
    return {'result': result}
