-- name: schedule
SELECT body, created_ms, updated_ms FROM schedule WHERE name = ?

-- name: set schedule
INSERT INTO schedule (name, workflow_name, paused, body, created_ms, updated_ms) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (name) DO UPDATE SET workflow_name = excluded.workflow_name, paused = excluded.paused,
  body = excluded.body, updated_ms = excluded.updated_ms

-- name: drop schedule
DELETE FROM schedule WHERE name = ?

-- name: matching schedules
SELECT name FROM schedule WHERE (:workflow IS NULL OR workflow_name = :workflow)
  AND (:name IS NULL OR instr(name, :name)) AND (:paused IS NULL OR paused = :paused)
  AND (:text IS NULL OR instr(name, :text) OR instr(workflow_name, :text)) ORDER BY name

-- name: next due of schedule
SELECT min(at_ms) FROM schedule_due WHERE schedule = ?

-- name: set due
INSERT INTO schedule_due (schedule, position, at_ms) VALUES (?, ?, ?)
ON CONFLICT (schedule, position) DO UPDATE SET at_ms = excluded.at_ms

-- name: drop due
DELETE FROM schedule_due WHERE schedule = ? AND position = ?

-- name: drop all due
DELETE FROM schedule_due WHERE schedule = ?

-- name: due schedules
SELECT schedule, position, at_ms FROM schedule_due
WHERE at_ms <= ? AND NOT EXISTS (SELECT 1 FROM meta WHERE key = 'schedules paused') ORDER BY at_ms LIMIT ?

-- name: earliest due
SELECT min(at_ms) FROM schedule_due

-- name: pause schedules
INSERT OR REPLACE INTO meta (key, value) VALUES ('schedules paused', x'01')

-- name: resume schedules
DELETE FROM meta WHERE key = 'schedules paused'

-- name: add schedule run
INSERT INTO schedule_run (pk, schedule, due_ms, ran_ms, workflow_name, workflow, state, reason, zone, request)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: forget schedule runs
DELETE FROM schedule_run WHERE pk IN (SELECT pk FROM schedule_run WHERE schedule = ? ORDER BY pk DESC LIMIT 10 OFFSET ?)

-- name: schedule run
SELECT pk, schedule, due_ms, ran_ms, workflow_name, workflow, state, reason, zone, request FROM schedule_run WHERE pk = ?
