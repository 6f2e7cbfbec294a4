-- Statements for the views of clients. Their cost must not grow with the number of finished workflows.

-- name: open workflows
-- The number of running workflows.
SELECT count(*) FROM workflow WHERE ended_ms IS NULL

-- name: open workflows by name
-- The number of running workflows of each name.
SELECT name, count(*) FROM workflow WHERE ended_ms IS NULL GROUP BY name

-- name: ready by queue
-- How many tasks of each queue can be polled, and since when the oldest one can.
SELECT queue, count(*), min(ready_since_ms) FROM task WHERE ready_since_ms IS NOT NULL GROUP BY queue

-- name: delayed by queue
-- How many tasks of each queue become pollable later.
SELECT queue, count(*) FROM task WHERE due_at_ms IS NOT NULL AND queue IS NOT NULL GROUP BY queue

-- name: leased by queue
-- How many tasks of each queue each worker holds.
SELECT queue, worker_id, count(*), min(started_ms) FROM task
WHERE lease_until_ms IS NOT NULL AND queue IS NOT NULL GROUP BY queue, worker_id

-- name: open leases
-- The open leases. Those that expire soonest come first.
SELECT t.pk, y.name, q.domain, t.ref, t.workflow, w.name, t.worker_id, t.retry_count, t.started_ms, t.updated_ms,
  t.lease_until_ms
FROM (
  SELECT * FROM task WHERE lease_until_ms IS NOT NULL AND queue IN (SELECT pk FROM queue WHERE domain NOT LIKE ' %')
  ORDER BY lease_until_ms, pk LIMIT ?
) t JOIN queue q ON q.pk = t.queue JOIN task_type y ON y.pk = t.type JOIN workflow w ON w.pk = t.workflow
ORDER BY t.lease_until_ms, t.pk

-- name: leased of queue
-- The number of leased tasks of a queue.
SELECT count(*) FROM task WHERE type = ? AND queue = ? AND lease_until_ms IS NOT NULL

-- name: queues of all types
-- Every queue with the limits of its task type.
SELECT queue.pk, task_type.name, queue.domain, task_type.pk, task_type.concurrent_limit, task_type.rate_limit,
  task_type.rate_window_ms
FROM queue JOIN task_type ON task_type.pk = queue.type ORDER BY task_type.name, queue.domain

-- name: queue with limits
-- A queue with the limits of its task type.
SELECT queue.pk, task_type.name, queue.domain, task_type.pk, task_type.concurrent_limit, task_type.rate_limit,
  task_type.rate_window_ms
FROM queue JOIN task_type ON task_type.pk = queue.type WHERE queue.pk = ?

-- name: newest queued tasks
-- When the newest queued tasks became pollable, started and ended.
SELECT queue, status, scheduled_ms + 1000 * start_delay_s, started_ms, ended_ms FROM (
  SELECT * FROM task ORDER BY pk DESC LIMIT ?
) WHERE queue IS NOT NULL

-- name: newest runs
-- The workers and the durations of the newest tasks that have ended.
SELECT worker_id, ended_ms - started_ms FROM (
  SELECT * FROM task ORDER BY pk DESC LIMIT ?
) WHERE queue IS NOT NULL AND started_ms AND ended_ms

-- name: rate starts since
-- The starts of a rate-limited type since a time.
SELECT at_ms FROM rate_start WHERE type = ? AND at_ms > ? ORDER BY at_ms

-- name: tasks of workflow without payload
-- Every attempt at the tasks of a workflow without payloads, in the order of scheduling.
SELECT t.*, d.reason, CASE WHEN t.operator IN ('SWITCH', 'DECISION') THEN d.output END, y.name
FROM task t JOIN task_data d ON d.pk = t.pk JOIN task_type y ON y.pk = t.type
WHERE t.workflow = ? ORDER BY t.seq, t.pk LIMIT ?

-- name: last failed task
-- The failed task that explains the failure of a workflow. A JOIN counts only if nothing else failed.
SELECT t.* FROM task t WHERE t.workflow = ? AND t.retried = 0
  AND t.status IN ('FAILED', 'FAILED_WITH_TERMINAL_ERROR', 'TIMED_OUT')
ORDER BY t.operator IN ('JOIN', 'EXCLUSIVE_JOIN'), t.ended_ms DESC, t.pk LIMIT 1

-- name: refs of ended tasks
-- The reference names of the ended tasks of a workflow.
SELECT ref FROM task WHERE workflow = ? AND ended_ms > 0 AND retried = 0

-- name: line of turn
-- How many workflows run under a rate limit, and how many wait ahead of a given place.
SELECT count(*) - count(place), sum(place < ?) FROM turn WHERE name = ? AND key = ?

-- name: count of tasks by hand
-- The number of tasks that wait for a person or a signal, up to a limit.
SELECT count(*) FROM (
  SELECT 1 FROM task WHERE operator IN ('HUMAN', 'WAIT') AND ended_ms = 0 AND due_at_ms IS NULL LIMIT ?
)

-- name: tasks by hand
-- The tasks that wait for a person or a signal, oldest first, after a given time and key. Large inputs are left out.
SELECT t.pk, t.ref, t.operator, t.scheduled_ms, t.workflow, w.name, w.correlation_id, w.status,
  CASE WHEN length(d.input) <= 16384 THEN d.input END
FROM task t JOIN workflow w ON w.pk = t.workflow JOIN task_data d ON d.pk = t.pk
WHERE t.operator IN ('HUMAN', 'WAIT') AND t.ended_ms = 0 AND t.due_at_ms IS NULL
  AND (t.scheduled_ms, t.pk) > (?, ?)
ORDER BY t.scheduled_ms, t.pk LIMIT ?

-- name: first workflow from
-- The first workflow whose key is at least the given one.
SELECT pk, created_ms FROM workflow WHERE pk >= ? ORDER BY pk LIMIT 1

-- name: first task from
-- The first task whose key is at least the given one.
SELECT pk, first_scheduled_ms FROM task WHERE pk >= ? ORDER BY pk LIMIT 1

-- name: ended between
-- The number of workflows that ended in a time span, up to a limit.
SELECT count(*) FROM (SELECT 1 FROM workflow WHERE ended_ms >= ? AND ended_ms < ? LIMIT ?)

-- name: failed between
-- The number of workflows that failed in a time span, up to a limit.
SELECT count(*) FROM (
  SELECT 1 FROM workflow WHERE status IN ('FAILED', 'TIMED_OUT') AND ended_ms >= ? AND ended_ms < ? LIMIT ?
)

-- name: tasks in key range
-- The type, the status and the times of the attempts in a range of keys, the newest first.
SELECT y.name, t.queue IS NULL, t.status, t.scheduled_ms + 1000 * t.start_delay_s, t.started_ms, t.ended_ms
FROM task t JOIN task_type y ON y.pk = t.type WHERE t.pk >= ? AND t.pk < ? ORDER BY t.pk DESC LIMIT ?

-- name: failed workflows
-- The workflows that failed since a time, newest first, each with the failed task and the status of its sub-workflow.
SELECT w.pk, w.name, w.status, w.ended_ms, coalesce(f.reason, d.reason), y.name, c.status
FROM workflow w JOIN workflow_data d ON d.pk = w.pk LEFT JOIN task t ON t.pk = d.failed_task
LEFT JOIN task_data f ON f.pk = t.pk LEFT JOIN task_type y ON y.pk = t.type LEFT JOIN workflow c ON c.pk = t.sub_workflow
WHERE w.status IN ('FAILED', 'TIMED_OUT') AND w.ended_ms >= ? ORDER BY w.ended_ms DESC LIMIT ?

-- name: queue totals
-- How many tasks workers can poll now, and how many they hold.
SELECT (SELECT count(*) FROM task WHERE ready_since_ms IS NOT NULL AND queue IS NOT NULL),
  (SELECT count(*) FROM task WHERE lease_until_ms IS NOT NULL AND queue IS NOT NULL)
