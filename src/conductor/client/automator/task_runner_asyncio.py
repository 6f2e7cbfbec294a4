"""The class that runs one worker on the current event loop, named like the class of conductor-python."""

from __future__ import annotations

import copy
from typing import Any

from conductor.client.automator.async_task_runner import AsyncTaskRunner
from conductor.client.configuration.configuration import Configuration
from conductor.client.worker.worker_choice import WorkerLike, choose_workers


class TaskRunnerAsyncIO(AsyncTaskRunner):
    """Run one worker on the current event loop.

    Args:
        worker: A Worker, a class-based worker, or a decorated function.
        configuration: The server and its credentials.
        http_client: An `httpx.AsyncClient` of your own, which several runners may share.
        max_concurrent_tasks: The most running tasks at the same time, in place of the worker's `thread_count`.
    """

    def __init__(
        self,
        worker: WorkerLike,
        configuration: Configuration | None = None,
        http_client: Any | None = None,
        *,
        max_concurrent_tasks: int | None = None,
        **options: Any,
    ) -> None:
        (chosen,) = choose_workers(worker, False, None)
        if max_concurrent_tasks is not None:
            chosen = copy.copy(chosen)  # copy the worker: the program may use it elsewhere
            chosen.thread_count = max_concurrent_tasks
        super().__init__(chosen, configuration, http_client=http_client, **options)
