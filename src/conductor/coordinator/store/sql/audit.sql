-- name: add audit entry
-- Record an action.
INSERT INTO audit (at_ms, action, actor, worker_id, workflow, subject, reason) VALUES (?, ?, ?, ?, ?, ?, ?)

-- name: keep audit of start
-- Keep the record of a start when its workflow is removed.
INSERT INTO audit (at_ms, action, actor, workflow, subject)
SELECT w.created_ms, 'start', d.started_by, w.pk, w.name
FROM workflow w JOIN workflow_data d ON d.pk = w.pk WHERE w.pk = ? AND d.started_by IS NOT NULL

-- name: audit before
-- A page of the recorded actions, the newest first. The JSON of `actor` begins with the API key.
SELECT at_ms, pk, action, actor, worker_id, workflow, subject, reason FROM audit
WHERE (at_ms, pk) < (:at_ms, :pk) AND (:action IS NULL OR action = :action)
  AND (:key IS NULL OR json_extract(actor, '$[0]') = :key)
ORDER BY at_ms DESC, pk DESC LIMIT :size

-- name: starts before
-- A page of the starts of stored workflows, the newest first.
SELECT w.created_ms, w.pk, 'start', d.started_by, NULL, w.pk, w.name, NULL
FROM workflow w JOIN workflow_data d ON d.pk = w.pk
WHERE w.pk < :pk AND d.started_by IS NOT NULL AND (:key IS NULL OR json_extract(d.started_by, '$[0]') = :key)
ORDER BY w.pk DESC LIMIT :size

-- name: audit of workflow
-- A page of the recorded actions on one workflow, the newest first.
SELECT at_ms, pk, action, actor, worker_id, workflow, subject, reason FROM audit
WHERE workflow = :workflow AND (at_ms, pk) < (:at_ms, :pk) AND (:action IS NULL OR action = :action)
  AND (:key IS NULL OR json_extract(actor, '$[0]') = :key)
ORDER BY at_ms DESC, pk DESC LIMIT :size

-- name: start of workflow
-- The start of one stored workflow.
SELECT w.created_ms, w.pk, 'start', d.started_by, NULL, w.pk, w.name, NULL
FROM workflow w JOIN workflow_data d ON d.pk = w.pk
WHERE w.pk = :workflow AND d.started_by IS NOT NULL AND (:key IS NULL OR json_extract(d.started_by, '$[0]') = :key)

-- name: forget audit
-- Remove the oldest recorded actions that are older than a time, up to a number.
DELETE FROM audit WHERE pk IN (SELECT pk FROM audit WHERE at_ms < ? ORDER BY at_ms, pk LIMIT ?)

-- name: oldest audit
-- The time of the oldest recorded action.
SELECT at_ms FROM audit ORDER BY at_ms LIMIT 1
