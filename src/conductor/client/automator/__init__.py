"""Running workers. This is the path of a task, in reading order; each line names the files that a reader meets there.

Who starts workers:
    `task_handler` runs each in a process of its own, `task_handler_asyncio` all of them on the program's event loop;
    `task_runner`, `async_task_runner` and `task_runner_asyncio` run a single one; `run_for_duration` is a load test.
    `supervisor` is the parent's side of the processes, `child` what runs inside one, `preload` what they share;
    `recycling` says when one has done enough and is replaced, and what it may use of the machine;
    `recovery` takes over what a process left that has died, and `process_deaths` finds the task that it died of.

What one process sets up:
    `worker_group` starts and stops its workers together; `session` is what they share with one server.
    `registration` tells that server what a worker is, with the schemas that `json_schema_generator` derives.

One task, from its delivery to its verdict:
    `engine` keeps the slots full and carries each task through the steps below: see `Engine.carry`.
    `poller` asks for tasks: how many, and when to ask again; `abandoned_poll` is one that a stop has left.
    `prefetch` has the tasks that wait for a slot, where the worker's option of that name lets it hold more.
    `polled_tasks` judges what came, task by task: to be executed, or answered for without that, or not ours.
    `lease` keeps the right to work on them, `heartbeat` by heartbeat. `blocked_loop` names code that blocks the loop.
    `progress` is what a task says meanwhile: it travels with heartbeats.
    `running_task` is the task in hand: until when it is ours, and how to stop it.
    `task_trace` has the spans of a traced task.
    `isolation` says when it may begin: a task that may have killed a process runs alone.
    `executor` calls the worker's function, a `def` on the threads of `thread_pool`, and learns how it ended;
    `execution_marks` notes the call, so that it is known if the process dies meanwhile.
    `reporter` reports that until there is a verdict; `delivery` sends the report and reads the answer.
    `journal` has the task, then its result, on disk until then; `redelivery` sends again what could not be sent, and
    gives back what a dead process had in hand.

What a function returned or raised becomes a result in `conductor.client.worker.outcome`.
"""
