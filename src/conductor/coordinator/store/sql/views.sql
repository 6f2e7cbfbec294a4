-- Statements for the views of clients. Their cost must not grow with the number of finished workflows.

-- name: open workflows
-- The number of running workflows.
SELECT count(*) FROM workflow WHERE ended_ms IS NULL

-- name: open workflows by name
-- The number of running workflows of each name.
SELECT name, count(*) FROM workflow WHERE ended_ms IS NULL GROUP BY name

-- name: lately ended
-- The number of recently ended workflows of each status.
SELECT status, count(*) FROM (
  SELECT status FROM workflow WHERE ended_ms > ? ORDER BY ended_ms DESC LIMIT ?
) GROUP BY status

-- name: ready by queue
-- How many tasks of each queue can be polled, and since when the oldest.
SELECT queue, count(*), min(ready_since_ms) FROM task WHERE ready_since_ms IS NOT NULL GROUP BY queue

-- name: delayed by queue
-- How many tasks of each queue become pollable later.
SELECT queue, count(*) FROM task WHERE due_at_ms IS NOT NULL AND queue IS NOT NULL GROUP BY queue

-- name: leased by queue
-- How many tasks each worker holds of each queue.
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

-- name: rate starts since
-- The starts of a rate-limited type since a time.
SELECT at_ms FROM rate_start WHERE type = ? AND at_ms > ? ORDER BY at_ms

-- name: tasks of workflow without payload
-- The attempts of a workflow without payloads, in the order of scheduling.
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
