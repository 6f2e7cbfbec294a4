"""Workers of the coordinator's own, for tasks that are no functions of anybody: HTTP calls, scripts, events, starts.

They take tasks from queues as all workers do, so that leases, retries, timeouts and a dead server need no rules of
their own. None of them runs on the event loop or in the writer's thread, and there is none while there is no task.

- `system_workers`: which tasks there are workers for, and how these start and stop.
- `system_task_queue`: takes the tasks of one kind, has them done, reports what came of them.
- `system_task_result`: what is reported.
- `http_task_worker`: what an HTTP task asks for, and what an answer means.
- `http_call`: one call over the network.
- `addresses`: where a call may go.
- `script_task`: INLINE, LAMBDA and JSON_JQ_TRANSFORM.
- `script_runner`: has a script run, and ends it when it takes too long.
- `script_process`: the process in which scripts run.
- `start_tasks`: EVENT and START_WORKFLOW.
"""
