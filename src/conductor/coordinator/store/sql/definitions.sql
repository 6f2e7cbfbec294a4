-- name: keep secret
-- Store the secret of a new file.
INSERT OR IGNORE INTO meta (key, value) VALUES ('secret', ?)

-- name: replica place
-- The number of the last replica of this database at a URL; the parameter is the digest of the URL.
SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'replica:' || ?

-- name: set replica place
-- Record the number of the last replica of this database at a URL.
INSERT INTO meta (key, value) VALUES ('replica:' || ?, CAST(? AS TEXT)) ON CONFLICT (key) DO UPDATE SET value = excluded.value

-- name: in use
-- Whether the file is marked as in use. The mark remains if the process dies, and in a copy of a file in use.
SELECT 1 FROM meta WHERE key = 'in use'

-- name: begin use
-- Mark the file as in use.
INSERT OR REPLACE INTO meta (key, value) VALUES ('in use', x'01')

-- name: end use
-- Remove the mark that the file is in use.
DELETE FROM meta WHERE key = 'in use'

-- name: touch
-- Write a row without changing it, to find out whether the file is writable.
UPDATE meta SET value = value WHERE key = 'secret'

-- name: secret
-- The secret of the file.
SELECT value FROM meta WHERE key = 'secret'

-- name: last keys
-- The highest key that each table has used so far.
SELECT name, seq FROM sqlite_sequence

-- name: add epoch
-- Record the start of a coordinator.
INSERT INTO epoch (first_workflow, first_task, first_run, nonce) VALUES (?, ?, ?, ?)

-- name: add restored epoch
-- Record that the file was restored, with a number that a day of restarts of the original coordinator does not reach.
INSERT INTO epoch (number, first_workflow, first_task, first_run, nonce)
VALUES ((SELECT coalesce(max(number), 0) + 100000 FROM epoch), ?, ?, ?, ?)

-- name: restored state
-- The time of the newest change, and the numbers of running workflows and of tasks that workers hold.
SELECT (SELECT max(at_ms) FROM (SELECT max(updated_ms) AS at_ms FROM workflow UNION ALL SELECT max(updated_ms) FROM task)),
       (SELECT count(*) FROM workflow WHERE ended_ms IS NULL),
       (SELECT count(*) FROM task WHERE lease_until_ms IS NOT NULL)

-- name: epochs
-- Every start of a coordinator.
SELECT number, first_workflow, first_task, first_run, nonce FROM epoch ORDER BY number

-- name: task type
-- A task type with its definition and its limits.
SELECT pk, definition, concurrent_limit, rate_limit, rate_window_ms FROM task_type WHERE name = ?

-- name: add task type
-- Add a task type without a definition.
INSERT INTO task_type (name) VALUES (?)

-- name: set task type
-- Register the definition of a task type.
INSERT INTO task_type (name, definition, concurrent_limit, rate_limit, rate_window_ms) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (name) DO UPDATE SET definition = excluded.definition, concurrent_limit = excluded.concurrent_limit,
  rate_limit = excluded.rate_limit, rate_window_ms = excluded.rate_window_ms

-- name: set task type limits
-- Set the limits of a task type that has no registered definition.
UPDATE task_type SET concurrent_limit = ?, rate_limit = ?, rate_window_ms = ? WHERE pk = ? AND definition IS NULL

-- name: task definitions
-- Every registered task definition.
SELECT definition FROM task_type WHERE definition IS NOT NULL ORDER BY name

-- name: drop task definition
-- Remove the definition of a task type.
UPDATE task_type SET definition = NULL, concurrent_limit = 0, rate_limit = 0
WHERE name = ? AND definition IS NOT NULL

-- name: queue
-- The key of a queue.
SELECT pk FROM queue WHERE type = ? AND domain = ?

-- name: add queue
-- Add a queue.
INSERT INTO queue (type, domain) VALUES (?, ?)

-- name: queue of
-- The task type and the domain of a queue.
SELECT task_type.name, queue.domain FROM queue JOIN task_type ON task_type.pk = queue.type WHERE queue.pk = ?

-- name: queues of type
-- The queues of a task type.
SELECT pk, domain FROM queue WHERE type = ?

-- name: workflow definition
-- One version of a workflow definition.
SELECT body FROM workflow_def WHERE name = ? AND version = ?

-- name: latest workflow definition
-- The latest version of a workflow definition.
SELECT body FROM workflow_def WHERE name = ? ORDER BY version DESC LIMIT 1

-- name: workflow definitions
-- Every version of every workflow definition.
SELECT body FROM workflow_def ORDER BY name, version

-- name: workflow definition names
-- The names of all workflow definitions.
SELECT DISTINCT name FROM workflow_def ORDER BY name

-- name: workflow definition versions
-- Every version of a workflow definition.
SELECT body FROM workflow_def WHERE name = ? ORDER BY version

-- name: set workflow definition
-- Register one version of a workflow definition.
INSERT INTO workflow_def (name, version, body, created_ms, updated_ms) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (name, version) DO UPDATE SET body = excluded.body, updated_ms = excluded.updated_ms

-- name: drop workflow definition
-- Remove one version of a workflow definition.
DELETE FROM workflow_def WHERE name = ? AND version = ?

-- name: add snapshot
-- Store a snapshot, unless it exists.
INSERT OR IGNORE INTO snapshot (pk, body) VALUES (?, ?)

-- name: snapshot
-- A snapshot by its key.
SELECT body FROM snapshot WHERE pk = ?

-- name: schema
-- One version of a JSON schema.
SELECT body FROM json_schema WHERE name = ? AND version = ?

-- name: latest schema
-- The latest version of a JSON schema.
SELECT body FROM json_schema WHERE name = ? ORDER BY version DESC LIMIT 1

-- name: schemas
-- Every version of every JSON schema.
SELECT body FROM json_schema ORDER BY name, version

-- name: set schema
-- Register one version of a JSON schema.
INSERT INTO json_schema (name, version, body) VALUES (?, ?, ?)
ON CONFLICT (name, version) DO UPDATE SET body = excluded.body

-- name: drop schema
-- Remove one version of a JSON schema.
DELETE FROM json_schema WHERE name = ? AND version = ?

-- name: drop schemas
-- Remove every version of a JSON schema.
DELETE FROM json_schema WHERE name = ?
