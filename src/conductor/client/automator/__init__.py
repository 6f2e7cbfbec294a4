"""Runs workers. The modules are listed in the order in which a task passes through them.

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

One task, from its delivery to its verdict:
    `engine` keeps the slots full, and takes each task through the steps below: see `Engine.process_task`.
    `poller` polls, and decides how many tasks to request and when to poll again.
    `prefetch` holds the tasks beyond the slots, if the worker's option of that name allows them.
    `polled_tasks` decides about each task that arrives: execute it, report it without executing it, or ignore it.
    `running_task` is the state of a running task: its lease, and whether the task must stop.
    `lease` extends the leases in time with `heartbeat`; `blocked_loop` names code that blocks the event loop.
    `progress` tracks the log lines and output of a running task, which heartbeats send to the server.
    `task_trace` has the spans of a traced task.
    `isolation` decides when a task may begin: a task that may have killed a process runs alone.
    `executor` calls the worker's function, a `def` on the threads of `thread_pool`.
    `execution_marks` marks the call, so that the task is known if the process dies during the call.
    `step_recorder` records durable steps on a coordinator; `step_file` stores them for other servers.
    `reporter` reports the outcome until there is a verdict; `delivery` sends reports and reads the answers.
    `server_probe` notices when the server is reachable again.
    `journal` keeps the task, then its report, on disk until the verdict.
    `adopted_journal` is the journal of a dead process.
    `redelivery` resends the reports that could not be delivered, and requeues the tasks of dead processes.

`conductor.client.worker.outcome` turns the value or the error of a function into a result.
"""
