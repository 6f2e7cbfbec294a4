-- name: steps after
-- The steps of a task (`line`) after a key, in the order in which they were recorded.
SELECT * FROM step WHERE line = ? AND pk > ? ORDER BY pk

-- name: newest steps
-- The newest steps of a task, with the first bytes of their results.
SELECT name, number, kind, state, started_ms, ended_ms, due_at_ms, workflow, substr(result, 1, ?), length(result)
FROM step WHERE line = ? ORDER BY pk DESC LIMIT ?

-- name: step
-- A step by its name and number.
SELECT * FROM step WHERE line = ? AND name = ? AND number = ?

-- name: waiting steps
-- The steps of a task that wait and that the program has not cancelled, in the order in which they were recorded.
SELECT * FROM step AS s WHERE line = ? AND ended_ms IS NULL
AND NOT EXISTS (SELECT 1 FROM step WHERE line = s.line AND name = 'cancelled ' || s.name AND number = s.number)
ORDER BY pk

-- name: waiting for message
-- The first step of a task that waits for a message with a given name, and that the program has not cancelled.
SELECT * FROM step AS s WHERE line = ? AND ended_ms IS NULL AND kind = 'MESSAGE' AND name = ?
AND NOT EXISTS (SELECT 1 FROM step WHERE line = s.line AND name = 'cancelled ' || s.name AND number = s.number)
ORDER BY pk LIMIT 1

-- name: step of workflow
-- The waiting step that has started a workflow.
SELECT * FROM step WHERE workflow = ? AND ended_ms IS NULL

-- name: add step
-- Record a step.
INSERT INTO step (line, name, number, kind, state, fingerprint, result, started_ms, ended_ms, due_at_ms)
VALUES (:line, :name, :number, :kind, :state, :fingerprint, :result, :started_ms, :ended_ms, :due_at_ms)

-- name: end step
-- End the wait of a step, or let a step whose wait has ended wait again.
UPDATE step SET state = ?, result = ?, ended_ms = ? WHERE pk = ?

-- name: set workflow of step
-- Record which workflow a step has started.
UPDATE step SET workflow = ? WHERE line = ? AND name = ? AND number = ?

-- name: forget step
-- Remove a failed step, so that it runs again in the next attempt.
DELETE FROM step WHERE line = ? AND name = ? AND number = ? AND state = 'FAILED'

-- name: forget ended calls
-- Remove the steps whose called workflow was or will be terminated with its parent, so that a retry calls it again.
DELETE FROM step
WHERE line = ? AND kind = 'WORKFLOW'
AND (
  state = 'FAILED' AND CAST(result AS TEXT) LIKE '{"type":"EndedWithParent"%'
  OR ended_ms IS NULL AND workflow IN (SELECT workflow FROM termination)
)

-- name: remove steps
-- Remove the steps of a task (`line`).
DELETE FROM step WHERE line = ?

-- name: remove steps of workflow
-- Remove the steps of all tasks of a workflow.
DELETE FROM step WHERE line IN (SELECT step_line FROM task WHERE workflow = ? AND step_count > 0)

-- name: running calls
-- The running workflows that the tasks of a workflow have started.
SELECT w.pk FROM task t JOIN workflow w ON w.parent_task = t.pk
WHERE t.workflow = ? AND w.ended_ms IS NULL
