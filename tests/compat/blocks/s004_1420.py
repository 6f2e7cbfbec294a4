@worker_task(task_definition_name='long_task')
def long_task(task):
    for i in range(1000000):
        if should_stop():  # Check stop signal
            break
        do_work(i)
