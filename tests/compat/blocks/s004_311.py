# No need to refactor to async/await
@worker_task(task_definition_name='legacy_task')
def legacy_worker(task):
    result = blocking_database_call()  # Works fine
    return {'result': result}
