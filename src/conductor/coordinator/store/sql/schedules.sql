-- name: schedule
-- A schedule by its name.
SELECT body, created_ms, updated_ms FROM schedule WHERE name = ?

-- name: set schedule
-- Create or replace a schedule.
INSERT INTO schedule (name, workflow_name, paused, body, created_ms, updated_ms) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (name) DO UPDATE SET workflow_name = excluded.workflow_name, paused = excluded.paused,
  body = excluded.body, updated_ms = excluded.updated_ms

-- name: drop schedule
-- Remove a schedule.
DELETE FROM schedule WHERE name = ?

-- name: matching schedules
-- The names of the schedules that match all given conditions.
SELECT name FROM schedule WHERE (:workflow IS NULL OR workflow_name = :workflow)
  AND (:name IS NULL OR instr(name, :name)) AND (:paused IS NULL OR paused = :paused)
  AND (:text IS NULL OR instr(name, :text) OR instr(workflow_name, :text)) ORDER BY name

-- name: next due of schedule
-- The next due time of a schedule.
SELECT min(at_ms) FROM schedule_due WHERE schedule = ?

-- name: set due
-- Set the next due time of one cron expression of a schedule.
INSERT INTO schedule_due (schedule, position, at_ms) VALUES (?, ?, ?)
ON CONFLICT (schedule, position) DO UPDATE SET at_ms = excluded.at_ms

-- name: drop due
-- Remove the due time of one cron expression of a schedule.
DELETE FROM schedule_due WHERE schedule = ? AND position = ?

-- name: drop all due
-- Remove all due times of a schedule.
DELETE FROM schedule_due WHERE schedule = ?

-- name: due schedules
-- Due times that have passed, unless all schedules are paused.
SELECT schedule, position, at_ms FROM schedule_due
WHERE at_ms <= ? AND NOT EXISTS (SELECT 1 FROM meta WHERE key = 'schedules paused') ORDER BY at_ms LIMIT ?

-- name: late due times
-- How many due times are older than a time, unless all schedules are paused.
SELECT count(*) FROM schedule_due
WHERE at_ms < ? AND NOT EXISTS (SELECT 1 FROM meta WHERE key = 'schedules paused')

-- name: earliest due
-- The earliest due time of all schedules.
SELECT min(at_ms) FROM schedule_due

-- name: pause schedules
-- Pause all schedules.
INSERT OR REPLACE INTO meta (key, value) VALUES ('schedules paused', x'01')

-- name: resume schedules
-- Resume all schedules.
DELETE FROM meta WHERE key = 'schedules paused'

-- name: add schedule run
-- Record a run of a schedule.
INSERT INTO schedule_run (pk, schedule, due_ms, ran_ms, workflow_name, workflow, state, reason, zone, request)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: forget schedule runs
-- Keep the newest n runs of a schedule. Removes at most 10 older runs.
DELETE FROM schedule_run WHERE pk IN (SELECT pk FROM schedule_run WHERE schedule = ? ORDER BY pk DESC LIMIT 10 OFFSET ?)

-- name: schedule run
-- A run of a schedule by its key.
SELECT pk, schedule, due_ms, ran_ms, workflow_name, workflow, state, reason, zone, request FROM schedule_run WHERE pk = ?
