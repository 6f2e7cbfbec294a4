-- name: last key
-- The highest key that a table has used so far.
SELECT seq FROM sqlite_sequence WHERE name = ?

-- name: task
-- A task by its key.
SELECT * FROM task WHERE pk = ?

-- name: task data
-- The payload of a task.
SELECT input, output, reason, reports, definition FROM task_data WHERE pk = ?

-- name: whole task
-- A task with its payload and the name of its type.
SELECT t.*, d.input, d.output, d.reason, d.reports, d.definition, y.name
FROM task t JOIN task_data d ON d.pk = t.pk JOIN task_type y ON y.pk = t.type
WHERE t.pk = ?

-- name: latest task
-- The newest attempt of a task under one reference name.
SELECT t.*, d.input, d.output, d.reason, d.reports, d.definition, y.name
FROM task t JOIN task_data d ON d.pk = t.pk JOIN task_type y ON y.pk = t.type
WHERE t.workflow = ? AND t.ref = ? ORDER BY t.pk DESC LIMIT 1

-- name: tasks of workflow
-- Every attempt at the tasks of a workflow, in the order of scheduling.
SELECT t.*, d.input, d.output, d.reason, d.reports, d.definition, y.name
FROM task t JOIN task_data d ON d.pk = t.pk JOIN task_type y ON y.pk = t.type
WHERE t.workflow = ? ORDER BY t.seq, t.pk

-- name: count tasks
-- The number of all tasks.
SELECT count(*) FROM task

-- name: newest iteration
-- The newest attempt of a task inside a loop, in any iteration.
SELECT max(pk) FROM task
WHERE workflow = :workflow AND ref > :ref || '__' AND ref < :ref || '__:'
  AND replace(substr(ref, length(:ref) + 3), '__', '') NOT GLOB '*[^0-9]*'

-- name: tasks of name
-- All attempts under a reference name, in any iteration of a loop.
SELECT pk, ref FROM task
WHERE workflow = :workflow AND (ref = :ref OR (ref > :ref || '__' AND ref < :ref || '__:'))

-- name: ready tasks
-- Tasks of a queue that can be polled: highest priority first, then the longest ready.
SELECT pk, workflow FROM task
WHERE queue = ? AND ready_since_ms IS NOT NULL
ORDER BY priority DESC, ready_since_ms, pk
LIMIT ?

-- name: is ready
-- Whether a queue has a task that can be polled.
SELECT 1 FROM task WHERE queue = ? AND ready_since_ms IS NOT NULL LIMIT 1

-- name: due tasks
-- Tasks with a passed deadline.
SELECT * FROM task WHERE wake_at_ms <= ? ORDER BY wake_at_ms LIMIT ?

-- name: nearest wake
-- The nearest time at which the timer must act. 0 (at once) while a sub-workflow is marked for termination.
SELECT min(at) FROM (
  SELECT min(wake_at_ms) AS at FROM task WHERE wake_at_ms IS NOT NULL
  UNION ALL
  SELECT min(wake_at_ms) FROM workflow WHERE wake_at_ms IS NOT NULL
  UNION ALL
  SELECT min(at_ms) FROM schedule_due WHERE NOT EXISTS (SELECT 1 FROM meta WHERE key = 'schedules paused')
  UNION ALL
  SELECT CASE WHEN EXISTS (SELECT 1 FROM event) THEN 0 END
  UNION ALL
  SELECT CASE WHEN EXISTS (SELECT 1 FROM termination) THEN 0 END
)

-- name: in progress of type
-- The number of leased tasks of a type.
SELECT count(*) FROM task WHERE type = ? AND lease_until_ms IS NOT NULL

-- name: granted for report
-- The leased task that was granted with the answer to a report about another task.
SELECT * FROM task WHERE type = ? AND lease_until_ms IS NOT NULL AND granted_for = ?

-- name: running or delayed tasks
-- The tasks that workers hold, and those that become pollable later.
SELECT * FROM task INDEXED BY task_leased WHERE lease_until_ms IS NOT NULL AND queue IS NOT NULL
UNION ALL
SELECT * FROM task INDEXED BY task_delayed WHERE due_at_ms IS NOT NULL AND queue IS NOT NULL

-- name: shift rate starts
-- Shift the recorded starts of rate-limited tasks after a jump of the wall clock.
UPDATE rate_start SET at_ms = at_ms + ?

-- name: forget rate starts
-- Remove the starts that have left the rate window.
DELETE FROM rate_start WHERE type = ? AND at_ms <= ?

-- name: rate starts
-- The number of starts inside the rate window.
SELECT count(*) FROM rate_start WHERE type = ?

-- name: rate start at
-- The time of the n-th start inside the rate window.
SELECT at_ms FROM rate_start WHERE type = ? ORDER BY at_ms LIMIT 1 OFFSET ?

-- name: add rate start
-- Record the start of a rate-limited task.
INSERT INTO rate_start (type, at_ms) VALUES (?, ?)

-- name: add log
-- Add a line to the log of a task.
INSERT INTO task_log (task_id, at_ms, line) VALUES (?, ?, ?)

-- name: newest logs
-- The log of a task, the newest line first.
SELECT line, at_ms FROM task_log WHERE task_id = ? ORDER BY pk DESC

-- name: open tasks of workflow
-- The open tasks of a workflow.
SELECT * FROM task WHERE workflow = ? AND executed = 0 AND ended_ms = 0 ORDER BY pk

-- name: open tasks of type
-- The next open tasks of a type after a key.
SELECT t.* FROM task t WHERE t.type = ? AND t.pk > ? AND t.queue IS NOT NULL
  AND (t.lease_until_ms IS NOT NULL OR t.ready_since_ms IS NOT NULL OR t.due_at_ms IS NOT NULL)
  ORDER BY t.pk LIMIT ?

-- name: held tasks of queue
-- The leased tasks of a queue.
SELECT * FROM task WHERE queue = ? AND lease_until_ms IS NOT NULL

-- name: end task unread
-- Cancel a task without reading its data, because the data of its workflow cannot be read.
UPDATE task SET status = 'CANCELED', executed = 1, ended_ms = ?, lease_until_ms = NULL, ready_since_ms = NULL,
  due_at_ms = NULL, wake_at_ms = NULL
WHERE pk = ?

-- name: failed tasks
-- The failed tasks of a workflow, and the task that ended it.
SELECT t.ref, y.name FROM task t JOIN task_type y ON y.pk = t.type
WHERE t.workflow = ? AND (t.status IN ('FAILED', 'FAILED_WITH_TERMINAL_ERROR') OR t.pk = ?) ORDER BY t.pk

-- name: remove task
-- Remove the row of a task.
DELETE FROM task WHERE pk = ?

-- name: remove task data
-- Remove the payload of a task.
DELETE FROM task_data WHERE pk = ?

-- name: remove task logs
-- Remove the log of a task.
DELETE FROM task_log WHERE task_id = ?

-- name: keys of tasks
-- The keys of all tasks of a workflow.
SELECT pk FROM task WHERE workflow = ? ORDER BY pk

-- name: payload of workflow
-- The bytes of all payloads of a workflow's tasks.
SELECT total(length(d.input) + coalesce(length(d.output), 0)) FROM task t JOIN task_data d ON d.pk = t.pk
WHERE t.workflow = ?

-- name: queue size
-- The number of tasks of a queue that can be polled.
SELECT count(*) FROM task WHERE queue = ? AND ready_since_ms IS NOT NULL

-- name: queue delayed
-- The number of tasks of a queue that become pollable later.
SELECT count(*) FROM task WHERE queue = ? AND due_at_ms IS NOT NULL

-- name: all queues
-- Every queue with its task type and domain.
SELECT task_type.name, queue.domain, queue.pk, queue.type FROM queue JOIN task_type ON task_type.pk = queue.type
ORDER BY task_type.name, queue.domain

-- name: limited type
-- The name of a task type, if it has a concurrency limit.
SELECT name FROM task_type WHERE pk = ? AND concurrent_limit > 0

-- name: rate limited queues
-- The queues of rate-limited task types, with their limits.
SELECT queue.pk, task_type.name, queue.domain, task_type.pk, task_type.concurrent_limit, task_type.rate_limit,
  task_type.rate_window_ms
FROM task_type JOIN queue ON queue.type = task_type.pk
WHERE task_type.rate_limit > 0

-- name: tasks waiting for workflow
-- The SUB_WORKFLOW tasks that wait for a workflow.
SELECT pk FROM task WHERE sub_workflow = ? AND sub_workflow IS NOT NULL AND executed = 0 ORDER BY pk

-- name: pending tasks of type
-- The scheduled and running tasks of a type, page by page.
SELECT t.pk FROM task t JOIN task_type y ON y.pk = t.type
WHERE y.name = ? AND t.executed = 0 AND t.status IN ('SCHEDULED', 'IN_PROGRESS') ORDER BY t.pk LIMIT ? OFFSET ?
