-- name: add task
INSERT INTO task (pk, workflow, queue, type, kind, ref, seq, iteration, status, priority, retry_count, retried_task,
  executed, scheduled_ms, first_scheduled_ms, started_ms, updated_ms, ended_ms, start_delay_s, callback_after_s,
  worker_id, response_ms, timeout_ms, poll_ms, total_ms, ready_ms, due_ms, wake_ms, sub_workflow)
VALUES (:pk, :workflow, :queue, :type, :kind, :ref, :seq, :iteration, :status, :priority, :retry_count, :retried_task,
  :executed, :scheduled_ms, :first_scheduled_ms, :started_ms, :updated_ms, :ended_ms, :start_delay_s, :callback_after_s,
  :worker_id, :response_ms, :timeout_ms, :poll_ms, :total_ms, :ready_ms, :due_ms, :wake_ms, :sub_workflow)

-- name: add task data
INSERT INTO task_data (pk, input, output, reason) VALUES (?, ?, ?, ?)

-- name: task
SELECT * FROM task WHERE pk = ?

-- name: task data
SELECT input, output, reason FROM task_data WHERE pk = ?

-- name: task types
SELECT name FROM task_type WHERE pk = ?

-- name: ready tasks
SELECT t.*, d.input, d.output, d.reason, w.name, w.snapshot, w.correlation_id, w.priority
FROM task t JOIN task_data d ON d.pk = t.pk JOIN workflow w ON w.pk = t.workflow
WHERE t.queue = ? AND t.ready_ms IS NOT NULL
ORDER BY t.priority DESC, t.ready_ms, t.pk
LIMIT ?

-- name: is ready
SELECT 1 FROM task WHERE queue = ? AND ready_ms IS NOT NULL LIMIT 1

-- name: lease task
UPDATE task SET status = 'IN_PROGRESS', ready_ms = NULL, callback_after_s = 0, poll_count = poll_count + 1,
  lease_no = lease_no + 1, worker_id = ?, lease_ms = ?, wake_ms = ?, started_ms = ?, updated_ms = ?
WHERE pk = ?

-- name: extend lease
UPDATE task SET lease_ms = ?, wake_ms = ?, updated_ms = ? WHERE pk = ?

-- name: touch task
UPDATE task SET updated_ms = ? WHERE pk = ?

-- name: end task
UPDATE task SET status = ?, ended_ms = ?, worker_id = ?, lease_ms = NULL, ready_ms = NULL, due_ms = NULL, wake_ms = NULL
WHERE pk = ?

-- name: set task result
UPDATE task_data SET output = ?, reason = ? WHERE pk = ?

-- name: set task reason
UPDATE task_data SET reason = ? WHERE pk = ?

-- name: requeue task
UPDATE task SET status = 'SCHEDULED', worker_id = ?, callback_after_s = ?, updated_ms = ?, lease_ms = NULL,
  ready_ms = ?, due_ms = ?, wake_ms = ?
WHERE pk = ?

-- name: hold task
UPDATE task SET updated_ms = ?, worker_id = ? WHERE pk = ?

-- name: promote task
UPDATE task SET ready_ms = ?, due_ms = NULL, wake_ms = ? WHERE pk = ?

-- name: set wake
UPDATE task SET wake_ms = ?, alerted = ? WHERE pk = ?

-- name: due tasks
SELECT * FROM task WHERE wake_ms <= ? ORDER BY wake_ms LIMIT ?

-- name: nearest wake
SELECT min(at) FROM (
  SELECT min(wake_ms) AS at FROM task WHERE wake_ms IS NOT NULL
  UNION ALL
  SELECT min(wake_ms) FROM workflow WHERE wake_ms IS NOT NULL
)

-- name: in progress of type
SELECT count(*) FROM task WHERE type = ? AND lease_ms IS NOT NULL

-- name: forget rate starts
DELETE FROM rate_start WHERE type = ? AND at_ms <= ?

-- name: rate starts
SELECT count(*) FROM rate_start WHERE type = ?

-- name: rate start at
SELECT at_ms FROM rate_start WHERE type = ? ORDER BY at_ms LIMIT 1 OFFSET ?

-- name: add rate start
INSERT INTO rate_start (type, at_ms) VALUES (?, ?)

-- name: report
SELECT report_id, verdict FROM report WHERE task = ? AND lease_no = ?

-- name: add report
INSERT INTO report (task, lease_no, report_id, verdict) VALUES (?, ?, ?, ?)

-- name: add log
INSERT INTO task_log (task_id, at_ms, line) VALUES (?, ?, ?)

-- name: logs
SELECT line, at_ms FROM task_log WHERE task_id = ? ORDER BY pk

-- name: last task key
SELECT seq FROM sqlite_sequence WHERE name = 'task'

-- name: open tasks of workflow
SELECT * FROM task WHERE workflow = ? AND executed = 0 AND ended_ms = 0 ORDER BY pk

-- name: pending tasks
SELECT t.*, d.input, d.output, d.reason, y.name FROM task t JOIN task_data d ON d.pk = t.pk JOIN task_type y ON y.pk = t.type
WHERE t.workflow = ? AND t.executed = 0 ORDER BY t.pk

-- name: moving tasks
SELECT t.*, d.input, d.output, d.reason, y.name FROM task t JOIN task_data d ON d.pk = t.pk JOIN task_type y ON y.pk = t.type
WHERE t.workflow = ? AND t.executed = 0 AND NOT (t.kind = 'SIMPLE' AND t.status IN ('SCHEDULED', 'IN_PROGRESS'))
ORDER BY t.pk

-- name: queued tasks
SELECT ref, iteration FROM task INDEXED BY task_pending
WHERE workflow = ? AND executed = 0 AND kind = 'SIMPLE' AND status IN ('SCHEDULED', 'IN_PROGRESS')

-- name: failed tasks
SELECT t.ref, y.name FROM task t JOIN task_type y ON y.pk = t.type
WHERE t.workflow = ? AND (t.status IN ('FAILED', 'FAILED_WITH_TERMINAL_ERROR') OR t.pk = ?) ORDER BY t.pk

-- name: latest task
SELECT t.*, d.input, d.output, d.reason, y.name FROM task t JOIN task_data d ON d.pk = t.pk JOIN task_type y ON y.pk = t.type
WHERE t.workflow = ? AND t.ref = ? ORDER BY t.pk DESC LIMIT 1

-- name: newest round
SELECT max(pk) FROM task
WHERE workflow = ?1 AND ref > ?2 || '__' AND ref < ?2 || '__:' AND ref = ?2 || '__' || iteration

-- name: whole task
SELECT t.*, d.input, d.output, d.reason, y.name FROM task t JOIN task_data d ON d.pk = t.pk JOIN task_type y ON y.pk = t.type
WHERE t.pk = ?

-- name: last task
SELECT t.*, d.input, d.output, d.reason, y.name FROM task t JOIN task_data d ON d.pk = t.pk JOIN task_type y ON y.pk = t.type
WHERE t.pk = (SELECT last_task FROM workflow WHERE pk = ?)

-- name: decided task
UPDATE task SET status = ?, executed = ?, retried = ?, iteration = ?, started_ms = ?, ended_ms = ?, due_ms = ?,
  sub_workflow = ? WHERE pk = ?

-- name: settle task
UPDATE task SET executed = 1 WHERE pk = ?

-- name: set task output
UPDATE task_data SET output = ? WHERE pk = ?

-- name: set task data
UPDATE task_data SET input = ?, output = ?, reason = ? WHERE pk = ?

-- name: remove task
DELETE FROM task WHERE pk = ?

-- name: remove task data
DELETE FROM task_data WHERE pk = ?

-- name: remove task reports
DELETE FROM report WHERE task = ?

-- name: remove task logs
DELETE FROM task_log WHERE task_id = ?

-- name: set sub-workflow
UPDATE task SET sub_workflow = ? WHERE pk = ?

-- name: tasks of workflow
SELECT pk FROM task WHERE workflow = ? ORDER BY pk

-- name: tasks of workflow with data
SELECT t.*, d.input, d.output, d.reason, y.name FROM task t JOIN task_data d ON d.pk = t.pk JOIN task_type y ON y.pk = t.type
WHERE t.workflow = ? ORDER BY t.seq, t.pk

-- name: payload of workflow
SELECT total(length(d.input) + coalesce(length(d.output), 0)) FROM task t JOIN task_data d ON d.pk = t.pk
WHERE t.workflow = ?

-- name: queue size
SELECT count(*) FROM task WHERE queue = ?1 AND ready_ms IS NOT NULL

-- name: queue delayed
SELECT count(*) FROM task WHERE queue = ?1 AND due_ms IS NOT NULL

-- name: all queues
SELECT task_type.name, queue.domain, queue.pk, queue.type FROM queue JOIN task_type ON task_type.pk = queue.type
ORDER BY task_type.name, queue.domain

-- name: open tasks of type
SELECT t.* FROM task t WHERE t.type = ? AND t.queue IS NOT NULL
  AND (t.lease_ms IS NOT NULL OR t.ready_ms IS NOT NULL OR t.due_ms IS NOT NULL)

-- name: limited type
SELECT name FROM task_type WHERE pk = ? AND concurrent_limit > 0

-- name: rate limited queues
SELECT task_type.name, queue.domain, queue.pk, task_type.pk, task_type.concurrent_limit, task_type.rate_limit,
  task_type.rate_window_ms
FROM task_type JOIN queue ON queue.type = task_type.pk
WHERE task_type.rate_limit > 0
