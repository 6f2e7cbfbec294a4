-- name: workflow
SELECT * FROM workflow WHERE pk = ?

-- name: workflow data
-- What a workflow gives is most often what its last task gave, and is stored there only.
SELECT d.input, coalesce(d.output, CASE w.status WHEN 'COMPLETED' THEN
    (SELECT t.output FROM task_data t WHERE t.pk = w.last_task) END),
  d.variables, d.task_to_domain, d.reason, d.created_by, d.failed_task
FROM workflow_data d JOIN workflow w ON w.pk = d.pk WHERE d.pk = ?

-- name: snapshot of workflow
SELECT snapshot FROM workflow WHERE pk = ?

-- name: used idempotency keys
SELECT DISTINCT idempotency_key FROM workflow
WHERE name = ? AND idempotency_key IN (SELECT value FROM json_each(?))

-- name: idempotent workflow
SELECT * FROM workflow WHERE name = ? AND idempotency_key = ? ORDER BY pk DESC LIMIT 1

-- name: mark for termination
INSERT OR IGNORE INTO termination (workflow, reason)
SELECT w.pk, ? FROM workflow w JOIN task t ON t.pk = w.parent_task
WHERE w.pk = ? AND t.workflow = ? AND w.ended_ms IS NULL

-- name: marked for termination
SELECT workflow FROM termination ORDER BY workflow DESC LIMIT ?

-- name: reason of termination
SELECT reason FROM termination WHERE workflow = ?

-- name: unmark for termination
DELETE FROM termination WHERE workflow = ?

-- name: due workflows
SELECT pk FROM workflow WHERE wake_at_ms <= ? ORDER BY wake_at_ms LIMIT ?

-- name: running workflows
SELECT pk FROM workflow WHERE ended_ms IS NULL AND name = :name AND (:version IS NULL OR version = :version)
  AND created_ms BETWEEN :from AND :to ORDER BY pk

-- name: correlated workflows
SELECT * FROM workflow WHERE correlation_id = ? AND name = ? AND (? OR ended_ms IS NULL) ORDER BY pk

-- name: end workflow unread
UPDATE workflow SET status = 'FAILED', updated_ms = ?, ended_ms = ?, wake_at_ms = NULL WHERE pk = ?

-- name: set workflow result
UPDATE workflow_data SET output = ?, reason = ? WHERE pk = ?

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
DELETE FROM snapshot WHERE pk = :pk AND NOT EXISTS (SELECT 1 FROM workflow WHERE snapshot = :pk)

-- name: suspects
SELECT workflow, times FROM suspect

-- name: suspect
INSERT INTO suspect (workflow, times) VALUES (?, 1) ON CONFLICT (workflow) DO UPDATE SET times = times + 1

-- name: clear suspect
DELETE FROM suspect WHERE workflow = ?

-- name: turn
SELECT name, key, place, asked FROM turn WHERE workflow = ?

-- name: line up
INSERT INTO turn (workflow, name, key, asked, place) VALUES (:workflow, :name, :key, :asked,
  (SELECT coalesce(max(place), 0) + 1 FROM turn WHERE name = :name AND key = :key))

-- name: running in line
SELECT count(*) FROM (SELECT 1 FROM turn WHERE name = ? AND key = ? AND place IS NULL LIMIT ?)

-- name: before in line
SELECT count(*) FROM (
  SELECT 1 FROM turn t JOIN workflow w ON w.pk = t.workflow
  WHERE t.name = ? AND t.key = ? AND (t.place IS NULL OR (t.place < ? AND w.status = 'RUNNING')) LIMIT ?)

-- name: first in line
SELECT t.workflow FROM turn t JOIN workflow w ON w.pk = t.workflow
  WHERE t.name = ? AND t.key = ? AND t.place IS NOT NULL AND w.status = 'RUNNING' ORDER BY t.place LIMIT 1

-- name: begin turn
UPDATE turn SET place = NULL, asked = NULL WHERE workflow = ?

-- name: leave line
DELETE FROM turn WHERE workflow = ?
