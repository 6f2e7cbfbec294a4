# Route workers to specific domains for isolation
@worker_task(task_definition_name='critical_task', domain='critical')
def critical_worker(task):
    # High-priority processing
    pass

@worker_task(task_definition_name='batch_task', domain='batch')
def batch_worker(task):
    # Low-priority processing
    pass
