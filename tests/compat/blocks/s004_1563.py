from conductor.client.automator.task_handler import TaskHandler
from conductor.client.configuration.configuration import Configuration
from conductor.client.worker.worker_task import worker_task

@worker_task(task_definition_name='simple_task')
def my_worker(task):
    return {'result': 'done'}

def main():
    config = Configuration("http://localhost:8080/api")
    handler = TaskHandler(configuration=config)
    handler.start_processes()

    try:
        handler.join_processes()
    except KeyboardInterrupt:
        handler.stop_processes()

if __name__ == '__main__':
    main()
