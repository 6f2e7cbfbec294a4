"""Running workers. This is the path of a task in reading order; each line names the modules that a reader meets there.

Entry points:
    `task_handler` runs each worker in a process of its own, `task_handler_asyncio` all of them on one event loop.
    `task_runner`, `async_task_runner` and `task_runner_asyncio` run one worker; `run_for_duration` is a load test.
    `supervisor` watches the worker processes; `worker_process` is the handle of one, `pickling` checks its arguments,
    `child` is the code inside it, and `preload` has the imports that all of them share.
    `recycling` decides when a process is replaced by a fresh one, and limits its memory and CPU.
    `recovery` takes over the journal of a dead process; `process_deaths` finds the task that killed it.

One process:
    `worker_group` starts and stops its workers; `session` has their shared connections, leases and journal.
    `registration` registers task definitions, with the schemas of `json_schema_generator`.

One task, from its delivery to its verdict: `engine` keeps the slots full and carries each task through the steps below:
    see `Engine.carry`. `poller` polls: how many tasks to request, and when to poll again. `prefetch` holds the tasks
    beyond the slots, if the worker's option of that name allows them. `polled_tasks` decides about each task that
    arrives: execute it, report it without executing it, or ignore it. `running_task` is the state of a running task:
    its lease, and whether it must stop. `lease` keeps the leases, with a `heartbeat` for each in time; `blocked_loop`
    names code that blocks the event loop. `progress` tracks the log lines and output of a running task; heartbeats
    carry them. `task_trace` has the spans of a traced task. `isolation` decides when a task may begin: one that may
    have killed a process runs alone. `executor` calls the worker's function, a `def` on the threads of `thread_pool`;
    `execution_marks` marks the call, so that it is known if the process dies meanwhile. `step_recorder` records the
    durable steps of the function, `step_file` on a server that has no place for them. `reporter` reports the outcome
    until there is a verdict; `delivery` sends reports and reads the answers. `server_probe` notices when the server is
    reachable again. `journal` keeps the task, then its report, on disk until the verdict; `adopted_journal` is that of
    a dead process. `redelivery` sends again the reports that could not be delivered, and requeues the tasks of dead
    processes.

`conductor.client.worker.outcome` turns the value or the error of a function into a result.
"""
