"""The runner of one worker under TaskHandlerAsyncIO's older constructor."""

from __future__ import annotations

import copy
from typing import Any

from conductor.client.automator.async_task_runner import AsyncTaskRunner
from conductor.client.configuration.configuration import Configuration
from conductor.client.worker.worker_choice import WorkerLike, choose_workers


class TaskRunnerAsyncIO(AsyncTaskRunner):
    """One worker on the current event loop; `worker` may be a decorated function.

    Args:
        worker: A Worker, a class-based worker, or a decorated function.
        configuration: The server.
        http_client: Your own `httpx.AsyncClient`, shared between runners; without it the runner has its own.
        max_concurrent_tasks: Tasks in hand at once, in place of the worker's `thread_count`.
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
            chosen = copy.copy(chosen)  # the worker may be run elsewhere, too
            chosen.thread_count = max_concurrent_tasks
        super().__init__(chosen, configuration, http_client=http_client, **options)
