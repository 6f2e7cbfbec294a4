-- name: add workflow
INSERT INTO workflow (name, version, snapshot, status, priority, correlation_id, idempotency_key, parent_task,
  created_ms, updated_ms, wake_ms)
VALUES (?, ?, ?, 'RUNNING', ?, ?, ?, ?, ?, ?, NULL)

-- name: add workflow data
INSERT INTO workflow_data (pk, input, variables, task_to_domain, created_by) VALUES (?, ?, ?, ?, ?)

-- name: workflow
SELECT * FROM workflow WHERE pk = ?

-- name: workflow data
SELECT input, output, variables, task_to_domain, reason, created_by, failed_task FROM workflow_data WHERE pk = ?

-- name: workflow exists
SELECT 1 FROM workflow WHERE pk = ?

-- name: snapshot of workflow
SELECT snapshot FROM workflow WHERE pk = ?

-- name: idempotent workflow
SELECT * FROM workflow WHERE name = ? AND idempotency_key = ? ORDER BY pk DESC LIMIT 1

-- name: decided workflow
UPDATE workflow SET status = ?, updated_ms = ?, wake_ms = ?, last_task = coalesce(?, last_task) WHERE pk = ?

-- name: end workflow
UPDATE workflow SET status = ?, updated_ms = ?, ended_ms = ?, wake_ms = NULL WHERE pk = ?

-- name: reopen workflow
UPDATE workflow SET status = 'RUNNING', updated_ms = ?, ended_ms = NULL, retried_ms = ?, snapshot = ? WHERE pk = ?

-- name: reopen workflow data
UPDATE workflow_data SET output = NULL, reason = NULL, failed_task = NULL WHERE pk = ?

-- name: set workflow wake
UPDATE workflow SET wake_ms = ? WHERE pk = ?

-- name: set workflow input
UPDATE workflow_data SET input = ? WHERE pk = ?

-- name: set workflow variables
UPDATE workflow_data SET variables = ? WHERE pk = ?

-- name: set workflow result
UPDATE workflow_data SET output = ?, reason = ?, failed_task = ? WHERE pk = ?

-- name: set workflow output
UPDATE workflow_data SET output = ? WHERE pk = ?

-- name: due workflows
SELECT * FROM workflow WHERE wake_ms <= ? ORDER BY wake_ms LIMIT ?

-- name: running workflows
SELECT pk FROM workflow WHERE ended_ms IS NULL AND name = ?1 AND (?2 IS NULL OR version = ?2)
  AND created_ms BETWEEN ?3 AND ?4 ORDER BY pk

-- name: correlated workflows
SELECT * FROM workflow WHERE correlation_id = ? AND name = ? AND (? OR ended_ms IS NULL) ORDER BY pk

-- name: remove workflow
DELETE FROM workflow WHERE pk = ?

-- name: remove workflow data
DELETE FROM workflow_data WHERE pk = ?

-- name: ended before
SELECT pk FROM workflow WHERE ended_ms < ? ORDER BY ended_ms LIMIT ?

-- name: ended beyond
SELECT pk FROM workflow WHERE ended_ms IS NOT NULL ORDER BY ended_ms DESC LIMIT ? OFFSET ?

-- name: oldest ended
SELECT min(ended_ms) FROM workflow WHERE ended_ms IS NOT NULL

-- name: remove snapshot
DELETE FROM snapshot WHERE pk = ?1 AND NOT EXISTS (SELECT 1 FROM workflow WHERE snapshot = ?1)
