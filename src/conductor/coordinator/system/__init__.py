"""The coordinator's own workers: they execute HTTP calls, scripts, events and starts of workflows.

System workers poll tasks from queues like any other worker, so leases, retries, timeouts and crash recovery need no
extra rules. No system task runs on the event loop or blocks the writer's thread, and no thread or process exists while
there is no task.

- `system_workers`: which tasks have system workers, and how these start and stop.
- `system_task_queue`: polls the tasks of one kind, has them executed and reports the results.
- `system_task_result`: the result of a system task.
- `http_task_worker`: converts an HTTP task to a request, and an answer to a result.
- `http_call`: one call over the network.
- `addresses`: which addresses a call may reach.
- `script_task`: INLINE, LAMBDA and JSON_JQ_TRANSFORM.
- `script_runner`: runs scripts in a pool of processes, and kills a process whose script takes too long.
- `script_process`: the program of such a process; `evaluate_script.js` and `java_methods.js` are its JavaScript.
- `start_tasks`: EVENT and START_WORKFLOW.
"""
