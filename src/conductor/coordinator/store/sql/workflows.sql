-- name: workflow
-- A workflow by its key.
SELECT * FROM workflow WHERE pk = ?

-- name: workflow data
-- The payload of a workflow. The output of a COMPLETED workflow may be stored only with its last task.
SELECT d.input, coalesce(d.output, CASE w.status WHEN 'COMPLETED' THEN
    (SELECT t.output FROM task_data t WHERE t.pk = w.last_task) END),
  d.variables, d.task_to_domain, d.reason, d.created_by, d.failed_task, d.started_by
FROM workflow_data d JOIN workflow w ON w.pk = d.pk WHERE d.pk = ?

-- name: snapshot of workflow
-- The snapshot that a workflow runs with.
SELECT snapshot FROM workflow WHERE pk = ?

-- name: used idempotency keys
-- The given idempotency keys that workflows already use.
SELECT DISTINCT idempotency_key FROM workflow
WHERE name = ? AND idempotency_key IN (SELECT value FROM json_each(?))

-- name: idempotent workflow
-- The newest workflow with an idempotency key.
SELECT * FROM workflow WHERE name = ? AND idempotency_key = ? ORDER BY pk DESC LIMIT 1

-- name: mark for termination
-- Mark a running sub-workflow of a parent for termination.
INSERT OR IGNORE INTO termination (workflow, reason)
SELECT w.pk, ? FROM workflow w JOIN task t ON t.pk = w.parent_task
WHERE w.pk = ? AND t.workflow = ? AND w.ended_ms IS NULL

-- name: marked for termination
-- Sub-workflows that are marked for termination.
SELECT workflow FROM termination ORDER BY workflow DESC LIMIT ?

-- name: reason of termination
-- Why a marked sub-workflow is terminated.
SELECT reason FROM termination WHERE workflow = ?

-- name: unmark for termination
-- Remove the mark of a sub-workflow.
DELETE FROM termination WHERE workflow = ?

-- name: due workflows
-- Workflows with a passed deadline.
SELECT pk FROM workflow WHERE wake_at_ms <= ? ORDER BY wake_at_ms LIMIT ?

-- name: running workflows
-- The running workflows of a name that started in a time span, of one version or of all.
SELECT pk FROM workflow WHERE ended_ms IS NULL AND name = :name AND (:version IS NULL OR version = :version)
  AND created_ms BETWEEN :from AND :to ORDER BY pk

-- name: correlated workflows
-- The workflows of a name with a correlation id, including ended ones if the third parameter is true.
SELECT * FROM workflow WHERE correlation_id = ? AND name = ? AND (? OR ended_ms IS NULL) ORDER BY pk

-- name: end workflow unread
-- Fail a workflow without reading its data, because the data cannot be read.
UPDATE workflow SET status = 'FAILED', updated_ms = ?, ended_ms = ?, wake_at_ms = NULL WHERE pk = ?

-- name: set workflow result
-- Set the output and the reason of a workflow.
UPDATE workflow_data SET output = ?, reason = ? WHERE pk = ?

-- name: remove workflow
-- Remove the row of a workflow.
DELETE FROM workflow WHERE pk = ?

-- name: remove workflow data
-- Remove the payload of a workflow.
DELETE FROM workflow_data WHERE pk = ?

-- name: ended before
-- The workflows that ended before a time, oldest first.
SELECT pk FROM workflow WHERE ended_ms < ? ORDER BY ended_ms LIMIT ?

-- name: ended beyond
-- The ended workflows, without the newest n.
SELECT pk FROM workflow WHERE ended_ms IS NOT NULL ORDER BY ended_ms DESC LIMIT ? OFFSET ?

-- name: oldest ended
-- When the oldest finished workflow ended.
SELECT min(ended_ms) FROM workflow WHERE ended_ms IS NOT NULL

-- name: remove snapshot
-- Remove a snapshot that no workflow uses.
DELETE FROM snapshot WHERE pk = :pk AND NOT EXISTS (SELECT 1 FROM workflow WHERE snapshot = :pk)

-- name: suspects
-- Workflows in whose steps a process has died.
SELECT workflow, times FROM suspect

-- name: suspect
-- Count the death of a process in a step of a workflow.
INSERT INTO suspect (workflow, times) VALUES (?, 1) ON CONFLICT (workflow) DO UPDATE SET times = times + 1

-- name: clear suspect
-- Remove the count of deaths in steps of a workflow.
DELETE FROM suspect WHERE workflow = ?

-- name: turn
-- The place of a workflow in the line of its rate limit.
SELECT name, key, place, asked FROM turn WHERE workflow = ?

-- name: line up
-- Give a workflow the last place in the line of its rate limit.
INSERT INTO turn (workflow, name, key, asked, place) VALUES (:workflow, :name, :key, :asked,
  (SELECT coalesce(max(place), 0) + 1 FROM turn WHERE name = :name AND key = :key))

-- name: running in line
-- The number of workflows that run under a rate limit. Counts no further than the given maximum.
SELECT count(*) FROM (SELECT 1 FROM turn WHERE name = ? AND key = ? AND place IS NULL LIMIT ?)

-- name: before in line
-- The number of workflows that run, or that wait ahead of a place and are not paused, up to the given maximum.
SELECT count(*) FROM (
  SELECT 1 FROM turn t JOIN workflow w ON w.pk = t.workflow
  WHERE t.name = ? AND t.key = ? AND (t.place IS NULL OR (t.place < ? AND w.status = 'RUNNING')) LIMIT ?)

-- name: first in line
-- The first workflow that waits under a rate limit and is not paused.
SELECT t.workflow FROM turn t JOIN workflow w ON w.pk = t.workflow
  WHERE t.name = ? AND t.key = ? AND t.place IS NOT NULL AND w.status = 'RUNNING' ORDER BY t.place LIMIT 1

-- name: begin turn
-- Let a waiting workflow run.
UPDATE turn SET place = NULL, asked = NULL WHERE workflow = ?

-- name: leave line
-- Remove a workflow from the line of its rate limit.
DELETE FROM turn WHERE workflow = ?
