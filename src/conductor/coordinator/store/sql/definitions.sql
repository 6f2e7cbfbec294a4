-- name: keep secret
INSERT OR IGNORE INTO meta (key, value) VALUES ('secret', ?)

-- name: in use
SELECT 1 FROM meta WHERE key = 'in use'

-- name: begin use
INSERT OR REPLACE INTO meta (key, value) VALUES ('in use', x'01')

-- name: end use
DELETE FROM meta WHERE key = 'in use'

-- name: touch
UPDATE meta SET value = value WHERE key = 'secret'

-- name: secret
SELECT value FROM meta WHERE key = 'secret'

-- name: last keys
SELECT name, seq FROM sqlite_sequence

-- name: add epoch
INSERT INTO epoch (first_workflow, first_task, first_run, nonce) VALUES (?, ?, ?, ?)

-- name: epochs
SELECT number, first_workflow, first_task, first_run, nonce FROM epoch ORDER BY number

-- name: task type
SELECT pk, definition, concurrent_limit, rate_limit, rate_window_ms FROM task_type WHERE name = ?

-- name: add task type
INSERT INTO task_type (name) VALUES (?)

-- name: set task type
INSERT INTO task_type (name, definition, concurrent_limit, rate_limit, rate_window_ms) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (name) DO UPDATE SET definition = excluded.definition, concurrent_limit = excluded.concurrent_limit,
  rate_limit = excluded.rate_limit, rate_window_ms = excluded.rate_window_ms

-- name: set task type limits
UPDATE task_type SET concurrent_limit = ?, rate_limit = ?, rate_window_ms = ? WHERE pk = ? AND definition IS NULL

-- name: task definitions
SELECT definition FROM task_type WHERE definition IS NOT NULL ORDER BY name

-- name: drop task definition
UPDATE task_type SET definition = NULL, concurrent_limit = 0, rate_limit = 0
WHERE name = ? AND definition IS NOT NULL

-- name: queue
SELECT pk FROM queue WHERE type = ? AND domain = ?

-- name: add queue
INSERT INTO queue (type, domain) VALUES (?, ?)

-- name: queue of
SELECT task_type.name, queue.domain FROM queue JOIN task_type ON task_type.pk = queue.type WHERE queue.pk = ?

-- name: queues of type
SELECT pk, domain FROM queue WHERE type = ?

-- name: workflow definition
SELECT body FROM workflow_def WHERE name = ? AND version = ?

-- name: latest workflow definition
SELECT body FROM workflow_def WHERE name = ? ORDER BY version DESC LIMIT 1

-- name: workflow definitions
SELECT body FROM workflow_def ORDER BY name, version

-- name: workflow definition versions
SELECT body FROM workflow_def WHERE name = ? ORDER BY version

-- name: set workflow definition
INSERT INTO workflow_def (name, version, body, created_ms, updated_ms) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (name, version) DO UPDATE SET body = excluded.body, updated_ms = excluded.updated_ms

-- name: drop workflow definition
DELETE FROM workflow_def WHERE name = ? AND version = ?

-- name: add snapshot
INSERT OR IGNORE INTO snapshot (pk, body) VALUES (?, ?)

-- name: snapshot
SELECT body FROM snapshot WHERE pk = ?

-- name: schema
SELECT body FROM json_schema WHERE name = ? AND version = ?

-- name: latest schema
SELECT body FROM json_schema WHERE name = ? ORDER BY version DESC LIMIT 1

-- name: schemas
SELECT body FROM json_schema ORDER BY name, version

-- name: set schema
INSERT INTO json_schema (name, version, body) VALUES (?, ?, ?)
ON CONFLICT (name, version) DO UPDATE SET body = excluded.body

-- name: drop schema
DELETE FROM json_schema WHERE name = ? AND version = ?

-- name: drop schemas
DELETE FROM json_schema WHERE name = ?
