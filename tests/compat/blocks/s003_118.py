# New
from conductor.client.automator.task_handler import TaskHandler
with TaskHandler(configuration=config, asyncio=True) as handler:
    handler.start_processes()
    handler.join_processes()
