# Before (Multiprocessing)
from conductor.client.automator.task_handler import TaskHandler

# After (AsyncIO)
from conductor.client.automator.task_handler_asyncio import TaskHandlerAsyncIO
