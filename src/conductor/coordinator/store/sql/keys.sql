-- name: key secrets
-- Every API key with each of its secrets, the oldest secret first.
SELECT k.pk, k.name, k.roles, k.task_types, k.created_ms, s.pk, s.digest, s.created_ms, s.expires_ms
FROM api_key k JOIN api_key_secret s ON s.key = k.pk ORDER BY s.pk

-- name: add key
-- Create a key.
INSERT INTO api_key (name, roles, task_types, created_ms) VALUES (?, ?, ?, ?)

-- name: drop key
-- Remove a key.
DELETE FROM api_key WHERE pk = ?

-- name: add key secret
-- Add a secret to the key with a name.
INSERT INTO api_key_secret (key, digest, created_ms)
SELECT pk, :digest, :now_ms FROM api_key WHERE name = :name

-- name: end key secrets
-- Set when the secrets of a key expire.
UPDATE api_key_secret SET expires_ms = ? WHERE key = ?

-- name: forget key secrets
-- Remove all secrets of a key except one.
DELETE FROM api_key_secret WHERE key = ? AND pk <> ?

-- name: drop key secrets
-- Remove all secrets of a key.
DELETE FROM api_key_secret WHERE key = ?
